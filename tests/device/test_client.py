"""Invariants: a simulated device goes all the way, from the OTA address to the last frame, and
tells what a real one would have lost; whatever keeps it from that is said with what mends it.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

from pipeline.access import tls_of
from pipeline.device.client import DeviceClient, DeviceKind
from pipeline.talk.endpoint import Endpoint
from pipeline.talk.stereo import RATE
from services.llm.service import AnswerService
from services.scripted.speech import synthetic_speech
from tests.daemon.inside import inside
from tests.talk.served import daemon, scripted_config
from tests.xiaozhi.served import STORY
from tts_engine.errors import DuplexdError, EngineFailed, TimedOut

SETS = {"scripted.replies": json.dumps([STORY], ensure_ascii=False)}
SPEECH = synthetic_speech(seconds=0.8, rate=RATE)


@pytest.mark.parametrize(
    "kind",
    [
        DeviceKind(firmware="1.6.0"),
        DeviceKind(mode="manual", framing=3),
        DeviceKind(mode="realtime", framing=2, wake_word="你好小智"),
    ],
    ids=lambda kind: kind.mode,
)
async def test_a_conversation(kind: DeviceKind, tmp_path: Path) -> None:
    async with inside(SETS) as daemon:
        client = DeviceClient(Endpoint.of(daemon.address), kind)
        turns = await client.talk([SPEECH, SPEECH])
        await daemon.empty()
    assert [turn["utterance"] for turn in turns] == [0, 1]
    for turn in turns:
        assert turn["answer"] == STORY
        assert turn["status"] == "completed"
        assert 50 < turn["v2v_ms"] < 5_000
        device = turn["device"]
        assert device["frames"] > 30
        assert device["outside"] == device["lost_at_start"] == device["overflowed"] == 0
        assert device["cut_ms"] == 0
        assert turn["audio_s"] == pytest.approx(device["frames"] * 0.06, abs=0.01)
    assert np.abs(client.recording.right()).max() > 1000


async def test_a_daemon_that_does_not_know_it(tmp_path: Path) -> None:
    sets = {
        **SETS,
        "xiaozhi.auth": "on",
        "xiaozhi.enrolment": "code",
        "xiaozhi.devices_file": tmp_path / "devices.json",
    }
    async with inside(sets) as daemon:
        with pytest.raises(EngineFailed) as failed:
            await DeviceClient(Endpoint.of(daemon.address), DeviceKind()).talk([SPEECH])
    assert "run.py devices approve" in failed.value.mend


async def test_a_token_is_shown(tmp_path: Path) -> None:
    sets = {
        **SETS,
        "xiaozhi.auth": "on",
        "xiaozhi.enrolment": "open",
        "xiaozhi.devices_file": tmp_path / "devices.json",
    }
    async with inside(sets) as daemon:
        turns = await DeviceClient(Endpoint.of(daemon.address), DeviceKind()).talk([SPEECH])
        assert turns[0]["answer"] == STORY


async def test_nobody_is_there() -> None:
    with pytest.raises(DuplexdError, match="No daemon can be reached"):
        await DeviceClient(Endpoint.of("127.0.0.1:9"), DeviceKind()).talk([SPEECH])


async def test_tls_of_an_authority_of_its_own() -> None:
    config = scripted_config(f"scripted.replies=[{STORY}]", "server.tls=auto")
    tls = tls_of(config.server)
    assert tls is not None
    kind = DeviceKind(mode="realtime", framing=2)
    async with daemon(config) as address:
        trusted = Endpoint.of(address, cacert=tls.authority)
        [turn] = await DeviceClient(trusted, kind).talk([SPEECH])
        assert turn["answer"] == STORY
        with pytest.raises(EngineFailed, match="is not trusted") as failed:
            await DeviceClient(Endpoint.of(f"https://{address}"), kind).talk([SPEECH])
        assert "--cacert FILE" in failed.value.mend


async def test_devices_are_not_wanted() -> None:
    async with inside({**SETS, "xiaozhi.enabled": "false"}) as daemon:
        with pytest.raises(EngineFailed, match="does not answer"):
            await DeviceClient(Endpoint.of(daemon.address), DeviceKind()).talk([SPEECH])


async def test_nothing_is_heard_of_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.device.client._QUIET_S", 0.5)
    async with inside(SETS) as daemon:
        silence = np.zeros(RATE // 4, np.int16)
        assert await DeviceClient(Endpoint.of(daemon.address), DeviceKind()).talk([silence]) == []


async def test_an_answer_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(AnswerService, "_ask", hangs)
    async with inside(SETS) as daemon:
        client = DeviceClient(Endpoint.of(daemon.address), DeviceKind())
        with pytest.raises(TimedOut, match="not over after 1 s"):
            await client.talk([SPEECH], turn_timeout_s=1.0)
