# pyright: strict
"""The commit gate: the one queue in front of the speaker. Pure.

What is made of an answer waits here until the board says that it may be heard. Everything leaves in
the order in which it came: what stands behind a piece that is held is held with it, whosever it is.
Pieces of an answer that died are dropped, except those that must not be lost: they keep their place
and come out as belonging to no answer, so that they can be passed on and never be played.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from services.revision import RevisionBoard, Verdict

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Piece(Generic[T]):
    """Something at the gate.

    Parameters:
        item: the thing itself.
        revision: the answer that it belongs to; 0: to none, it is held by what is before it only.
        lasting: it outlives its answer.
    """

    item: T
    revision: int = 0
    lasting: bool = False


class Gate(Generic[T]):
    """Holds, passes and drops what comes for the speaker, by the board of its conversation."""

    def __init__(self, board: RevisionBoard) -> None:
        self._board = board
        self._queue: deque[Piece[T]] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, piece: Piece[T]) -> None:
        """Queues a piece."""
        self._queue.append(piece)

    def take(self) -> Piece[T] | None:
        """The next piece that may go on, of no answer or of the one that may be heard now.

        Returns:
            None if there is none, or if the next one is held.
        """
        while self._queue:
            piece = self._queue[0]
            verdict = self._verdict(piece.revision)
            if verdict is Verdict.HOLD:
                return None
            self._queue.popleft()
            if verdict is Verdict.PASS:
                return piece
            if piece.lasting:
                return Piece(piece.item)
        return None

    def drop_dead(self) -> None:
        """Takes the pieces of dead answers out at once, wherever they stand."""
        self._queue = deque(
            piece
            for piece in self._queue
            if piece.lasting or self._verdict(piece.revision) is not Verdict.DROP
        )

    def _verdict(self, revision: int) -> Verdict:
        return self._board.verdict(revision) if revision else Verdict.PASS
