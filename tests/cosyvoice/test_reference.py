"""A recording comes out at both rates, without the silence at its ends, at one level; each that
cannot be used is refused with what is wrong and what would be right.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from tts_engine.cosyvoice.reference import MAX_S, read_reference
from tts_engine.errors import BadAudio

from .recordings import buzz, file_of, silence

#: silence that is left before the speech, and behind it
BEFORE_S, BEHIND_S = 0.06, 0.26


def test_a_recording_is_trimmed_levelled_and_resampled() -> None:
    speech = buzz(3.0, rate=44_100, peak=0.3)
    whole = np.concatenate([silence(1.0, rate=44_100), speech, silence(2.0, rate=44_100)])
    audio = file_of(whole, rate=44_100)
    made = read_reference(audio)
    assert made.duration_s == pytest.approx(3.0, abs=0.04)
    assert made.sha256 == hashlib.sha256(audio).hexdigest()
    for samples, rate in ((made.wav_16k, 16_000), (made.wav_24k, 24_000)):
        assert samples.dtype == np.float32
        assert samples.ndim == 1
        assert len(samples) / rate == pytest.approx(3.0 + BEFORE_S + BEHIND_S, abs=0.04)
        assert np.abs(samples).max() == pytest.approx(0.8, abs=0.02)
        assert np.abs(samples[: round(0.03 * rate)]).max() < 0.01
        assert np.abs(samples[-round(0.18 * rate) :]).max() < 0.01
    # the same speech, at the same place
    again = soxr.resample(made.wav_24k, 24_000, 16_000)
    size = min(len(again), len(made.wav_16k))
    assert np.abs(again[:size] - made.wav_16k[:size]).max() < 0.05


def test_nothing_is_cut_where_there_is_no_silence() -> None:
    made = read_reference(file_of(buzz(2.0)))
    assert made.duration_s == 2.0
    assert len(made.wav_24k) == round(2.2 * 24_000)


def test_the_longest_one_still_fits_the_tokenizer() -> None:
    made = read_reference(file_of(buzz(MAX_S, rate=16_000), rate=16_000))
    assert made.duration_s == MAX_S
    assert len(made.wav_16k) == MAX_S * 16_000


def test_channels_are_mixed() -> None:
    left, right = buzz(2.0, peak=0.4), buzz(2.0, peak=0.3, pitch_hz=210)
    stereo = read_reference(file_of(np.stack([left, right], axis=1)))
    mono = read_reference(file_of((left + right) / 2))
    assert np.abs(stereo.wav_24k - mono.wav_24k).max() < 1e-3


@pytest.mark.parametrize(
    "form, subtype",
    [
        ("WAV", "PCM_24"),
        ("WAV", "FLOAT"),
        ("FLAC", "PCM_16"),
        ("OGG", "VORBIS"),
        ("OGG", "OPUS"),
        ("MP3", "MPEG_LAYER_III"),
        ("AIFF", "PCM_16"),
    ],
)
def test_forms(form: str, subtype: str) -> None:
    made = read_reference(file_of(buzz(2.0), form=form, subtype=subtype))
    assert made.duration_s == pytest.approx(2.0, abs=0.1)


# --- what is refused ------------------------------------------------------------------------


def refusal(audio: bytes) -> str:
    with pytest.raises(BadAudio) as caught:
        read_reference(audio)
    assert caught.value.mend
    return caught.value.message


@pytest.mark.parametrize(
    "audio", [b"", b"RIFF", b"%PDF-1.7 " * 100, file_of(buzz(2.0), form="FLAC")[:60]]
)
def test_no_sound_file(audio: bytes) -> None:
    assert "no sound file" in refusal(audio)


@pytest.mark.parametrize("seconds", [0.0, 0.2, 0.99])
def test_too_short(seconds: float) -> None:
    message = refusal(file_of(buzz(2.0)[: round(seconds * 24_000)]))
    assert "at least 1 s" in message


def test_too_little_speech() -> None:
    whole = np.concatenate([silence(2.0), buzz(0.5), silence(2.0)])
    assert "0.5 s of speech" in refusal(file_of(whole))


def test_too_long() -> None:
    assert "longer than 30 s" in refusal(file_of(buzz(30.1, rate=16_000), rate=16_000))


@pytest.mark.parametrize("rate", [8_000, 384_000])
def test_rates_that_are_none(rate: int) -> None:
    assert f"{rate} samples a second" in refusal(file_of(buzz(1.5, rate=rate), rate=rate))


def test_too_many_channels() -> None:
    assert "9 channels" in refusal(file_of(np.zeros((24_000, 9), np.float32)))


@pytest.mark.parametrize("peak", [0.0, 1e-4, 3e-3])
def test_silent(peak: float) -> None:
    assert "silent" in refusal(file_of(buzz(2.0, peak=1.0) * np.float32(peak), subtype="FLOAT"))


def test_no_numbers() -> None:
    samples = buzz(2.0)
    samples[100] = np.nan
    assert "no numbers" in refusal(file_of(samples, subtype="FLOAT"))


@pytest.mark.parametrize("level", [1.0, 0.4])
def test_clipped(level: float) -> None:
    """Also where it was turned down after it was clipped, and in one channel of two."""
    samples = (level * np.clip(2.5 * buzz(2.0, peak=1.0), -1, 1)).astype(np.float32)
    assert "clipped" in refusal(file_of(samples))
    assert "clipped" in refusal(file_of(np.stack([0.5 * samples, buzz(2.0)], axis=1)))


@settings(deadline=None, max_examples=30)
@given(
    peak=st.floats(0.1, 1.0),
    pitch_hz=st.floats(60, 400),
    rate=st.sampled_from([16_000, 24_000, 48_000, 96_000]),
)
def test_loud_is_not_clipped(peak: float, pitch_hz: float, rate: int) -> None:
    """Down to the lowest voice at the highest rate, whose peaks are the flattest."""
    samples = buzz(1.2, rate=rate, peak=peak, pitch_hz=pitch_hz)
    assert read_reference(file_of(samples, rate=rate)).duration_s == pytest.approx(1.2, abs=0.05)


def test_a_silent_channel_is_not_clipped() -> None:
    noise = np.where(np.arange(48_000) % 7 < 4, 1 / 32768, -1 / 32768).astype(np.float32)
    made = read_reference(file_of(np.stack([buzz(2.0), noise], axis=1)))
    assert made.duration_s == 2.0
