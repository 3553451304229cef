"""Sentences of ours that are spoken again and again: synthesised once, then heard from memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass

from loguru import logger

from tts_engine.engine import Reading, SpeechChunk, SpeechEngine
from tts_engine.errors import DuplexdError
from tts_engine.text.stream import segment

#: what is kept at most, bytes: three minutes of audio
_MOST_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Key:
    """What decides how a clause sounds."""

    text: str
    voice: str
    speed: float
    style: str


class PhraseBook:
    """The fixed sentences of one process, as its voices have spoken them.

    A clause is kept when it was spoken to its end, as its marks tell; one that was interrupted or
    failed, or that the voice cut short, is not. The least recently heard goes first.

    Args:
        texts: the sentences, as they are written.
        most_bytes: of audio that is kept.
    """

    def __init__(self, texts: Iterable[str] = (), *, most_bytes: int = _MOST_BYTES) -> None:
        self._fixed = {clause.text for text in texts for clause in segment(text)}
        self._kept: OrderedDict[_Key, tuple[SpeechChunk, ...]] = OrderedDict()
        self._most_bytes = most_bytes
        self._bytes = 0

    def __len__(self) -> int:
        """Clauses that are kept."""
        return len(self._kept)

    def synthesize(
        self,
        engine: SpeechEngine,
        reading: Reading,
        text: str,
        *,
        voice: str | None,
        speed: float,
        style: str,
    ) -> AsyncGenerator[SpeechChunk, None]:
        """Speaks a clause, from memory where it is there; see `SpeechEngine.synthesize`.

        Args:
            engine: the voice.
            reading: of the engine, for what is not kept.
            text, voice, speed, style: as of the engine.
        """
        if text not in self._fixed:
            return reading.synthesize(text, voice=voice, speed=speed, style=style)
        return self._phrase(_Key(text, engine.identity(voice), speed, style), engine, voice)

    async def rehearse(
        self,
        engine: SpeechEngine,
        texts: Iterable[str],
        *,
        voice: str | None,
        speed: float,
        busy: Callable[[], bool],
    ) -> None:
        """Speaks some of them once, so that the first time is as quick as the others.

        What fails, or is left when somebody needs the engine, is synthesised when it is needed.

        Args:
            engine: the voice, started.
            texts: which.
            voice, speed: as conversations have them unless they say otherwise.
            busy: somebody talks.
        """
        for clause in (clause for text in texts for clause in segment(text)):
            if busy():
                return
            chunks = self.synthesize(
                engine, engine, clause.text, voice=voice, speed=speed, style=clause.style
            )
            try:
                async for _ in chunks:
                    pass
            except DuplexdError as error:
                logger.debug("{!r} is not kept: {}", clause.text, error)
                return

    async def _phrase(
        self, key: _Key, engine: SpeechEngine, voice: str | None
    ) -> AsyncGenerator[SpeechChunk, None]:
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            for chunk in kept:
                yield chunk
            return
        made: list[SpeechChunk] = []
        # By itself, not as the next clause of something: it is heard behind whatever comes.
        chunks = engine.synthesize(key.text, voice=voice, speed=key.speed, style=key.style)
        async with aclosing(chunks):
            async for chunk in chunks:
                made.append(chunk)
                yield chunk
        ends = made[-1].marks if made else ()
        whole = bool(ends) and ends[-1].chars == len(key.text)
        if whole and key.voice == engine.identity(voice):
            self._keep(key, tuple(made))

    def _keep(self, key: _Key, chunks: tuple[SpeechChunk, ...]) -> None:
        self._bytes += _size(chunks) - _size(self._kept.pop(key, ()))
        self._kept[key] = chunks
        while self._bytes > self._most_bytes:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= _size(dropped)


def _size(chunks: Iterable[SpeechChunk]) -> int:
    return sum(len(chunk.pcm) for chunk in chunks)
