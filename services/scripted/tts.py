"""A voice whose every character time is known, and whose tone tells what is being said.

A character lasts 80 to 239 ms, unevenly, by its place and itself: `char_times` gives the ends. The
sound is one sine wave per utterance, its frequency chosen by the text and the voice: `tone_of`
gives it, `detect_tone` reads it back from a recording.
"""

from __future__ import annotations

import functools
import hashlib
import math
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from services.scripted.due import Due
from tts_engine.engine import EngineStats, Mark, SpeechChunk, SpeechEngine, check_speed
from tts_engine.errors import BadRequest, EngineFailed, UnknownVoice

SAMPLE_RATE = 24_000
VOICES = ("one", "two")
#: samples of a chunk: 100 ms
CHUNK = SAMPLE_RATE // 10
#: RMS of the tone, dBFS
LEVEL_DBFS = -20.0

#: tones lie from 300 Hz upwards, 40 Hz apart; the second voice lies between those of the first
_LOWEST_HZ, _STEP_HZ, _TONES = 300, 40, 64
#: every tone is a multiple of this, so that a chunk holds whole periods of it
_GRID_HZ = 10
_SILENT_DBFS = -45.0


def _char_ms(index: int, char: str) -> int:
    """Duration of a character: 80 to 239 ms, by multiplicative hashing of its place and code."""
    return 80 + ((ord(char) * 31 + index * 7919) * 2_654_435_761 >> 16) % 160


def char_ends(text: str, *, speed: float = 1.0, leading_silence_s: float = 0.0) -> list[int]:
    """Samples of the utterance after which each of its characters has been spoken."""
    total_ms = 0
    start = round(leading_silence_s * SAMPLE_RATE)
    result: list[int] = []
    for index, char in enumerate(text):
        total_ms += _char_ms(index, char)
        result.append(start + round(total_ms * SAMPLE_RATE / 1000 / speed))
    return result


def char_times(text: str, *, speed: float = 1.0, leading_silence_s: float = 0.0) -> list[float]:
    """Seconds of the utterance after which each of its characters has been spoken."""
    ends = char_ends(text, speed=speed, leading_silence_s=leading_silence_s)
    return [end / SAMPLE_RATE for end in ends]


