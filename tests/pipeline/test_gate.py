"""Invariants: nothing of an uncommitted or dead revision ever leaves the gate; what leaves it does
so in the order in which it came; nothing is held once its revision is committed; what must not be
lost is not.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pipeline.gate import Gate, Piece
from services.revision import RevisionBoard


@pytest.fixture
def board() -> RevisionBoard:
    return RevisionBoard()


@pytest.fixture
def gate(board: RevisionBoard) -> Gate[str]:
    return Gate(board)


def taken(gate: Gate[str]) -> list[tuple[str, int]]:
    """Everything that may go on, with the revision that it may be played for."""
    result: list[tuple[str, int]] = []
    while (piece := gate.take()) is not None:
        result.append((piece.item, piece.revision))
    return result


def test_a_speculation_is_held_with_what_follows_it(board: RevisionBoard, gate: Gate[str]) -> None:
    gate.put(Piece("before"))
    revision = board.speculate()
    gate.put(Piece("a", revision))
    gate.put(Piece("after"))
    assert taken(gate) == [("before", 0)]
    assert len(gate) == 2
    board.commit(revision)
    assert taken(gate) == [("a", revision), ("after", 0)]
    assert len(gate) == 0


def test_an_open_answer_passes_at_once(board: RevisionBoard, gate: Gate[str]) -> None:
    revision = board.open()
    gate.put(Piece("a", revision))
    assert taken(gate) == [("a", revision)]


def test_a_revoked_answer_leaves_only_what_must_not_be_lost(
    board: RevisionBoard, gate: Gate[str]
) -> None:
    revision = board.speculate()
    for piece in (
        Piece("sound", revision),
        Piece("kept", revision, lasting=True),
        Piece("nobody's"),
        Piece("more sound", revision),
    ):
        gate.put(piece)
    board.revoke()
    assert taken(gate) == [("kept", 0), ("nobody's", 0)]


def test_dead_pieces_go_at_once_also_behind_what_is_held(
    board: RevisionBoard, gate: Gate[str]
) -> None:
    dead = board.open()
    live = board.speculate()
    gate.put(Piece("held", live))
    gate.put(Piece("late", dead))
    gate.put(Piece("late but kept", dead, lasting=True))
    gate.drop_dead()
    assert len(gate) == 2
    board.commit(live)
    assert taken(gate) == [("held", live), ("late but kept", 0)]


class GateMachine(RuleBasedStateMachine):
    """Any order of events on the board and at the gate, beside a model of it: a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.board = RevisionBoard()
        self.gate: Gate[int] = Gate(self.board)
        self.model: list[Piece[int]] = []
        self.count = 0
        self.last = 0

    @rule(age=st.integers(0, 3), lasting=st.booleans(), nobodys=st.booleans())
    def put(self, age: int, lasting: bool, nobodys: bool) -> None:
        revision = 0 if nobodys else max(0, self.last - age)
        self.count += 1
        piece = Piece(self.count, revision, lasting=lasting)
        self.gate.put(piece)
        self.model.append(piece)

    @rule()
    def speculate(self) -> None:
        self.last = self.board.speculate()

    @rule()
    def open(self) -> None:
        self.last = self.board.open()

    @precondition(lambda self: self.board.live)
    @rule()
    def commit(self) -> None:
        self.board.commit(self.board.live)

    @rule()
    def revoke(self) -> None:
        self.board.revoke()

    @rule()
    def drop_dead(self) -> None:
        self.gate.drop_dead()
        self.model = [p for p in self.model if p.lasting or not self.dead(p)]

    @rule()
    def take(self) -> None:
        piece = self.gate.take()
        while self.model and self.dead(self.model[0]) and not self.model[0].lasting:
            del self.model[0]
        if piece is None:
            # nothing is held but by an answer that is live and not committed
            assert not self.model or (
                self.model[0].revision == self.board.live and not self.board.is_open
            )
            return
        first = self.model.pop(0)
        assert piece.item == first.item
        if piece.revision:
            assert piece.revision == first.revision == self.board.live
            assert self.board.is_open
        else:
            assert not first.revision or self.dead(first)

    @invariant()
    def no_more_is_kept_than_came(self) -> None:
        assert len(self.gate) <= len(self.model)

    def dead(self, piece: Piece[int]) -> bool:
        return piece.revision != 0 and piece.revision != self.board.live


TestGateMachine = GateMachine.TestCase
TestGateMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
