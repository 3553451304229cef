"""Has a recogniser hear an utterance, as a file or as it is spoken, and takes the time.

As it is spoken, it is fed as the ear feeds: windows of the detector's size, each when its last
sample has been spoken, from the pre-roll before the onset on; and it is asked for the text as the
turn core asks, when the silence behind the last voiced sample is long enough. Onset and last voiced
sample obey the energy rule of `pipeline.latency`. Nothing waits for a detector here.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import numpy as np

from pipeline.latency import first_sound, last_sound
from services.asr.base import SAMPLE_RATE, AsrEngine, Samples, Transcript
from services.vad.base import WINDOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How somebody listens to what is spoken.

    Parameters:
        silence_ms: behind the last voiced sample, when the text is asked for.
        preroll_ms: before the onset, which the recogniser gets.
    """

    silence_ms: float
    preroll_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What came of an utterance. As a file, what is known only of the spoken one is None.

    Parameters:
        text: the final one.
        audio_s: length of the recording.
        took_s: of a file: from its first sample to the text.
        answer_s: from asking for the text to the text.
        first_partial_s: from the onset to the first partial with text; None: there was none.
        asked_s, final_s: from the last voiced sample to asking, and to the text.
        late_s: how late the latest window was fed.
    """

    text: str
    audio_s: float
    took_s: float | None = None
    answer_s: float
    first_partial_s: float | None = None
    asked_s: float | None = None
    final_s: float | None = None
    late_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Cut:
    """What of a recording the recogniser gets; positions of samples in it."""

    samples: Samples
    onset: int
    end: int


class Listener:
    """A conversation's handle on a recogniser. To be closed.

    Parameters:
        engine: started.
        name: of the conversation.
        manner: None: it hears files, and no partials are made.
    """

    def __init__(self, engine: AsrEngine, *, name: str, manner: Manner | None) -> None:
        self._manner = manner
        self._partial_at: float | None = None
        self._recogniser = engine.open(
            session=name, on_partial=None if manner is None else self._on_partial
        )

    async def hear(self, samples: Samples) -> Heard:
        """Recognises a recording.

        Raises:
            AtCapacity, TimedOut, EngineFailed
        """
        self._recogniser.reset()
        if self._manner is None:
            return await self._read(samples)
        return await self._listen(samples, self._manner)

    async def warm_up(self, samples: Samples) -> None:
        """Recognises a recording, whatever comes of it; raises as `hear` does."""
        self._recogniser.reset()
        await self._read(samples)

    def close(self) -> None:
        """Gives the handle back."""
        self._recogniser.close()

    async def _read(self, samples: Samples) -> Heard:
        began = time.monotonic()
        self._recogniser.feed(samples)
        asked = time.monotonic()
        final = await self._recogniser.finalise()
        done = time.monotonic()
        return Heard(
            text=final.text,
            audio_s=len(samples) / SAMPLE_RATE,
            took_s=done - began,
            answer_s=done - asked,
        )

    async def _listen(self, samples: Samples, manner: Manner) -> Heard:
        cut = _cut(samples, manner)
        self._partial_at, late_s, began = None, 0.0, time.monotonic()
        for at in range(0, len(cut.samples), WINDOW):
            due = began + (at + WINDOW) / SAMPLE_RATE
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            late_s = max(late_s, time.monotonic() - due)
            self._recogniser.feed(cut.samples[at : at + WINDOW])
        asked = time.monotonic()
        final = await self._recogniser.finalise()
        done, partial = time.monotonic(), self._partial_at
        onset, end = began + cut.onset / SAMPLE_RATE, began + cut.end / SAMPLE_RATE
        return Heard(
            text=final.text,
            audio_s=len(samples) / SAMPLE_RATE,
            answer_s=done - asked,
            first_partial_s=None if partial is None else partial - onset,
            asked_s=asked - end,
            final_s=done - end,
            late_s=late_s,
        )

    def _on_partial(self, partial: Transcript) -> None:
        if self._partial_at is None and partial.text:
            self._partial_at = time.monotonic()


def _cut(samples: Samples, manner: Manner) -> _Cut:
    """Where nothing sounds by the energy rule, all of it is heard."""
    onset = first_sound(samples, SAMPLE_RATE) or 0
    end = last_sound(samples, SAMPLE_RATE) or len(samples)
    start = max(0, onset - _samples(manner.preroll_ms))
    length = end + _samples(manner.silence_ms) - start
    length += -length % WINDOW  # the silence is noticed at the end of a window
    kept = samples[start : start + length]
    # A recording may end sooner than that silence does.
    return _Cut(np.pad(kept, (0, length - len(kept))), onset - start, end - start)


def _samples(ms: float) -> int:
    return round(ms * SAMPLE_RATE / 1000)
