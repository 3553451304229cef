"""Invariant: the energy rule hears synthetic speech exactly where it is voiced."""

import numpy as np
import pytest

from pipeline.latency import first_sound, last_sound, sounding
from services.scripted.speech import synthetic_speech
from tts_engine.errors import BadRequest


@pytest.mark.parametrize("rate", [8000, 16_000, 24_000, 48_000])
@pytest.mark.parametrize("level", [-35.0, -20.0, -12.0])
def test_every_voiced_frame_sounds_and_no_other(rate, level):
    pcm = synthetic_speech(
        seconds=3.0,
        rate=rate,
        pauses=[(2.0, 0.03), (0.5, 0.7)],
        level_dbfs=level,
        lead_s=0.25,
        tail_s=1.0,
    )
    assert pcm.dtype == np.int16
    assert len(pcm) == round(4.25 * rate)
    expected = np.zeros(425, np.bool_)
    for start, end in [(0.25, 0.75), (1.45, 2.25), (2.28, 3.25)]:
        expected[round(start * 100) : round(end * 100)] = True
    assert np.array_equal(sounding(pcm, rate), expected)
    assert first_sound(pcm, rate) == 0.25 * rate
    assert last_sound(pcm, rate) == 3.25 * rate
    frames = pcm.reshape(425, -1)
    assert not frames[~expected].any()
    rms = np.sqrt(np.mean((frames[expected] / 32768.0) ** 2))
    assert 20 * np.log10(rms) == pytest.approx(level, abs=0.1)


def test_syllables_modulate_it_without_silence():
    pcm = synthetic_speech(seconds=4.0)
    level = np.sqrt(np.mean((pcm.reshape(400, -1) / 32768.0) ** 2, axis=1))
    assert 20 * np.log10(level.min()) > -40
    spectrum = np.abs(np.fft.rfft(level - level.mean(), 4000))
    assert np.argmax(spectrum) * 100 / 4000 == pytest.approx(4.5, abs=0.2)


def test_is_deterministic():
    assert np.array_equal(synthetic_speech(seconds=1.0), synthetic_speech(seconds=1.0))


@pytest.mark.parametrize(
    "options",
    [
        {"seconds": 0.02},
        {"seconds": 1.0, "rate": 4000},
        {"seconds": 1.0, "rate": 11_025},
        {"seconds": 1.0, "pauses": [(0.01, 0.2)]},
        {"seconds": 1.0, "pauses": [(0.8, 0.3)]},
        {"seconds": 1.0, "pauses": [(0.2, 0.3), (0.4, 0.2)]},
        {"seconds": 1.0, "level_dbfs": -41.0},
        {"seconds": 1.0, "level_dbfs": -3.0},
    ],
)
def test_what_cannot_be_heard_exactly_is_refused(options):
    with pytest.raises(BadRequest):
        synthetic_speech(**options)
