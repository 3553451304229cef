"""Invariant: a server that is measured is a process of its own, where it was put, and ends."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import numpy as np
import psutil
import pytest

from pipeline.bench import rig
from pipeline.bench.client import conversation
from pipeline.bench.contest import Contestant, Rules, contest
from pipeline.bench.peer import VARIANTS
from pipeline.bench.peer_wire import PeerWire
from pipeline.bench.speech import Clip
from tests.conftest import Speech
from tts_engine.errors import BadRequest, EngineFailed

ENGINES = ("--engines", "scripted:instant")


def test_a_daemon_on_a_core_of_its_own(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    core = max(before)
    log = tmp_path / "log"
    sets = {"vad.provider": "energy", "log.format": "json"}
    with rig.daemon(ENGINES, sets=sets, cores={core}, log=log) as server:
        assert server.process.cpu_affinity() == [core]
        assert os.sched_getaffinity(0) == before
        assert server.cpu_s > 0
        assert 10 < server.memory_mb < 2000
        assert server.at("/other").url.endswith("/other")
        assert server.at("/other").key == server.endpoint.key

        async def talk() -> None:
            async with conversation(server.endpoint) as client:
                assert await client.until(lambda: client.sent > client.began, timeout_s=20)

        asyncio.run(talk())
    assert not server.process.is_running()
    assert json.loads(log.read_text().splitlines()[0])


def test_cores_that_are_not_there() -> None:
    before = os.sched_getaffinity(0)
    with pytest.raises(BadRequest, match="no cores 4000"), rig.daemon(ENGINES, cores={4000}):
        pass
    assert os.sched_getaffinity(0) == before


def test_a_server_that_does_not_start_says_why() -> None:
    children = psutil.Process().children()
    with (
        pytest.raises(EngineFailed, match="no_such_key"),
        rig.daemon(ENGINES, sets={"server.no_such_key": "1"}),
    ):
        pass
    assert psutil.Process().children() == children


@pytest.mark.models
@pytest.mark.timeout(300)  # several processes start and talk in real time
def test_the_peer_answers_over_the_same_engines(speech: Speech, tmp_path: Path) -> None:
    said = np.rint(speech("今天天气怎么样") * 32767).astype(np.int16)
    samples = np.pad(said, (800, 1600))
    clip = Clip(
        name="q",
        text="今天天气怎么样",
        samples=samples,
        start=0.05,
        end=0.05 + len(said) / 16_000,
        kind="question",
        ends=tuple(800 + len(said) * (at + 1) // 7 for at in range(7)),
    ).marked(1)
    sets = {"scripted.marked": "true", "scripted.transcripts": f'["{clip.text}"]'}
    with rig.peer(ENGINES, sets=sets, log=tmp_path / "log") as server:
        variants = [
            Contestant(name=name, endpoint=server.at(rig.path_of(name, frame_ms=20)), wire=PeerWire)
            for name in VARIANTS
        ]
        found = asyncio.run(contest(variants, [clip], Rules(timeout_s=20)))
        for name in VARIANTS:
            [turn] = found[name].turns
            assert "".join(turn.heard) == clip.text, name
            assert turn.v2v_ms is not None

        async def unknown() -> None:
            async with conversation(server.at("/none"), PeerWire()):
                raise AssertionError("there is no such variant")

        with pytest.raises(EngineFailed):
            asyncio.run(unknown())
    assert not server.process.is_running()
