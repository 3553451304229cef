"""The embedded voice: Kokoro-82M on the CPU, Mandarin and English, without torch."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from loguru import logger
from numpy.typing import NDArray

from tts_engine.engine import EngineStats, Mark, SpeechChunk, SpeechEngine, check_speed
from tts_engine.errors import DuplexdError, EngineFailed, TimedOut, UnknownVoice
from tts_engine.kokoro import align, trim
from tts_engine.kokoro.g2p import MixedG2P
from tts_engine.kokoro.model import KokoroModel
from tts_engine.kokoro.phonemes import SILENT, Phonemes
from tts_engine.kokoro.split import split
from tts_engine.kokoro.voices import BUNDLED, find_voices, load_voice
from tts_engine.kokoro.worker import Job, Worker

#: samples per chunk: 200 ms, so that what is dropped at an interruption is little
CHUNK = trim.SAMPLE_RATE // 5
#: Short to long, in both languages: the first run pays for memory, the first text for dictionaries.
_WARM_UP = (
    "好的，",
    "Sure, I can help you with that.",
    "今天下午3点，我们在图书馆门口见面，然后一起去吃饭，你看 OK 吗？",
)


_SILENCE = "".join(SILENT)


@dataclass(frozen=True, slots=True)
class _Part:
    """A finished part of an utterance: its audio and its marks, absolute in the utterance."""

    pcm: NDArray[np.int16]
    start: int
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What synthesis needs, once it is there."""

    model: KokoroModel
    g2p: MixedG2P
    styles: dict[str, NDArray[np.float32]]


