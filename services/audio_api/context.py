# pyright: strict
"""What the composition root gives the one-shots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from services.face import FaceContext
from tts_engine.engine import SpeechEngine

#: done: to the last byte; refused: never begun; failed: the engine; gone: the client left;
#: stalled: the client took nothing for too long
SpeechOutcome = Literal["done", "refused", "failed", "gone", "stalled"]


class SpeechAccounts(Protocol):
    """Where one-shots are counted."""

    def speech(self, outcome: SpeechOutcome) -> None:
        """A request is over."""
        ...

    def speech_began(self, first_byte_s: float) -> None:
        """Its first audio was handed to the socket, so long after the request was whole."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechContext:
    """Everything that a one-shot needs.

    Parameters:
        face: as for the other faces; tells readiness and voices.
        engine: the one that conversations use.
        accounts: counts requests.
        models: ids of `GET /v1/models`; asked each time, as some are known late.
        speed: where a request names none.
        parallel: requests that are spoken at a time.
        ahead_s: speech made ahead of what the client has taken, seconds; a clause is finished.
        chunk_timeout_s: limit for the engine's next piece.
        stall_s: a client that takes nothing for so long is cut.
    """

    face: FaceContext
    engine: SpeechEngine
    accounts: SpeechAccounts
    models: Callable[[], Sequence[str]]
    speed: float = 1.0
    parallel: int = 4
    ahead_s: float = 10.0
    chunk_timeout_s: float = 20.0
    stall_s: float = 30.0
