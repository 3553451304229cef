"""Coughs, throats cleared and knocks, made from shaped noise, of which a voice detector fires.

Each is drawn anew from a seed: bursts of noise under a sharp attack and a decay, through the
resonances of a throat or of a table. A detector is not fooled by most of them; those that it takes
for a voice are the ones that a conversation has to survive, and only they are kept.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from services.vad.base import SAMPLE_RATE, WINDOW, VadEngine
from tts_engine.errors import EngineFailed

Noise = Literal["cough", "throat", "knock"]

#: windows in a row that open a turn over an answer
FIRING_WINDOWS = 3
#: probability of a window that fires
_THRESHOLD = 0.5
#: peak of a noise, full scale
_PEAKS = (0.15, 0.6)
#: silence around a noise when it is tried, seconds: the detector's memory is to be empty
_AROUND_S = 0.5
#: noises that are tried for each that is kept
_TRIES = 200
#: how many of each; a detector is hardly ever taken in by a knock
_SHARES: dict[Noise, float] = {"knock": 0.1, "throat": 0.4, "cough": 0.5}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShapedNoise:
    """A noise.

    Parameters:
        kind: what it is like.
        samples: int16 mono at 16 kHz.
    """

    kind: Noise
    samples: NDArray[np.int16]


def shaped_noises(kind: Noise, *, seed: int) -> Iterator[ShapedNoise]:
    """Endless noises of a kind; the same ones for the same seed."""
    rng = np.random.default_rng([seed, *kind.encode()])
    make = _MAKERS[kind]
    while True:
        wave = make(rng)
        wave *= rng.uniform(*_PEAKS) / np.abs(wave).max()
        yield ShapedNoise(kind=kind, samples=np.rint(wave * 32767).astype(np.int16))


def _resonant(
    wave: NDArray[np.float64], peaks: list[tuple[float, float, float]]
) -> NDArray[np.float64]:
    """Shapes a spectrum: resonances as (Hz, width in Hz, weight)."""
    spectrum = np.fft.rfft(wave)
    hz = np.fft.rfftfreq(len(wave), 1 / SAMPLE_RATE)
    shape = sum(weight / (1 + ((hz - at) / width) ** 2) for at, width, weight in peaks)
    return np.fft.irfft(spectrum * shape, len(wave))


def _throat_of(rng: np.random.Generator) -> list[tuple[float, float, float]]:
    """The resonances of somebody's throat."""
    return [
        (rng.uniform(450, 850), rng.uniform(60, 160), 1.0),
        (rng.uniform(1100, 1900), rng.uniform(90, 220), rng.uniform(0.3, 0.8)),
        (rng.uniform(2300, 3300), rng.uniform(150, 350), rng.uniform(0.1, 0.4)),
    ]


def _burst(
    rng: np.random.Generator, seconds: float, *, voice: float, attack_s: float = 0.01
) -> NDArray[np.float64]:
    """Noise that starts sharply and decays, with a share of glottal pulses."""
    count = round(seconds * SAMPLE_RATE)
    time_s = np.arange(count) / SAMPLE_RATE
    pitch = rng.uniform(90, 230) * (1 - rng.uniform(0, 0.3) * time_s / seconds)
    # A real throat does not keep time: its pulses wander.
    phase = np.cumsum(pitch / SAMPLE_RATE) + 0.05 * np.cumsum(rng.normal(size=count)) / 30
    pulses = np.maximum(0.0, np.cos(2 * np.pi * phase)) ** 8
    wave = (1 - voice) * rng.normal(size=count) + voice * 4 * (pulses - pulses.mean())
    envelope = np.minimum(1.0, time_s / attack_s) * np.exp(-3.0 * time_s / seconds)
    return wave * envelope


def _cough(rng: np.random.Generator) -> NDArray[np.float64]:
    """One to three bursts, the voiced tail of each longer than its noise."""
    throat = _throat_of(rng)
    parts: list[NDArray[np.float64]] = []
    for _ in range(rng.integers(1, 4)):
        noise = _burst(rng, rng.uniform(0.12, 0.3), voice=rng.uniform(0.2, 0.7))
        parts += [_resonant(noise, throat), np.zeros(round(rng.uniform(0.03, 0.12) * SAMPLE_RATE))]
    return np.concatenate(parts)


def _throat(rng: np.random.Generator) -> NDArray[np.float64]:
    """A throat that is cleared: a longer, rougher, voiced rattle."""
    wave = _burst(rng, rng.uniform(0.3, 0.6), voice=rng.uniform(0.4, 0.8), attack_s=0.04)
    rattle = 1 + 0.7 * np.sin(2 * np.pi * rng.uniform(18, 35) * np.arange(len(wave)) / SAMPLE_RATE)
    return _resonant(wave * rattle, _throat_of(rng))


def _knock(rng: np.random.Generator) -> NDArray[np.float64]:
    """Three to six knocks on wood, quick after one another."""
    table = [(rng.uniform(110, 320), 30.0, 1.0), (rng.uniform(400, 1100), 80.0, 0.5)]
    parts: list[NDArray[np.float64]] = []
    for _ in range(rng.integers(3, 7)):
        knock = _burst(rng, rng.uniform(0.06, 0.14), voice=rng.uniform(0.0, 0.4), attack_s=0.002)
        parts += [_resonant(knock, table), np.zeros(round(rng.uniform(0.02, 0.06) * SAMPLE_RATE))]
    return np.concatenate(parts)


_MAKERS: dict[Noise, Callable[[np.random.Generator], NDArray[np.float64]]] = {
    "cough": _cough,
    "throat": _throat,
    "knock": _knock,
}


async def longest_run(vad: VadEngine, samples: NDArray[np.int16]) -> int:
    """The most windows in a row in which a detector fires of a sound after silence.

    Args:
        vad: started.
        samples: int16 mono at 16 kHz.
    """
    around = np.zeros(round(_AROUND_S * SAMPLE_RATE), np.float32)
    sound = samples.astype(np.float32) / np.float32(32768)
    wave = np.concatenate((around, sound, around), dtype=np.float32)
    windows = wave[: len(wave) // WINDOW * WINDOW].reshape(-1, WINDOW)
    fired: list[bool] = []
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def take(probability: float) -> None:
        fired.append(probability >= _THRESHOLD)
        if len(fired) == len(windows):
            over.set_result(None)

    stream = vad.open(take)
    try:
        for window in windows:
            stream.push(window)
        await over
    finally:
        stream.close()
    run = most = 0
    for each in fired:
        run = run + 1 if each else 0
        most = max(most, run)
    return most


async def firing_noises(vad: VadEngine, count: int, *, seed: int = 7) -> list[ShapedNoise]:
    """Noises of which the detector fires long enough to open a turn, of all kinds.

    Raises:
        EngineFailed: it fires of hardly any.
    """
    kept: list[ShapedNoise] = []
    for kind, share in _SHARES.items():
        wanted = count - len(kept) if kind == "cough" else round(count * share)
        kept += await _firing(vad, kind, wanted, seed=seed)
    return kept


async def _firing(vad: VadEngine, kind: Noise, count: int, *, seed: int) -> list[ShapedNoise]:
    kept: list[ShapedNoise] = []
    for noise in itertools.islice(shaped_noises(kind, seed=seed), count * _TRIES):
        if len(kept) == count:
            break
        if await longest_run(vad, noise.samples) >= FIRING_WINDOWS:
            kept.append(noise)
    if len(kept) < count:
        tried = count * _TRIES
        raise EngineFailed(f"The detector fires of {len(kept)} of {tried} noises ({kind}) only")
    return kept