def tone_of(text: str, *, voice: str = VOICES[0]) -> float:
    """Frequency in which a text is spoken, Hz. Of 64 tones: two texts may share one."""
    # not a checksum: those give like texts like values
    place = (
        hashlib.blake2s(text.encode("utf-8", "surrogatepass"), digest_size=1).digest()[0] % _TONES
    )
    return float(_LOWEST_HZ + _STEP_HZ * place + _STEP_HZ // 2 * VOICES.index(voice))


def detect_tone(pcm: bytes | NDArray[Any], rate: int = SAMPLE_RATE) -> float | None:
    """Frequency of the loudest tone in a recording, within 5 Hz from 40 ms on.

    Args:
        pcm: int16 mono samples, or their bytes.
        rate: samples per second.

    Returns:
        Hz, or None for silence (below -45 dBFS).
    """
    samples = np.frombuffer(pcm, "<i2") if isinstance(pcm, bytes) else pcm
    wave = samples.astype(np.float64) / 32768
    if len(wave) == 0 or np.mean(wave**2) <= 10 ** (_SILENT_DBFS / 10):
        return None
    # zero padding to a bin of 1 Hz or finer makes the peak's place exact enough by itself
    size = 1 << (max(rate, len(wave)) - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(wave * np.hanning(len(wave)), size))
    return float(np.argmax(spectrum)) * rate / size


@functools.lru_cache(maxsize=2 * _TONES)
def _table(tone_hz: int) -> bytes:
    """Two chunks of a tone: a chunk that starts anywhere in its period is a slice of it."""
    phase = 2 * np.pi * tone_hz * np.arange(2 * CHUNK) / SAMPLE_RATE
    peak = 32767 * math.sqrt(2) * 10 ** (LEVEL_DBFS / 20)
    return np.rint(peak * np.sin(phase)).astype("<i2").tobytes()


def _sound(tone_hz: int, start: int, end: int, silence: int) -> bytes:
    """Samples `start` to `end`, at most a chunk, of an utterance that starts with silence."""
    quiet = min(max(silence - start, 0), end - start)
    count = end - start - quiet
    offset = (start + quiet - silence) % CHUNK
    return bytes(2 * quiet) + _table(tone_hz)[2 * offset : 2 * (offset + count)]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceFault:
    """How a clause goes wrong.

    Parameters:
        kind: "raise" EngineFailed, "hang" for ever, or "empty": end without a further chunk.
        after_chunks: chunks made before it goes wrong.
    """

    kind: Literal["raise", "hang", "empty"]
    after_chunks: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class SpokenClause:
    """What the voice was asked for, updated while it speaks.

    Parameters:
        text, voice, speed, style: as asked.
        started: time.monotonic() when its work began.
        made_s: seconds of audio made so far.
        finished: made to the end.
        cancelled: closed before that.
    """

    text: str
    voice: str
    speed: float
    style: str
    started: float
    made_s: float = 0.0
    finished: bool = False
    cancelled: bool = False


class ScriptedVoice(SpeechEngine):
    """Speaks in tones.

    Args:
        first_chunk_s: seconds from the request to the first chunk.
        rate: seconds of audio made per second from then on; infinity for as fast as asked.
        leading_silence_s: silence before the tone; engines shall not have more than 20 ms.
        tone_hz: one tone for everything, a multiple of 10 Hz, instead of `tone_of`.
        failures: what goes wrong, by the number of the clause (calls of `synthesize` on this
            engine, from 1).
        keep: clauses remembered in `spoken`.

    Attributes:
        spoken: the last `keep` clauses, oldest first.
        cancelled: clauses closed before their end.

    Raises:
        BadRequest: `tone_hz` is not a multiple of 10 Hz.
    """

    sample_rate = SAMPLE_RATE

    def __init__(
        self,
        *,
        first_chunk_s: float = 0.0,
        rate: float = math.inf,
        leading_silence_s: float = 0.0,
        tone_hz: int | None = None,
        failures: Mapping[int, VoiceFault] | None = None,
        keep: int = 256,
    ) -> None:
        if tone_hz is not None and (tone_hz <= 0 or tone_hz % _GRID_HZ):
            raise BadRequest(
                f"a scripted voice cannot hum at {tone_hz} Hz", mend="Choose a multiple of 10 Hz"
            )
        self.stats = EngineStats()
        self.first_chunk_s = first_chunk_s
        self.rate = rate
        self.leading_silence_s = leading_silence_s
        self.tone_hz = tone_hz
        self.failures = dict(failures or {})
        self.keep = keep
        self.spoken: list[SpokenClause] = []
        self.cancelled = 0
        self._count = 0
        self._closed = False
        self._due = Due()

    @property
    def voices(self) -> tuple[str, ...]:
        """Two voices, which differ in tone only."""
        return VOICES

    async def start(self) -> None:
        """Nothing to load. Idempotent."""
        self._closed = False

    async def close(self) -> None:
        """Ends every job, as failed. Idempotent."""
        self._closed = True
        self._due.withdraw(EngineFailed("the scripted voice is closed"))

    async def synthesize(
        self, text: str, *, voice: str | None = None, speed: float = 1.0, style: str = ""
    ) -> AsyncGenerator[SpeechChunk, None]:
        """Speaks one clause; see `SpeechEngine.synthesize`."""
        name = voice if voice is not None else VOICES[0]
        if name not in VOICES:
            raise UnknownVoice(f"no voice {name!r}", mend=f"Choose one of {', '.join(VOICES)}")
        check_speed(speed)
        if not text:
            raise BadRequest("there is nothing to speak")
        self._count += 1
        clause = SpokenClause(
            text=text, voice=name, speed=speed, style=style, started=time.monotonic()
        )
        self.spoken.append(clause)
        del self.spoken[: -self.keep]
        fault = self.failures.get(self._count)
        self.stats.depth += 1
        try:
            for number, (start, chunk) in enumerate(self._plan(clause)):
                first = clause.started + self.first_chunk_s
                await self._until(first + start / SAMPLE_RATE / self.rate)
                if fault is not None and number >= fault.after_chunks:
                    await self._go_wrong(clause, fault)
                    break
                clause.made_s += len(chunk.pcm) / 2 / SAMPLE_RATE
                yield chunk
            clause.finished = True
            self.stats.jobs += 1
        except EngineFailed as failure:
            self.stats.failed(failure)
            clause.finished = True
            raise
        finally:
            self.stats.depth -= 1
            if not clause.finished:
                clause.cancelled = True
                self.cancelled += 1

    async def _until(self, due: float) -> None:
        await self._due.until(due)
        if self._closed:
            raise EngineFailed("the scripted voice is closed")

    async def _go_wrong(self, clause: SpokenClause, fault: VoiceFault) -> None:
        """Fails, hangs, or returns: the clause then ends where it is."""
        if fault.kind == "hang":
            await self._until(math.inf)
        if fault.kind == "raise":
            raise EngineFailed(f"the scripted voice fails at {clause.text!r}")

    def _plan(self, clause: SpokenClause) -> Iterator[tuple[int, SpeechChunk]]:
        """The clause's chunks, each with the sample that it starts at, made when asked for."""
        ends = char_ends(clause.text, speed=clause.speed, leading_silence_s=self.leading_silence_s)
        silence = round(self.leading_silence_s * SAMPLE_RATE)
        tone_hz = self.tone_hz or int(tone_of(clause.text, voice=clause.voice))
        spoken = 0
        for start in range(0, ends[-1], CHUNK):
            end = min(start + CHUNK, ends[-1])
            marks: list[Mark] = []
            while spoken < len(ends) and ends[spoken] <= end:
                marks.append(Mark(sample=ends[spoken], chars=spoken + 1))
                spoken += 1
            yield start, SpeechChunk(pcm=_sound(tone_hz, start, end, silence), marks=tuple(marks))
