"""Invariants: there is one answer at a time; what is told of another counts for nothing; each is
counted once.
"""

from __future__ import annotations

from typing import Any, cast

from pipeline.answers import Answers
from pipeline.context_book import ContextBook
from pipeline.effects import Effects
from pipeline.latency import TurnReport
from pipeline.mouth import Heard, Mouth
from pipeline.turns.events import AnswerEnded, Called, Event
from services.answer import AnswerPlan, AnswerPlans
from services.face import Usage
from services.items import FunctionCall, answer_ref
from services.revision import RevisionBoard
from tests.pipeline.harness import Books, RecordingSink
from tts_engine.errors import EngineFailed

PLAN = AnswerPlan(temperature=0.0, max_tokens=9)
CALL = FunctionCall(call_id="c", name="look", arguments="{}")


class StillMouth:
    """A mouth that has played what it is told."""

    heard: Heard | None = None

    def wake(self) -> None:
        """Nobody sleeps."""

    def stop(self) -> Heard | None:
        return self.heard


class Life:
    """Answers with everything around them; effects are kept, and performed by nobody."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.board, self.plans = RevisionBoard(), AnswerPlans()
        self.book = ContextBook(self.messages)
        self.books, self.mouth = Books(), StillMouth()
        self.events: list[Event] = []
        self.effects: list[Any] = []
        effects = Effects(session="s", on_gone=lambda: None)
        effects.add = self.effects.append  # type: ignore[method-assign]
        self.answers = Answers(
            session="s",
            sink=RecordingSink(),
            board=self.board,
            plans=self.plans,
            book=self.book,
            effects=effects,
            accounts=self.books,
        )
        self.answers.attach(mouth=cast(Mouth, self.mouth), on_event=self.events.append)

    def begin(self) -> int:
        revision = self.answers.begin(PLAN, TurnReport(turn=1))
        self.book.ask(answer_ref(revision))
        return revision


def tell_all(answers: Answers, revision: int) -> None:
    answers.on_stamp(revision, "chunk", 1.0)
    answers.on_failure(revision, EngineFailed("x"))
    answers.on_call_begun(revision, "c", "look")
    answers.on_call_arguments(revision, "c", "{}")
    answers.on_call_done(revision, CALL)
    answers.on_usage(revision, Usage(input_tokens=1, output_tokens=1))
    answers.on_cut(revision, "max_tokens")


def test_what_is_told_of_a_dead_answer_counts_for_nothing() -> None:
    life = Life()
    first = life.begin()
    life.answers.interrupt()
    second = life.begin()
    told = len(life.effects)
    tell_all(life.answers, first)
    assert len(life.effects) == told
    assert life.messages == []
    assert life.events == []
    assert life.books.errors == []
    tell_all(life.answers, second)
    assert len(life.effects) == told + 3
    assert life.events == [Called()]
    assert [error.code for error in life.books.errors] == ["engine_failed"]


def test_an_answer_is_counted_once_however_it_ends() -> None:
    life = Life()
    life.mouth.heard = Heard(text="he", played_ms=10.0, underruns=2)
    first = life.begin()
    assert life.answers.alive(first)
    assert life.plans.of(first) is PLAN
    life.answers.interrupt()
    life.answers.interrupt()
    assert not life.answers.alive(first)
    second = life.begin()
    life.answers.on_played(second, "hello", underruns=0)
    assert life.events == [AnswerEnded()]
    life.begin()
    life.answers.close()
    life.answers.close()
    assert [(r.outcome, r.answer, r.underruns) for r in life.books.turns] == [
        ("interrupted", "he", 2),
        ("answered", "hello", 0),
        ("interrupted", "he", 2),
    ]
    assert [message["content"] for message in life.messages] == ["he", "hello", "he"]
    assert life.board.live == 0
    assert life.plans.of(3) is None
