"""The microphone of scripted tests and benches: a voice whose every border is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tts_engine.errors import BadRequest

#: grid of all borders: the energy rule's frame, seconds
_GRID_S = 0.010
#: the energy rule wants three frames in a row
_LEAST_FRAMES = 3
#: the energy rule's threshold, dBFS
_THRESHOLD_DBFS = -45.0
#: syllables per second, within the 4 to 5 of speech
_SYLLABLES_HZ = 4.5
#: envelope between syllables, share of the peak
_DIP = 0.4
#: pitch and the weights of its harmonics. A period is shorter than a frame, so that no frame falls
#: between two pulses
_PITCH_HZ = 140.0
_HARMONICS = ((1, 0.5), (2, 0.7), (3, 1.0), (5, 0.6), (8, 0.3), (17, 0.1))


def _stretches(total: int, pauses: Sequence[tuple[float, float]]) -> list[tuple[int, int]]:
    """Voiced stretches between the pauses, in grid frames."""
    result: list[tuple[int, int]] = []
    start = 0
    for at, length in sorted(pauses):
        first, last = round(at / _GRID_S), round((at + length) / _GRID_S)
        result.append((start, first))
        start = last
    result.append((start, total))
    if any(last - first < _LEAST_FRAMES for first, last in result):
        raise BadRequest(
            "synthetic speech: a voiced stretch is shorter than 30 ms, or pauses overlap",
            mend="Leave at least 30 ms of voice before, between and after the pauses",
        )
    return result


def synthetic_speech(
    *,
    seconds: float,
    rate: int = 16_000,
    pauses: Sequence[tuple[float, float]] = (),
    level_dbfs: float = -20.0,
    lead_s: float = 0.0,
    tail_s: float = 0.0,
) -> NDArray[np.int16]:
    """Makes a voice-like sound that the energy rule hears exactly where it is voiced.

    Harmonics of one pitch under a syllable envelope, digital silence elsewhere. Every 10 ms frame
    of a voiced stretch lies above -45 dBFS. All borders are rounded to 10 ms.

    Args:
        seconds: from the first voiced sample to the last, pauses included.
        rate: samples per second, at least 8000, a multiple of 100.
        pauses: (at, length) in seconds, `at` counted from the first voiced sample.
        level_dbfs: RMS over the voiced stretches.
        lead_s: silence before the voice, seconds.
        tail_s: silence after it, seconds.

    Returns:
        int16 mono samples.

    Raises:
        BadRequest: a stretch is shorter than 30 ms, the level makes some frame inaudible or
            clips, or the rate is none of the above.
    """
    if rate < 8000 or rate % 100:
        raise BadRequest(f"synthetic speech: {rate} samples per second", mend="Use 16000")
    size = round(rate * _GRID_S)
    total, lead, tail = (round(span / _GRID_S) for span in (seconds, lead_s, tail_s))
    time_s = np.arange(total * size) / rate
    wave = np.zeros(len(time_s))
    for harmonic, weight in _HARMONICS:
        wave += weight * np.sin(2 * np.pi * harmonic * _PITCH_HZ * time_s)
    voiced = np.zeros(len(time_s), np.bool_)
    for first, last in _stretches(total, pauses):
        begin, end = first * size, last * size
        voiced[begin:end] = True
        phase = 2 * np.pi * _SYLLABLES_HZ * (time_s[begin:end] - time_s[begin])
        wave[begin:end] *= _DIP + (1 - _DIP) * (0.5 + 0.5 * np.cos(phase))
    wave[~voiced] = 0.0
    wave *= 10 ** (level_dbfs / 20) / np.sqrt(np.mean(wave[voiced] ** 2))
    frames = np.sqrt(np.mean(wave.reshape(total, size) ** 2, axis=1))[voiced[::size]]
    if frames.min() <= 10 ** ((_THRESHOLD_DBFS + 1) / 20) or np.abs(wave).max() >= 1:
        raise BadRequest(
            f"synthetic speech: {level_dbfs} dBFS is inaudible between syllables, or clips",
            mend="Choose a level between -35 and -12 dBFS",
        )
    pcm = np.rint(wave * 32767).astype(np.int16)
    return np.pad(pcm, (lead * size, tail * size))
