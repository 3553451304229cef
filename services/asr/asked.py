"""Finals on their way: one for all who ask the same question."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Q = TypeVar("Q")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What was asked of an engine.

    Parameters:
        future: of the answer.
        give_up: tells the engine that nobody waits for it any more, whether it is there or not.
    """

    future: asyncio.Future[T]
    give_up: Callable[[], None]


@dataclass(slots=True)
class _Asked(Generic[T]):
    answer: Answer[T]
    waiters: int = 0


class Asked(Generic[Q, T]):
    """Shares the answers of an engine among those who wait for them, in one conversation.

    A question is whatever the answer depends on, such as where the audio ends and in which
    languages it is understood.
    """

    def __init__(self) -> None:
        self._asked: dict[Q, _Asked[T]] = {}

    async def answer(self, question: Q, ask: Callable[[], Answer[T]], *, timeout_s: float) -> T:
        """The answer to a question, which is asked unless it is already.

        Whoever is the last to give up gives the question up.

        Raises:
            TimeoutError
            asyncio.CancelledError: the question was withdrawn meanwhile.
            DuplexdError: of `ask` and of the engine.
        """
        asked = self._asked.get(question)
        if asked is None:
            asked = self._asked[question] = _Asked(ask())
        asked.waiters += 1
        try:
            async with asyncio.timeout(timeout_s):
                # Shielded: one caller that gives up does not take the answer from the others.
                answer = await asyncio.shield(asked.answer.future)
            if self._asked.get(question) is not asked:
                # Withdrawn just after it was there: it must not come out of a newer turn.
                raise asyncio.CancelledError
            return answer
        finally:
            asked.waiters -= 1
            if asked.waiters == 0 and self._asked.get(question) is asked:
                del self._asked[question]
                asked.answer.give_up()

    def withdraw(self) -> None:
        """Gives up every question: whoever waits is cancelled."""
        asked, self._asked = self._asked, {}
        for each in asked.values():
            each.answer.give_up()
