"""Whatever happens, every sample of a turn is in exactly one finished utterance."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from services.asr.base import SAMPLE_RATE, Samples
from services.asr.funasr_remote.protocol import FRAME, Utterance, utterance_name
from services.asr.funasr_remote.turn import Audio, Begin, End, Turn

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("feed"), st.integers(0, 5000)),
        st.tuples(st.sampled_from(["ask", "withdraw", "send", "answer", "partial"]), st.just(0)),
        st.tuples(st.just("lose"), st.just(0)),
    ),
    max_size=60,
)


def ramp(start: int, stop: int) -> Samples:
    """Is nowhere silent, and tells each sample from its neighbours."""
    return (np.arange(start, stop, dtype=np.float32) % 9973 + 1000) * np.float32(1 / 32768)


class Line:
    """A server that hears everything, and the account of it."""

    def __init__(self) -> None:
        names = itertools.count(1)
        self.turn = Turn(limit_s=60, mode="2pass", name=lambda: utterance_name(next(names)))
        self.fed = 0
        self.asked: list[int] = []
        self.current: list[Samples] = []
        self.begun: Utterance | None = None
        self.ended: int | None = None
        self.finished: list[Samples] = []
        self.ends: list[int] = []
        self.partial_ends = [0.0]

    def feed(self, count: int) -> None:
        self.turn.feed(ramp(self.fed, self.fed + count))
        self.fed += count

    def send(self) -> bool:
        match self.turn.next():
            case Begin(utterance):
                assert self.begun is None
                assert utterance is self.turn.utterance
                self.begun = utterance
            case Audio(samples):
                assert self.begun is not None
                assert 0 < len(samples) <= FRAME
                self.current.append(samples)
                self.begun.increments.append("好")
            case End(at):
                assert self.begun is not None
                assert at in self.asked
                self.begun.ended = True
                self.ended = at
            case None:
                return False
        return True

    def answer(self) -> None:
        if self.ended is None:
            return
        assert self.begun is not None
        assert self.turn.next() is None
        self.begun.stretches.append(f"第{len(self.ends)}")
        assert self.turn.finish(compute_s=0.1) == self.ended
        self.finished += self.current
        self.ends.append(self.ended)
        self.asked = [end for end in self.asked if end != self.ended]
        result = self.turn.result(self.ended)
        assert result is not None
        assert round(result.audio_s * SAMPLE_RATE) == self.ended == self.sent
        assert result == self.turn.result(self.ended)
        self.current, self.begun, self.ended = [], None, None

    def lose(self) -> None:
        self.turn.lost()
        self.current, self.begun, self.ended = [], None, None

    def ask(self) -> None:
        if self.turn.result(self.turn.end) is None:
            self.turn.ask(self.turn.end)
            self.asked.append(self.turn.end)

    def withdraw(self) -> None:
        for end in self.asked:
            self.turn.withdraw(end)
        # One that was ended already is finished all the same.
        self.asked = [end for end in self.asked if end == self.ended]

    def partial(self) -> None:
        partial = self.turn.partial()
        if partial is not None:
            assert partial.audio_s >= self.partial_ends[-1]
            self.partial_ends.append(partial.audio_s)

    @property
    def sent(self) -> int:
        return sum(len(samples) for samples in self.finished)


@given(OPERATIONS)
def test_nothing_is_lost_and_nothing_is_sent_twice(operations: list[tuple[str, int]]) -> None:
    line = Line()
    for name, count in operations:
        if name == "feed":
            line.feed(count)
        else:
            getattr(line, name)()
    line.feed(FRAME)  # less than 20 ms are not worth asking for
    line.ask()
    while line.asked:
        while line.send():
            pass
        line.answer()
    assert line.sent == line.fed
    heard = np.concatenate([*line.finished, np.empty(0, np.float32)])
    assert np.array_equal(heard, ramp(0, line.fed))
    assert line.ends == sorted(set(line.ends))


@given(OPERATIONS)
def test_what_is_sent_keeps_to_whole_messages_but_for_the_last(
    operations: list[tuple[str, int]],
) -> None:
    line = Line()
    for name, count in operations:
        if name == "feed":
            line.feed(count)
        else:
            getattr(line, name)()
        assert all(len(samples) == FRAME for samples in line.current[:-1])


def test_what_is_heard_again_is_not_shown_again() -> None:
    line = Line()
    line.feed(3 * FRAME)
    while line.send():
        pass
    first = line.turn.partial()
    assert first is not None
    assert first.text == "好好好"
    assert line.turn.partial() is None
    line.lose()
    line.feed(FRAME)
    shown = []
    while line.send():
        partial = line.turn.partial()
        if partial is not None:
            shown.append(partial.text)
    assert shown == ["好好好好"]


def test_what_a_turn_has_dropped_is_not_sent_as_empty_messages() -> None:
    turn = Turn(limit_s=1, mode="2pass", name=lambda: utterance_name(1))
    turn.feed(ramp(0, 100 * SAMPLE_RATE))
    turn.ask(turn.end)
    assert isinstance(turn.next(), Begin)
    sent: list[Samples] = []
    while isinstance(step := turn.next(), Audio):
        sent.append(step.samples)
    assert step == End(100 * SAMPLE_RATE)
    kept = np.concatenate(sent)
    assert all(len(samples) == FRAME for samples in sent[:-1])
    assert SAMPLE_RATE <= len(kept) < 100 * SAMPLE_RATE
    assert np.array_equal(kept, ramp(100 * SAMPLE_RATE - len(kept), 100 * SAMPLE_RATE))
