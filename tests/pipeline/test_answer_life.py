"""Invariants: there is one answer at a time; what is told of another counts for nothing; each is
counted once.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from pipeline.answers import Answers
from pipeline.context_book import ContextBook
from pipeline.effects import Effects
from pipeline.latency import TurnReport
from pipeline.mouth import Heard, Mouth
from pipeline.speculation import Guess, Speculation
from pipeline.tool_runner import ToolRunner, ToolSettings
from pipeline.turns.events import AnswerEnded, Called, Event, PlaybackStarted, Withdrawn
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

    def pause(self) -> None:
        """It is still."""

    def resume(self) -> None:
        """It stays so."""


class Life:
    """Answers with everything around them; effects are kept, and performed by nobody."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.board, self.plans = RevisionBoard(), AnswerPlans()
        self.book = ContextBook(self.messages)
        self.books, self.mouth = Books(), StillMouth()
        self.events: list[Event] = []
        self.sink = RecordingSink()
        self.effects: list[Any] = []
        self.queue = effects = Effects(session="s", on_gone=lambda: None)
        effects.add = self.effects.append  # type: ignore[method-assign]
        self.answers = Answers(
            session="s",
            sink=self.sink,
            board=self.board,
            plans=self.plans,
            book=self.book,
            effects=effects,
            accounts=self.books,
        )
        nobody = SimpleNamespace(free=False, filler="", rested=lambda _: None)
        tools = ToolRunner(session="s1", settings=ToolSettings(), conversation=cast(Any, nobody))
        self.answers.attach(mouth=cast(Mouth, self.mouth), on_event=self.events.append, tools=tools)

    async def perform(self) -> list[tuple[Any, ...]]:
        """Performs the effects; returns what the client was told."""
        for effect in self.effects:
            await effect()
        self.effects.clear()
        return self.sink.calls

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


# --- speculated ------------------------------------------------------------------------------
def speculate(life: Life, number: int = 1) -> int:
    return life.answers.speculate(number, PLAN, TurnReport(turn=0))


async def test_nobody_is_told_of_an_answer_that_is_held() -> None:
    life = Life()
    revision = speculate(life)
    assert life.answers.speculated(revision)
    assert life.plans.of(revision) is PLAN
    life.answers.on_usage(revision, Usage(input_tokens=1, output_tokens=1))
    life.answers.on_cut(revision, "max_tokens")
    life.answers.on_stamp(revision, "first_token", 1.0)
    life.answers.on_call_arguments(revision, "c", "{}")
    life.answers.on_call_done(revision, CALL)
    life.answers.on_playing(revision)
    assert life.effects == []
    assert life.events == []
    assert life.messages == []
    # What is known of it is told once it is an answer.
    report = TurnReport(turn=3)
    assert life.answers.commit(report) == revision
    assert not life.answers.speculated(revision)
    assert not life.board.is_open
    assert await life.perform() == [("begin", revision, None)]
    assert life.board.is_open
    life.answers.on_playing(revision)
    life.book.ask(answer_ref(revision))
    life.answers.on_played(revision, "he", underruns=0)
    await life.perform()
    assert life.events == [PlaybackStarted(), AnswerEnded()]
    assert life.sink.usage[revision] == Usage(input_tokens=1, output_tokens=1)
    assert life.sink.cut[revision] == "max_tokens"
    assert report.stamps["first_token"] == 1.0
    assert life.books.turns == [report]


def test_a_held_answer_that_calls_or_fails_is_of_no_use() -> None:
    for fail in (
        lambda answers, revision: answers.on_failure(revision, EngineFailed("x")),
        lambda answers, revision: answers.on_call_begun(revision, "c", "look"),
    ):
        life = Life()
        fail(life.answers, speculate(life, 7))
        assert life.events == [Withdrawn(7, for_good=True)]
        assert life.effects == []
        assert life.books.errors == []


def test_a_revoked_answer_has_never_been() -> None:
    life = Life()
    revision = speculate(life)
    life.answers.revoke(asked=True)
    assert len(life.effects) == 1  # ends the work on it
    tell_all(life.answers, revision)
    assert len(life.effects) == 1
    speculate(life)
    life.answers.revoke(asked=False)
    speculate(life)
    life.answers.close()
    assert len(life.effects) == 1
    assert life.board.live == 0
    assert life.books.turns == []
    assert life.messages == []


async def test_an_answer_that_is_interrupted_before_it_was_told_stays_shut() -> None:
    life = Life()
    revision = speculate(life)
    life.answers.commit(TurnReport(turn=1))
    begin = life.effects.pop()
    life.answers.interrupt()
    await begin()
    assert life.board.live == 0
    assert life.sink.calls == [("begin", revision, None)]
    assert [report.outcome for report in life.books.turns] == ["interrupted"]


def test_what_is_heard_before_the_turn_is_written_stands_behind_it() -> None:
    life = Life()
    revision = speculate(life)
    life.answers.commit(TurnReport(turn=1))
    life.answers.on_call_done(revision, CALL)
    life.answers.on_played(revision, "heard", underruns=0)
    assert life.messages == []
    life.messages.append({"role": "user", "content": "asked"})
    life.book.ask(answer_ref(revision))
    assert [message["content"] for message in life.messages] == ["asked", "heard"]
    assert len(life.messages[1]["tool_calls"]) == 1


async def test_pauses_are_told_in_order() -> None:
    life = Life()
    revision = life.begin()
    life.answers.pause()
    life.answers.resume()
    assert await life.perform() == [
        ("begin", revision, None),
        ("pause", revision),
        ("resume", revision),
    ]


async def test_what_is_revoked_before_it_was_asked_for_costs_nothing() -> None:
    life = Life()
    speculation = Speculation(
        answers=life.answers,
        effects=life.queue,
        accounts=life.books,
        plan=lambda _: PLAN,
        busy=lambda: False,
        on_event=life.events.append,
    )
    speculation.begin(Guess(number=1, text="x", language="en"))
    speculation.revoke()
    # Neither a request goes out, nor an interruption of one: both would need a pipeline.
    assert await life.perform() == []
    assert life.books.guesses == ["revoked"]
