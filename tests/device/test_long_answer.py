"""Invariant: devices with the smallest queue and with the largest one hear every frame of a long
answer, without a gap, from its first sound to its last.
"""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest

from pipeline.device.client import DeviceClient, DeviceKind
from pipeline.talk.endpoint import Endpoint
from pipeline.talk.stereo import RATE
from services.scripted.speech import synthetic_speech
from tests.daemon.process import serving

SENTENCES = "".join(f"这是第{number}句话，听上去很平常。" for number in "一二三四五六七八九十")
LONG = SENTENCES * 3 + SENTENCES[: len(SENTENCES) // 5]


@pytest.mark.alone
@pytest.mark.timeout(240)
async def test_a_minute_is_heard_whole() -> None:
    speech = synthetic_speech(seconds=0.8, rate=RATE)
    sets = {"scripted.replies": json.dumps([LONG], ensure_ascii=False)}
    kinds = [
        DeviceKind(firmware="1.6.0", device_id="02:00:00:00:00:01"),
        DeviceKind(firmware="2.2.2", device_id="02:00:00:00:00:02", framing=3),
    ]
    async with serving(sets=sets) as daemon:
        at = Endpoint.of(daemon.http.split("//")[1])
        clients = [DeviceClient(at, kind) for kind in kinds]
        talks = [client.talk([speech], turn_timeout_s=150) for client in clients]
        for client, [turn] in zip(clients, await asyncio.gather(*talks), strict=True):
            assert turn["audio_s"] >= 59
            frames = turn["device"]["frames"]
            assert turn["audio_s"] == pytest.approx(frames * 0.06, abs=0.01)  # each was heard
            assert turn["device"] == {**dict.fromkeys(turn["device"], 0), "frames": frames}
            heard = np.concatenate([piece.samples for piece in client.recording.heard.pieces])
            assert np.abs(heard[: RATE // 10]).max() > 1000
            assert np.abs(heard[-RATE // 10 - RATE * 6 // 100 :]).max() > 1000