class KokoroEngine(SpeechEngine):
    """A voice engine on one thread, shared by all conversations.

    Parameters:
        model_dir: holds kokoro-v1.0.int8.onnx and vocab.json.
        threads: of one synthesis.
        voices_dir: further voices, *.npy of [510, 256]; they replace bundled ones by name.
        queue_limit: utterances that may wait or run.
        timeout_s: limit for each part of an utterance, waiting included.
    """

    sample_rate = trim.SAMPLE_RATE

    def __init__(
        self,
        *,
        model_dir: Path,
        threads: int,
        voices_dir: Path | None = None,
        queue_limit: int = 64,
        timeout_s: float = 30.0,
    ) -> None:
        self.stats = EngineStats()
        self._model_dir = model_dir
        self._threads = threads
        self._timeout_s = timeout_s
        self._voices = find_voices(BUNDLED, *([voices_dir] if voices_dir else []))
        self._worker: Worker[_Part] = Worker(name="the embedded voice", queue_limit=queue_limit)
        self._loaded: _Loaded | None = None

    @property
    def voices(self) -> tuple[str, ...]:
        """See SpeechEngine."""
        return tuple(self._voices)

    async def start(self) -> None:
        """See SpeechEngine."""
        started = time.monotonic()
        self._loaded = await asyncio.to_thread(self._load)
        self._worker.start()
        logger.info("The embedded voice is ready after {:.1f} s", time.monotonic() - started)

    async def close(self) -> None:
        """See SpeechEngine."""
        await self._worker.close()
        self._loaded = None

    async def synthesize(
        self, text: str, *, voice: str | None = None, speed: float = 1.0, style: str = ""
    ) -> AsyncGenerator[SpeechChunk, None]:
        """See SpeechEngine; raises when it is iterated. `style` is ignored.

        Raises:
            UnknownVoice, BadRequest, AtCapacity, TimedOut, EngineFailed
        """
        job: Job[_Part] | None = None
        try:
            name = self._checked(voice, speed)
            loaded = self._loaded
            if loaded is None:
                raise EngineFailed("The embedded voice was not started, or is closed")
            job = self._worker.submit(
                lambda options: self._parts(loaded, text, name, speed, options)
            )
            self.stats.depth += 1
            started = False
            while (part := await self._next(job)) is not None:
                if not started:
                    started = True
                    self.stats.on_wait(job.waited_s or 0.0)
                for chunk in _chunks(part):
                    yield chunk
            self.stats.jobs += 1
        except DuplexdError as error:
            self.stats.failed(error)
            raise
        finally:
            if job is not None:
                self._worker.cancel(job)
                self.stats.depth -= 1

    async def _next(self, job: Job[_Part]) -> _Part | None:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await job.result()
        except TimeoutError as error:
            raise TimedOut(
                f"The embedded voice did not answer within {self._timeout_s:g} s",
                mend="Give it more threads, or serve fewer sessions",
            ) from error

    def _checked(self, voice: str | None, speed: float) -> str:
        """The voice's name, once the arguments are found good."""
        if voice is not None and voice not in self._voices:
            raise UnknownVoice(
                f"There is no voice {voice!r}", mend=f"Choose among {', '.join(self._voices)}"
            )
        check_speed(speed)
        return voice if voice is not None else self.voices[0]

    def _load(self) -> _Loaded:
        """Loads everything and speaks once at every length. Blocks for some seconds."""
        styles = {name: load_voice(path) for name, path in self._voices.items()}
        model = KokoroModel(model_dir=self._model_dir, threads=self._threads)
        loaded = _Loaded(model, MixedG2P(vocabulary=model.vocabulary), styles)
        for text in _WARM_UP:
            try:
                options = onnxruntime.RunOptions()
                for _ in self._parts(loaded, text, self.voices[0], 1.0, options):
                    pass
            # What does not run once does not run at all; onnxruntime has no common exception.
            except Exception as error:
                raise EngineFailed(f"The embedded voice does not run here: {error}") from error
        return loaded

    def _parts(
        self,
        loaded: _Loaded,
        text: str,
        voice: str,
        speed: float,
        options: onnxruntime.RunOptions,
    ) -> Iterator[_Part]:
        """Makes an utterance part by part. Blocking."""
        phonemes = loaded.g2p(text)
        if not phonemes.audible:
            yield _Part(np.zeros(0, np.int16), 0, (Mark(0, len(text)),))
            return
        start = done = 0
        parts = split(phonemes)
        for index, piece in enumerate(parts):
            pcm, marks = _speak(loaded.model, piece, loaded.styles[voice], speed, options)
            # Behind the last sound come the pause and, at the very end, what is never spoken.
            chars = len(text) if index == len(parts) - 1 else piece.ends[-1]
            placed = [
                Mark(start + mark.sample, mark.chars) for mark in marks if done < mark.chars < chars
            ]
            placed.append(Mark(start + len(pcm), chars))
            yield _Part(pcm, start, tuple(placed))
            done = chars
            start += len(pcm)


def _speak(
    model: KokoroModel,
    piece: Phonemes,
    style: NDArray[np.float32],
    speed: float,
    options: onnxruntime.RunOptions,
) -> tuple[NDArray[np.int16], list[Mark]]:
    """One run of the model: audio, and marks from its first sample."""
    speech = model.speak(piece.symbols, style, speed=speed, options=options)
    begin, stop = trim.sounding(speech.samples)
    pcm = trim.shape(speech.samples, begin, stop, trim.pause_after(piece.symbols))
    offset = max(0, begin - trim.LEAD)
    # The last phoneme's duration reaches far into the silence; its sound ends with the voice.
    spoken = len(piece.symbols.rstrip(_SILENCE))
    return pcm, align.marks(
        piece.ends[:spoken],
        speech.stops[:spoken] - offset,
        first=begin - offset,
        last=stop - offset,
    )


def _chunks(part: _Part) -> Iterator[SpeechChunk]:
    """A part in pieces of 200 ms, each with its marks."""
    if not len(part.pcm):
        yield SpeechChunk(pcm=b"", marks=part.marks)
        return
    bounds = [*range(0, len(part.pcm), CHUNK), len(part.pcm)]
    for first, last in itertools.pairwise(bounds):
        yield SpeechChunk(
            pcm=part.pcm[first:last].tobytes(),
            marks=align.within(part.marks, part.start + first, part.start + last),
        )
