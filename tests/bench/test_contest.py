"""Invariant: every server hears the same speech, and each utterance gets one verdict."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest
from websockets.asyncio.server import ServerConnection, serve

from pipeline.bench import contest as module
from pipeline.bench.analysis import Measured
from pipeline.bench.contest import Contestant, Rules, contest
from pipeline.bench.peer_wire import PeerWire
from pipeline.bench.wire import MICROPHONE_RATE, RealtimeWire
from pipeline.talk.endpoint import Endpoint
from pipeline.talk.stereo import RATE
from tests.bench.made import clip
from tests.talk.served import daemon, scripted_config

TONE = np.full(RATE // 20, 5000, np.int16).tobytes()
CLIPS = [clip("打开灯", seconds=0.4), clip("关上门", seconds=0.5)]


def contestant(name: str, address: str, *, peer: bool = False) -> Contestant:
    wire = PeerWire if peer else RealtimeWire
    return Contestant(name=name, endpoint=Endpoint.of(address), wire=wire)


async def test_the_daemon_answers_what_was_said() -> None:
    config = scripted_config(
        "scripted.marked=true",
        'scripted.transcripts=["打开灯","关上门"]',
        engines="scripted:instant",
    )
    clips = [each.marked(number) for number, each in enumerate(CLIPS, start=1)]
    told: list[tuple[str, str]] = []

    def advance(who: Contestant, turn: Measured) -> None:
        told.append((who.name, turn.clip))

    async with daemon(config) as address:
        outcomes = await contest(
            [contestant("duplexd", address)], clips, Rules(timeout_s=20), advance=advance
        )
    turns = outcomes["duplexd"].turns
    assert told == [("duplexd", "打开灯"), ("duplexd", "关上门")]
    assert [turn.heard for turn in turns] == [("打开灯",), ("关上门",)]
    assert not any(turn.cutoff for turn in turns)
    assert all(turn.v2v_ms is not None and turn.v2v_ms > 0 for turn in turns)
    assert turns[0].answer == "你说的是：打开灯"
    for turn in turns:
        assert {"endpoint", "sent", "heard"} <= turn.stamps.keys()
        assert sum(turn.parts_ms.values()) == pytest.approx(turn.v2v_ms)
    assert outcomes["duplexd"].client_late_ms


class Impatient:
    """A peer that commits a turn after so much of the microphone, and answers with a tone."""

    def __init__(self, *after_s: float, answers: bool = True) -> None:
        self.after_s = after_s
        self.answers = answers
        self.conversations = 0

    async def __call__(self, socket: ServerConnection) -> None:
        self.conversations += 1
        await socket.send(json.dumps({"type": "ready"}))
        voiced = 0
        left = [*self.after_s]
        async for message in socket:
            assert isinstance(message, bytes)
            loud = np.abs(np.frombuffer(message, np.int16)).max() > 1000
            voiced += len(message) // 2 if loud or voiced else 0
            if left and voiced >= left[0] * MICROPHONE_RATE:
                left.pop(0)
                await socket.send(json.dumps({"type": "turn", "text": "好"}))
                if self.answers:
                    await socket.send(TONE)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        async with serve(self, "127.0.0.1", 0) as serving:
            [socket] = serving.sockets
            yield f"127.0.0.1:{socket.getsockname()[1]}"


async def test_cut_off_missed_and_answered() -> None:
    servers = {
        "cuts": Impatient(0.2, 0.6),
        "swallows": Impatient(0.2),
        "mute": Impatient(0.6, answers=False),
        "good": Impatient(0.6),
    }
    async with asyncio.timeout(60):
        verdicts: dict[str, tuple[bool, bool]] = {}
        for name, server in servers.items():
            async with server.served() as address:
                found = await contest(
                    [contestant(name, address, peer=True)], CLIPS[:1], Rules(timeout_s=1)
                )
            [turn] = found[name].turns
            verdicts[name] = (turn.cutoff, turn.v2v_ms is None)
    assert verdicts == {
        "cuts": (True, False),
        "swallows": (True, True),
        "mute": (False, True),
        "good": (False, False),
    }


async def test_an_answer_that_comes_too_late_was_missed() -> None:
    late = Impatient(1.5)
    async with late.served() as address:
        found = await contest(
            [contestant("late", address, peer=True)], CLIPS[:1], Rules(timeout_s=0.5)
        )
    assert found["late"].turns[0].v2v_ms is None


async def test_servers_take_turns_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 1)
    order: list[str] = []
    one, two = Impatient(0.6), Impatient(0.6)
    async with one.served() as first, two.served() as second:
        await contest(
            [contestant("one", first, peer=True), contestant("two", second, peer=True)],
            CLIPS,
            Rules(timeout_s=5),
            advance=lambda who, turn: order.append(f"{who.name} {turn.clip}"),
        )
    assert order == ["one 打开灯", "two 打开灯", "two 关上门", "one 关上门"]
    assert (one.conversations, two.conversations) == (2, 2)
