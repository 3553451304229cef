"""At most 20 ms of silence before speech, the pause of its punctuation behind it, no click."""

from __future__ import annotations

import numpy as np
import pytest

from tts_engine.kokoro import trim

RATE = trim.SAMPLE_RATE


def tone(before_s: float, tone_s: float, after_s: float) -> trim.Samples:
    wave = 0.3 * np.sin(2 * np.pi * 220 * np.arange(round(tone_s * RATE)) / RATE)
    parts = [np.zeros(round(before_s * RATE)), wave, np.zeros(round(after_s * RATE))]
    return np.concatenate(parts).astype(np.float32)


@pytest.mark.parametrize("before_s", [0.0, 0.003, 0.075, 0.5])
def test_leading_silence(before_s: float) -> None:
    samples = tone(before_s, 0.3, 0.2)
    start, stop = trim.sounding(samples)
    pcm = trim.shape(samples, start, stop, RATE // 4)
    assert np.flatnonzero(np.abs(pcm) > 300)[0] < 0.02 * RATE
    assert abs(len(pcm) / RATE - 0.3 - 0.25 - min(before_s, 0.01)) <= 0.02


def test_the_pause_is_silence_where_the_model_made_none() -> None:
    samples = tone(0.1, 0.3, 0.0)
    start, stop = trim.sounding(samples)
    pcm = trim.shape(samples, start, stop, RATE // 10)
    assert len(pcm) == stop + RATE // 10 - (start - trim.LEAD)
    assert not pcm[-RATE // 10 :].any()


def test_cuts_do_not_click() -> None:
    samples = np.full(RATE, 0.5, np.float32)
    pcm = trim.shape(samples, 0, RATE, 0)
    assert pcm[0] == 0
    assert pcm[-1] == 0
    assert np.abs(np.diff(pcm.astype(np.int32))).max() < 200


def test_overload_is_clipped() -> None:
    pcm = trim.shape(np.array([2.0, -2.0] * 500, np.float32), 0, 1000, 0)
    assert (pcm.min(), pcm.max()) == (-32768, 32767)


@pytest.mark.parametrize("length", [0, 100, 500, 5000])
def test_nothing_sounds(length: int) -> None:
    assert trim.sounding(np.zeros(length, np.float32)) == (0, 0)


def test_a_crackle_is_no_speech() -> None:
    samples = np.zeros(RATE, np.float32)
    samples[1000:1100] = 0.5
    assert trim.sounding(samples) == (0, 0)


@pytest.mark.parametrize(
    "symbols,pause_ms",
    [("xau↓,", 80), ("xau↓.", 250), ("xau↓?”", 250), ("xau↓… ", 80), ("xau↓", 40), ("", 40)],
)
def test_pause_by_punctuation(symbols: str, pause_ms: int) -> None:
    assert trim.pause_after(symbols) == pause_ms * RATE // 1000
