"""Test speech: what is said, where it pauses, and where it truly ends, all known to the sample.

Texts are spoken by the embedded voice, once; the cache keeps what was made. `{400}` in a text is a
pause of 400 ms: the sentence is spoken as a whole and cut open there, so that its melody says that
it goes on, and the silence is as long as said by the energy rule of `pipeline.latency`.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import platformdirs
import soxr
from numpy.typing import NDArray

from pipeline.bench.wire import MICROPHONE_RATE
from pipeline.latency import first_sound, last_sound, sounding
from services.scripted.marks import mark_speech

if TYPE_CHECKING:
    from pipeline.config import Config
    from tts_engine.kokoro.engine import KokoroEngine

Kind = Literal["command", "question", "paused", "clause", "real"]
Samples = NDArray[np.int16]

#: changes whenever the same line would be made otherwise
_VERSION = "1"
#: level of the voice, RMS of its sounding frames, dBFS
LEVEL_DBFS = -20.0
#: silence before the first sound, and behind the last one: marks reach into it, seconds
_LEAD_S, _TAIL_S = 0.05, 0.1
#: how far from a character's border its sentence may be cut open, seconds
_NEAR_S = 0.08
#: ends of what is cut open fade, seconds
_FADE_S = 0.005
_PAUSE = re.compile(r"\{(\d+)\}")
#: what no recogniser is sure to write: it would tell where a sentence ends
_UNSPOKEN = re.compile(r"[，。？！、；：,.?!;:…—]")
#: the voice between the bundled ones
BLEND = "zf_blend"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """Who says it.

    Parameters:
        voice: of the embedded voices, or BLEND.
        speed: pace; 1 is the voice's own.
        pitch: below 1 deeper, as by a slower tape.
    """

    voice: str
    speed: float = 1.0
    pitch: float = 1.0


#: speakers that can be told apart
SPEAKERS = (
    Speaker(voice="zf_xiaoxiao"),
    Speaker(voice="zf_xiaobei", speed=1.1),
    Speaker(voice=BLEND),
    Speaker(voice="zf_xiaoxiao", speed=1.2, pitch=0.85),
    Speaker(voice="zf_xiaobei", speed=0.95, pitch=1.08),
    Speaker(voice=BLEND, speed=1.3, pitch=0.8),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Something to say.

    Parameters:
        text: with its marks, and pauses in milliseconds as {400}.
        speaker: who says it.
        kind: what it is a case of.
    """

    text: str
    speaker: Speaker = SPEAKERS[0]
    kind: Kind = "question"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clip:
    """Something that was said.

    Parameters:
        name: for reports.
        text: as a recogniser without punctuation writes it; empty if nobody knows.
        samples: int16 at MICROPHONE_RATE.
        start: its first sounding sample, seconds.
        end: just past its last one: the true end, seconds.
        kind: what it is a case of.
        ends: the sample after which each character of `text` has been spoken.
    """

    name: str
    text: str
    samples: Samples
    start: float
    end: float
    kind: Kind
    ends: tuple[int, ...] = ()

    @property
    def seconds(self) -> float:
        """From the first sounding sample to the last."""
        return self.end - self.start

    def marked(self, number: int) -> Clip:
        """The same for a scripted recogniser, see `services.scripted.marks`; last of all."""
        return replace(self, samples=mark_speech(self.samples, clip=number, ends=self.ends))

    def noisy(self, snr_db: float, *, seed: int) -> Clip:
        """The same in a noisy room."""
        noise = room_noise(
            len(self.samples) / MICROPHONE_RATE, snr_db, seed=seed, speech_dbfs=_level(self.samples)
        )
        mixed = self.samples.astype(np.int32) + noise[: len(self.samples)]
        return replace(self, samples=np.clip(mixed, -32768, 32767).astype(np.int16))


def room_noise(
    seconds: float, snr_db: float, *, seed: int, speech_dbfs: float = LEVEL_DBFS
) -> Samples:
    """Noise of a room (pink, 100 to 4000 Hz) so far below speech at `speech_dbfs`."""
    count = round(seconds * MICROPHONE_RATE) + 1
    size = 1 << (count - 1).bit_length()
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(size))
    hertz = np.fft.rfftfreq(size, 1 / MICROPHONE_RATE)
    band = (hertz >= 100) & (hertz <= 4000)
    spectrum[~band] = 0
    spectrum[band] /= np.sqrt(hertz[band])
    wave = np.fft.irfft(spectrum, size)
    wave *= 10 ** ((speech_dbfs - snr_db) / 20) / np.sqrt(np.mean(wave**2))
    return np.clip(np.rint(wave[:count] * 32768), -32768, 32767).astype(np.int16)


