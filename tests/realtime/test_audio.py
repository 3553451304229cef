"""Invariants: nothing is held back on the way to 16 kHz, pieces do not matter, nothing folds."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.realtime.audio import DELAY_S, Downsampler, decode_audio, encode_audio
from tts_engine.errors import BadAudio


def tone(hertz: float, seconds: float = 1.0, rate: int = 24_000) -> np.ndarray:
    return 10_000 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)


def resample(samples: np.ndarray, pieces: list[int]) -> np.ndarray:
    downsampler, pcm, out = Downsampler(), samples.astype("<i2").tobytes(), b""
    at = 0
    for piece in [*pieces, len(samples)]:
        out += downsampler.push(pcm[2 * at : 2 * (at + piece)])
        at += piece
    return np.frombuffer(out, "<i2").astype(np.float64)


def level_db(samples: np.ndarray) -> float:
    return 20 * np.log10(np.sqrt((samples**2).mean()) / (10_000 / np.sqrt(2)))


@pytest.mark.parametrize("frame", [480, 960, 1440])
def test_every_frame_comes_out_whole_and_at_once(frame):
    downsampler = Downsampler()
    for _ in range(5):
        assert len(downsampler.push(bytes(2 * frame))) == 2 * frame * 2 // 3


@pytest.mark.parametrize("hertz", [100, 1000, 4000, 7000])
def test_speech_band_passes(hertz):
    assert abs(level_db(resample(tone(hertz), [480] * 50)[500:])) < 0.2


@pytest.mark.parametrize("hertz", [9000, 10_000, 11_500])
def test_what_would_fold_is_gone(hertz):
    assert level_db(resample(tone(hertz), [480] * 50)[500:]) < -55


def test_delay_is_one_millisecond():
    out = resample(tone(300), [480] * 50)
    late = 10_000 * np.sin(2 * np.pi * 300 * (np.arange(len(out)) / 16_000 - DELAY_S))
    assert DELAY_S < 0.001
    assert np.abs(out - late)[500:].max() < 10


def test_full_scale_is_clipped_not_wrapped():
    square = np.where(tone(500) > 0, 32_767, -32_768)
    out = resample(square, [480] * 50)
    assert out.max() == 32_767
    assert out.min() == -32_768
    plateau = np.abs(tone(500, rate=16_000)) > 7_000
    late = 16  # the filter's delay, in samples
    wrong = np.sign(out[late:]) != np.sign(tone(500, rate=16_000)[:-late])
    assert not (wrong & plateau[:-late])[500:].any()


@given(st.lists(st.integers(0, 900), max_size=30))
def test_pieces_do_not_matter(pieces):
    samples = np.random.default_rng(0).integers(-9000, 9000, 6000)
    pieces = pieces if sum(pieces) <= 6000 else []
    whole = resample(samples, [])
    cut = resample(samples, pieces)
    assert len(whole) == len(cut) == 4000
    assert np.abs(whole - cut).max() <= 1


def test_base64_round_trip():
    pcm = bytes(range(256))
    assert encode_audio(pcm) == base64.b64encode(pcm).decode()
    assert decode_audio(encode_audio(pcm)) == pcm


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("AAA=", None),
        ("AAAA", "3 bytes"),
        ("AA", "base64"),
        ("AAA\n", "base64"),
        ("****", "base64"),
        ("音音音音", "base64"),
    ],
)
def test_bad_audio_is_named(text, message):
    if message is None:
        assert decode_audio(text) == b"\0\0"
        return
    with pytest.raises(BadAudio, match=message):
        decode_audio(text)
