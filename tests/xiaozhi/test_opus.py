"""Invariants: every packet gives audio, as long as it says; what is corrupt or empty is as long as
the one before it; nothing raises.
"""

from __future__ import annotations

import numpy as np
import opuslib_next
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scripted.speech import synthetic_speech
from services.xiaozhi.events import AudioFormat
from services.xiaozhi.opus import (
    OpusDecoder,
    OpusEncoder,
    PcmDecoder,
    PcmEncoder,
    decoder_of,
    encoder_of,
)

SPEECH = synthetic_speech(seconds=1.2, rate=16_000)


def packets(frame_ms: int) -> list[bytes]:
    encoder = opuslib_next.Encoder(16_000, 1, "audio")
    size = 16 * frame_ms
    frames = SPEECH[: len(SPEECH) // size * size].reshape(-1, size)
    return [encoder.encode(frame.tobytes(), size) for frame in frames]


@pytest.mark.parametrize("frame_ms", [20, 40, 60])
def test_a_packet_tells_its_length(frame_ms: int) -> None:
    decoder = OpusDecoder()
    assert {len(decoder.decode(each)) for each in packets(frame_ms)} == {frame_ms * 32}
    for lost in (b"", b"\xff" * 9):
        assert len(decoder.decode(lost)) == frame_ms * 32
    assert decoder.corrupt == 1


def test_what_is_decoded_is_what_was_said() -> None:
    decoder = OpusDecoder()
    heard = np.frombuffer(b"".join(map(decoder.decode, packets(60))), np.int16).astype(float)
    said = SPEECH[: len(heard)].astype(float)
    delay = int(np.argmax(np.correlate(heard[:8000], said[:6000], "valid")))
    match = np.corrcoef(heard[delay : delay + 12_000], said[:12_000])[0, 1]
    assert match > 0.8


@given(st.lists(st.binary(max_size=80), max_size=20))
def test_any_bytes(given_packets: list[bytes]) -> None:
    decoder = OpusDecoder()
    for packet in given_packets:
        pcm = decoder.decode(packet)
        assert 0 < len(pcm) <= 120 * 32
        assert len(pcm) % 2 == 0
    assert len(decoder.decode(packets(60)[0])) == 60 * 32


def test_a_state_that_cannot_conceal_is_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = OpusDecoder()

    def broken(*_: object) -> bytes:
        raise opuslib_next.OpusError(-3)

    monkeypatch.setattr(decoder._decoder, "decode", broken)
    assert decoder.decode(b"") == bytes(60 * 32)


def test_frames_are_filled_up_and_an_answer_begins_anew() -> None:
    encoder = OpusEncoder()
    frame = synthetic_speech(seconds=0.12, rate=24_000)[:1440].tobytes()
    first = encoder.encode(frame)
    encoder.encode(frame[:1000])
    encoder.reset()
    assert encoder.encode(frame) == first
    assert opuslib_next.Decoder(24_000, 1).decode(first, 1440)


def test_pcm() -> None:
    decoder = PcmDecoder()
    assert decoder.decode(b"\1\0\2") + decoder.decode(b"\0") == b"\1\0\2\0"
    resampling = PcmDecoder(rate=24_000)
    second = sum(len(resampling.decode(bytes(960))) for _ in range(100)) / 2
    assert second == pytest.approx(32_000, rel=0.02)
    encoder = PcmEncoder()
    encoder.reset()
    assert encoder.encode(b"\1\0") == b"\1\0" + bytes(2878)


def test_a_device_chooses() -> None:
    assert isinstance(decoder_of(AudioFormat()), OpusDecoder)
    assert isinstance(decoder_of(AudioFormat(format="pcm")), PcmDecoder)
    assert isinstance(encoder_of(AudioFormat(), sample_rate=24_000, frame_ms=60), OpusEncoder)
    pcm = encoder_of(AudioFormat(format="pcm"), sample_rate=24_000, frame_ms=60)
    assert isinstance(pcm, PcmEncoder)