def plain(text: str) -> str:
    """A text as a recogniser without punctuation writes it."""
    return _UNSPOKEN.sub("", text)


def pauses(clip: Clip, *, least_s: float = 0.1) -> list[tuple[float, float]]:
    """Silences inside a clip by the energy rule, (start, length) in seconds."""
    size = MICROPHONE_RATE // 100
    loud = np.flatnonzero(sounding(clip.samples, MICROPHONE_RATE))
    gaps = np.flatnonzero(np.diff(loud) > round(least_s / 0.01))
    step = size / MICROPHONE_RATE
    return [(float(loud[at] + 1) * step, float(loud[at + 1] - loud[at] - 1) * step) for at in gaps]


def cache_dir() -> Path:
    """Where test speech is kept."""
    return platformdirs.user_cache_path("duplexd") / "bench"


def synthesise(
    lines: Sequence[Line],
    config: Config,
    *,
    advance: Callable[[Line], None] = lambda _: None,
    folder: Path | None = None,
) -> list[Clip]:
    """Speaks lines; blocks, for some seconds where they are not in the cache.

    Args:
        lines: what to say.
        config: names the models' folder and the threads.
        advance: called as each line is ready.
        folder: the cache; None: `cache_dir`.

    Raises:
        ModelMissing: the embedded voice is not here, and may not be fetched.
        EngineFailed: synthesis failed.
    """
    folder = folder or cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    missing = [line for line in dict.fromkeys(lines) if not _cached(folder, line).exists()]
    made = set(missing)
    if missing:
        asyncio.run(_make(missing, config, folder, advance))
    for line in lines:
        if line not in made:
            advance(line)
    return [_load(_cached(folder, line), line) for line in lines]


def _cached(folder: Path, line: Line) -> Path:
    who = line.speaker
    key = f"{_VERSION}|{line.text}|{who.voice}|{who.speed}|{who.pitch}"
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.npz"


def _load(path: Path, line: Line) -> Clip:
    with np.load(path) as kept:
        samples, ends = kept["samples"], kept["ends"]
    return Clip(
        name=_PAUSE.sub(" … ", line.text),
        text=plain(_PAUSE.sub("", line.text)),
        samples=samples,
        start=(first_sound(samples, MICROPHONE_RATE) or 0) / MICROPHONE_RATE,
        end=(last_sound(samples, MICROPHONE_RATE) or len(samples)) / MICROPHONE_RATE,
        kind=line.kind,
        ends=tuple(ends.tolist()),
    )


async def _make(
    lines: Sequence[Line], config: Config, folder: Path, advance: Callable[[Line], None]
) -> None:
    engine = _engine(config, folder)
    try:
        await engine.start()
        for line in lines:
            samples, ends = await _speak(engine, line)
            path = _cached(folder, line)
            part = path.with_suffix(".part.npz")
            np.savez(part, samples=samples, ends=ends)
            part.replace(path)  # whole or not at all, whoever else makes it
            advance(line)
    finally:
        await engine.close()


def _engine(config: Config, folder: Path) -> KokoroEngine:
    from pipeline.budget import ThreadBudget
    from pipeline.commands.weights import fetch_missing
    from pipeline.store import open_store
    from tts_engine.kokoro.engine import KokoroEngine
    from tts_engine.kokoro.voices import BUNDLED, find_voices, load_voice

    fetch_missing(config, ["kokoro"])
    voices = folder / "voices"
    voices.mkdir(exist_ok=True)
    blend = np.mean([load_voice(path) for path in find_voices(BUNDLED).values()], axis=0)
    np.save(voices / f"{BLEND}.npy", blend)
    return KokoroEngine(
        model_dir=open_store(config).path("kokoro"),
        threads=ThreadBudget.of(config.threads).tts,
        voices_dir=voices,
    )


