"""The answer that is made before the turn has ended: one at a time, and nobody is told of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.answers import Accounts, Answers, Guessed
from pipeline.effects import Effects
from pipeline.frames import SpeculateFrame
from pipeline.latency import TurnReport
from pipeline.turns.events import ContextChanged, Event, Withdrawn
from services.answer import AnswerPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """A turn that has probably ended.

    Parameters:
        number: how the turn core names it.
        text: what was said.
        language: of the text.
        emotion: how it was said; empty where nobody knows.
    """

    number: int
    text: str
    language: str
    emotion: str = ""


@dataclass(slots=True, kw_only=True)
class _Made:
    """What is made of a guess.

    Parameters:
        guess: it.
        plan: what holds for the answer.
        revision: of the answer.
        asked: something of it is in the pipeline.
    """

    guess: Guess
    plan: AnswerPlan
    revision: int
    asked: bool = False


class Speculation:
    """Begins, keeps and revokes the speculated answer of one conversation.

    A kept answer is the one that would have been asked for at the end of the turn: what it was made
    from, the context and the plan, must be the same by then. If they change, it is made anew.

    Args:
        answers, effects, accounts: of the conversation.
        plan: what would hold for an answer to a turn in a language, if it ended now.
        busy: the engines have other work to do.
        on_event: is told when a speculation cannot be used.
    """

    def __init__(
        self,
        *,
        answers: Answers,
        effects: Effects,
        accounts: Accounts,
        plan: Callable[[str], AnswerPlan],
        busy: Callable[[], bool],
        on_event: Callable[[Event], None],
    ) -> None:
        self._answers = answers
        self._effects = effects
        self._accounts = accounts
        self._plan = plan
        self._busy = busy
        self._on_event = on_event
        self._made: _Made | None = None

    def begin(self, guess: Guess) -> None:
        """Makes an answer and holds it; nothing may be answered yet."""
        plan = self._plan(guess.language)
        report = TurnReport(turn=0)
        report.mark("speculated", time.monotonic())
        revision = self._answers.speculate(guess.number, plan, report)
        made = self._made = _Made(guess=guess, plan=plan, revision=revision)
        self._effects.add(lambda: self._ask(made))

    @property
    def guess(self) -> Guess:
        """What is answered."""
        assert self._made is not None
        return self._made.guess

    def keep(self, report: TurnReport) -> int:
        """The turn has ended with what was guessed.

        Returns:
            The answer's revision.
        """
        self._made = None
        self._accounts.guessed("kept")
        return self._answers.commit(report)

    def revoke(self, outcome: Guessed = "revoked") -> None:
        """The user goes on, said something else, or the answer cannot be used."""
        made, self._made = self._made, None
        assert made is not None
        self._accounts.guessed(outcome)
        self._answers.revoke(asked=made.asked)

    def outdate(self) -> None:
        """The context has changed."""
        if self._made is not None:
            self._on_event(ContextChanged())

    def replan(self) -> None:
        """The options may have changed."""
        if self._made is not None and self._plan(self._made.guess.language) != self._made.plan:
            self._on_event(ContextChanged())

    async def _ask(self, made: _Made) -> None:
        """Asks, unless others wait for the engines; by now what is left of the last is gone."""
        if not self._answers.alive(made.revision):
            return
        if self._answers.speculated(made.revision) and self._busy():
            self._on_event(Withdrawn(made.guess.number, for_good=False))
            return
        made.asked = True
        await self._effects.send(
            SpeculateFrame(
                revision=made.revision,
                language=made.guess.language,
                text=made.guess.text,
                emotion=made.guess.emotion,
            )
        )
