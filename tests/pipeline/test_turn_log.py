"""Invariants: the log of turns holds every line in order, and blocks nothing; a disk that fails
ends the log, and not the conversation.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.turn_log import TurnLog
from pipeline.turns.actions import Commit
from pipeline.turns.record import read, replay
from tests.pipeline.harness import conversation


async def test_every_line_in_order(tmp_path: Path) -> None:
    path = tmp_path / "new" / "log.jsonl"
    log = TurnLog(path)
    for number in range(1000):
        log.write(f"{number}\n")
    assert not path.exists()
    await log.close()
    assert path.read_text() == "".join(f"{number}\n" for number in range(1000))
    assert path.stat().st_mode & 0o077 == 0


async def test_nothing_was_said_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    await TurnLog(path).close()
    assert not path.exists()


async def test_a_disk_that_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    log = TurnLog(tmp_path / "file" / "log.jsonl")
    for _ in range(300):
        log.write("x\n")
    await log.close()
    log.write("x\n")
    await log.close()


async def test_a_conversation_is_decided_from_its_log_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    async with conversation(log=TurnLog(path)) as talk:
        await talk.microphone.say(0.6)
        await talk.sink.wait("end")
    with path.open(encoding="utf-8") as lines:
        decided = [a for step in replay(read(lines, name="log")) for a in step.actions]
    assert [a.text for a in decided if isinstance(a, Commit)] == ["你好吗？"]