async def _speak(engine: KokoroEngine, line: Line) -> tuple[Samples, NDArray[np.int64]]:
    """A line's samples, and the ends of what is spoken of it."""
    text = _PAUSE.sub("", line.text)
    pcm: list[bytes] = []
    known: list[tuple[int, int]] = [(0, 0)]  # characters, samples
    who = line.speaker
    async for chunk in engine.synthesize(text, voice=who.voice, speed=who.speed):
        pcm.append(chunk.pcm)
        known += [(mark.chars, mark.sample) for mark in chunk.marks]
    whole = np.frombuffer(b"".join(pcm), np.int16).astype(np.float32) / 32768
    rate = engine.sample_rate * who.pitch
    wave = soxr.resample(whole, rate, MICROPHONE_RATE)
    chars, at = np.array(known).T
    # A character without a mark of its own ends between those of its neighbours.
    ends = np.interp(np.arange(1, len(text) + 1), chars, at) * MICROPHONE_RATE / rate
    return _cut_open(_levelled(wave), ends.astype(np.int64), line.text)


def _level(samples: NDArray[Any]) -> float:
    """RMS of the frames that sound, dBFS; int16, or float in [-1, 1]."""
    size = MICROPHONE_RATE // 100
    loud = sounding(samples, MICROPHONE_RATE)
    if not loud.any():
        return LEVEL_DBFS
    frames = samples[: len(loud) * size].reshape(-1, size)[loud].astype(np.float64)
    scale = 32768 if samples.dtype == np.int16 else 1
    return 10 * math.log10(float(np.mean(frames**2)) / scale**2)


def _levelled(wave: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same at LEVEL_DBFS."""
    gain = 10 ** ((LEVEL_DBFS - _level(wave)) / 20)
    return np.clip(wave * gain, -1, 1).astype(np.float32)


def _cut_open(
    wave: NDArray[np.float32], ends: NDArray[np.int64], text: str
) -> tuple[Samples, NDArray[np.int64]]:
    """Puts the pauses in, and silence around."""
    done = 0  # characters before this one are placed
    for chars, length_ms in _pauses(text):
        length = length_ms * MICROPHONE_RATE // 1000
        opened, start, stop = _opened(wave, int(ends[chars - 1]), length)
        ends[done:chars] = np.minimum(ends[done:chars], start)
        ends[chars:] = np.maximum(ends[chars:] + len(opened) - len(wave), stop + 1)
        wave = opened
        done = chars
    first = first_sound(wave, MICROPHONE_RATE) or 0
    last = last_sound(wave, MICROPHONE_RATE) or len(wave)
    lead, tail = round(_LEAD_S * MICROPHONE_RATE), round(_TAIL_S * MICROPHONE_RATE)
    sound = np.pad(wave, (lead, tail))[first : last + lead + tail]
    shift = lead - first
    kept = [at for at, char in enumerate(_PAUSE.sub("", text)) if not _UNSPOKEN.match(char)]
    placed = np.minimum(ends[kept] + shift, last + shift)
    return np.rint(sound * 32767).astype(np.int16), placed


def _pauses(text: str) -> list[tuple[int, int]]:
    """Characters before each pause, and its length in milliseconds."""
    result: list[tuple[int, int]] = []
    marks = 0
    for match in _PAUSE.finditer(text):
        result.append((match.start() - marks, int(match[1])))
        marks += len(match[0])
    return result


def _opened(
    wave: NDArray[np.float32], border: int, length: int
) -> tuple[NDArray[np.float32], int, int]:
    """Cuts a wave open near `border`, at its quietest place.

    Returns:
        The wave, and where its silence starts and stops now. A pause that was there is a part of
        the silence; one that is longer stays as it is.
    """
    size, near = MICROPHONE_RATE // 100, round(_NEAR_S * MICROPHONE_RATE)
    first = max(0, border - near)
    window = wave[first : border + near]
    power = np.convolve(window**2, np.ones(size), "valid")
    cut = first + int(np.argmin(power)) + size // 2
    loud = np.flatnonzero(sounding(wave, MICROPHONE_RATE))
    before, after = loud[loud < cut // size], loud[loud >= cut // size]
    start = (int(before[-1]) + 1) * size if len(before) else 0
    stop = int(after[0]) * size if len(after) else len(wave)
    start, stop = min(start, cut), max(stop, cut)
    missing = max(0, length - (stop - start))
    fade = np.linspace(1, 0, round(_FADE_S * MICROPHONE_RATE), dtype=np.float32)
    head, rest = wave[:cut].copy(), wave[cut:].copy()
    head[-len(fade) :] *= fade
    rest[: len(fade)] *= fade[::-1]
    opened = np.concatenate((head, np.zeros(missing, np.float32), rest))
    return opened, start, stop + missing
