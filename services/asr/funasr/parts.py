# pyright: strict
"""The models as the recognition loop sees them; those of torch and those of tests are alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from services.asr.base import Samples
from services.asr.funasr.recognised import Recognised


class Stream(Protocol):
    """One stream of audio of the streaming model; see `services.asr.funasr.streaming`."""

    #: samples that were taken by steps
    samples: int

    @property
    def due(self) -> bool:
        """A step can be made now."""
        ...

    @property
    def waiting(self) -> int:
        """Samples that no step has taken."""
        ...

    @property
    def text(self) -> str:
        """The whole text so far."""
        ...

    def push(self, samples: Samples) -> None:
        """Adds audio."""
        ...

    def finish(self) -> None:
        """Says that no audio follows."""
        ...

    def fork(self) -> Any:
        """A stream of its own that has heard the same."""
        ...


class StreamingModel(Protocol):
    """Takes a chunk of several streams at a time."""

    @property
    def chunk_samples(self) -> int:
        """Samples of audio that a step takes from a stream."""
        ...

    def open(self) -> Stream:
        """A new stream."""
        ...

    def step(self, streams: Sequence[Any]) -> object:
        """Makes the next step of each; when it raises they are in no state to go on."""
        ...


class OfflineModel(Protocol):
    """Recognises whole pieces of audio."""

    def transcribe(
        self,
        audio: Sequence[Samples],
        *,
        languages: Sequence[tuple[str, ...] | None],
        hotwords: Sequence[tuple[str, ...]],
    ) -> list[Recognised]:
        """What was said in each, in their order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the loop works with; at least one of the two models.

    Parameters:
        streaming: makes partials; finals too, where there is no offline model.
        offline: makes finals.
        punctuate: for finals of the streaming model; None leaves them as they are.
        fatal: failures after which the process is of no use.
    """

    streaming: StreamingModel | None = None
    offline: OfflineModel | None = None
    punctuate: Callable[[Sequence[str]], list[str]] | None = None
    fatal: tuple[type[Exception], ...] = ()
