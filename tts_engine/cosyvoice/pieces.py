# pyright: strict
"""Cuts what the worker made into the chunks of the contract: pure."""

from __future__ import annotations

from collections.abc import Iterator

from tts_engine.cosyvoice.wire import Audio
from tts_engine.engine import Mark, SpeechChunk
from tts_engine.kokoro.align import within

#: samples per chunk: 200 ms, so that what is dropped at an interruption is little
CHUNK = 24_000 // 5
_BYTES = 2


def pieces(audio: Audio, start: int) -> Iterator[SpeechChunk]:
    """A piece of an utterance in chunks, each with its marks.

    Args:
        audio: mono 16-bit samples, marks absolute in the utterance.
        start: samples of the utterance before it.
    """
    marks = [Mark(sample, chars) for sample, chars in audio.marks]
    count = len(audio.payload) // _BYTES
    for first in range(0, max(1, count), CHUNK):
        last = min(first + CHUNK, count)
        yield SpeechChunk(
            pcm=audio.payload[_BYTES * first : _BYTES * last],
            # A mark on a seam belongs to what it ends; the very first has nothing before it.
            marks=within(marks, start + first, start + last) if last else tuple(marks),
        )
