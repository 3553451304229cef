"""Sound files as text: of any length, in bounded memory, behind the conversations.

A file is decoded as it is needed, silence is passed over, and what is left goes to the recogniser
in pieces that end in pauses. All files of a process together have one piece in the recogniser at a
time, in turns: a conversation never waits for more than that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from services.asr.audio_file import AudioFile
from services.asr.base import SAMPLE_RATE, AsrEngine, Recogniser, Samples, Transcript, Word
from services.asr.cutting import Cutter, Span
from services.asr.recording import Segment, Wish
from services.asr.turn_audio import SILENCE_DBFS
from services.vad.base import WINDOW, VadEngine
from tts_engine.errors import AtCapacity, EngineFailed, TimedOut

T = TypeVar("T")

#: mean square below which a window needs no detector
_SILENCE = 10.0 ** (SILENCE_DBFS / 10.0)
#: how long the detector may take for a block, seconds
_DETECTOR_S = 30.0
#: How long to wait before a piece is tried again that an overloaded recogniser did not take or
#: make, seconds. The first one is not: whoever sent the file can come back.
_AGAIN_S = (1.0, 2.0, 4.0, 8.0)
#: The same while a recogniser that died is started again, which may load models for a minute.
_RESTART_S = (2.0,) * 45


class Transcriber:
    """Transcribes files; one for all of a process.

    Parameters:
        asr: started, and shared with conversations.
        vad: the same.
        threshold: probability from which a window of its counts as speech.
        limit_s: seconds of audio that a file may have; None: any number.
        again_s, restart_s: waits between tries, see `_AGAIN_S` and `_RESTART_S`.
    """

    def __init__(
        self,
        *,
        asr: AsrEngine,
        vad: VadEngine,
        threshold: float = 0.5,
        limit_s: float | None = None,
        again_s: tuple[float, ...] = _AGAIN_S,
        restart_s: tuple[float, ...] = _RESTART_S,
    ) -> None:
        self.asr = asr
        self.vad = vad
        self.threshold = threshold
        self.again_s = again_s
        self.restart_s = restart_s
        #: held by whoever has a piece in the recogniser; the first to wait is the first to get it
        self.lane = asyncio.Lock()
        self._limit_s = limit_s

    @asynccontextmanager
    async def open(
        self,
        file: BinaryIO,
        wish: Wish,
        *,
        name: str = "file",
        on_heard: Callable[[float], None] = lambda _: None,
    ) -> AsyncIterator[Listening]:
        """Begins a file.

        Args:
            file: has a descriptor, and can be gone back in; stays open, and is read until the block
                is left.
            wish: how it is to be heard.
            name: for logs.
            on_heard: told again and again how many seconds of it were gone through.

        Raises:
            BadAudio: it is no sound file, has no sound, or more than it may.
            EngineFailed: the engines do not run.
        """
        audio = await _in_thread(lambda: AudioFile(file, limit_s=self._limit_s))
        try:
            recogniser = self.asr.open(session=name)
            try:
                recogniser.restrict(wish.languages)
                recogniser.hint(wish.hotwords)
                yield Listening(self, audio, recogniser, on_heard)
            finally:
                recogniser.close()
        finally:
            await _in_thread(audio.close)


class Listening:
    """A file that is being transcribed; made by `Transcriber.open`.

    Attributes:
        duration_s: of its audio by its own account; None: it does not say.
        heard_s: seconds of it that were gone through, all of them when the segments are over.
    """

    def __init__(
        self,
        owner: Transcriber,
        audio: AudioFile,
        recogniser: Recogniser,
        on_heard: Callable[[float], None],
    ) -> None:
        self.duration_s = audio.duration_s
        self.heard_s = 0.0
        self._on_heard = on_heard
        self._owner = owner
        self._audio = audio
        self._recogniser = recogniser
        self._began = False

    async def segments(self) -> AsyncGenerator[Segment, None]:
        """The pieces with text, to be asked for once.

        Raises:
            BadAudio: of the file, when as much of it was read.
            AtCapacity, TimedOut, EngineFailed: of the engines.
        """
        cutter = Cutter(threshold=self._owner.threshold)
        kept, start = np.zeros(0, np.float32), 0  # samples that may be needed yet, and their place
        async with aclosing(self._blocks()) as blocks:
            async for samples, voices in blocks:
                kept = np.concatenate((kept, samples))
                for voice in voices:
                    if (span := cutter.push(voice)) is not None:
                        async for segment in self._heard(span, kept, start):
                            yield segment
                self.heard_s = (start + len(kept)) / SAMPLE_RATE
                self._on_heard(self.heard_s)
                passed = cutter.needed * WINDOW - start
                kept, start = kept[passed:], start + passed
        if (span := cutter.finish()) is not None:
            async for segment in self._heard(span, kept, start):
                yield segment

    async def _blocks(self) -> AsyncGenerator[tuple[Samples, list[float]], None]:
        """The audio, a few seconds at a time, and how likely each window of it is speech."""
        detector = _Detector(self._owner.vad)
        try:
            while len(samples := await _in_thread(self._audio.read)):
                yield samples, await detector.probabilities(_windows(samples))
        finally:
            detector.close()

    async def _heard(self, span: Span, kept: Samples, start: int) -> AsyncGenerator[Segment, None]:
        first, last = span.start * WINDOW - start, span.end * WINDOW - start
        samples = kept[first:last]
        heard = await self._recognised(samples)
        if heard.text:
            at = span.start * WINDOW
            yield _segment(heard, at_s=at / SAMPLE_RATE, end_s=(at + len(samples)) / SAMPLE_RATE)

    async def _recognised(self, samples: Samples) -> Transcript:
        waits, restarts = (
            iter(self._owner.again_s if self._began else ()),
            iter(self._owner.restart_s),
        )
        while True:
            try:
                async with self._owner.lane:
                    self._recogniser.reset()
                    self._recogniser.feed(samples)
                    heard = await self._recogniser.finalise()
                self._began = True
                return heard
            except (AtCapacity, TimedOut, EngineFailed) as error:
                failed = isinstance(error, EngineFailed)
                wait_s = next(restarts if failed else waits, None)
                if wait_s is None or (failed and self._owner.asr.ready):
                    raise
            await asyncio.sleep(wait_s)


class _Detector:
    """Asks the voice detector about windows, and does not bother it with silence."""

    def __init__(self, vad: VadEngine) -> None:
        self._got: list[float] = []
        self._wanted = 0
        self._done = asyncio.Event()
        self._stream = vad.open(self._answered)

    async def probabilities(self, windows: NDArray[np.float32]) -> list[float]:
        """How likely each window is speech.

        Args:
            windows: (n, WINDOW).

        Raises:
            EngineFailed: the detector does not answer.
        """
        loud = np.flatnonzero(np.einsum("ij,ij->i", windows, windows) / WINDOW >= _SILENCE)
        found = np.zeros(len(windows))
        if len(loud):
            self._got, self._wanted = [], len(loud)
            self._done.clear()
            for window in windows[loud]:
                self._stream.push(window)
            try:
                async with asyncio.timeout(_DETECTOR_S):
                    await self._done.wait()
            except TimeoutError:
                raise EngineFailed("The voice detector does not answer") from None
            found[loud] = self._got
        return found.tolist()

    def close(self) -> None:
        """Takes back what it was asked."""
        self._stream.close()

    def _answered(self, probability: float) -> None:
        self._got.append(probability)
        if len(self._got) == self._wanted:
            self._done.set()


def _windows(samples: Samples) -> NDArray[np.float32]:
    """Samples as windows, the last one filled up with silence."""
    rest = -len(samples) % WINDOW
    return np.pad(samples, (0, rest)).reshape(-1, WINDOW)


def _segment(heard: Transcript, *, at_s: float, end_s: float) -> Segment:
    words = tuple(
        Word(
            text=word.text,
            start_s=min(at_s + word.start_s, end_s),
            end_s=min(at_s + word.end_s, end_s),
        )
        for word in heard.words
    )
    return Segment(
        start_s=at_s,
        end_s=end_s,
        text=heard.text,
        language=heard.language,
        log_prob=heard.log_prob,
        words=words,
        emotion=heard.emotion,
        events=heard.events,
    )


async def _in_thread(work: Callable[[], T]) -> T:
    """Runs something in a thread, and to its end also if nobody waits for it any more: two threads
    must not have a decoder at the same time.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
