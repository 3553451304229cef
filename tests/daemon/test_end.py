"""Invariants: however the daemon ends, its port is free again and no process, lock or temporary
file stays; asked to end, it does so within seconds, whatever goes on.
"""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
import pytest

from services.scripted.llm_script import LlmFault, LlmScript
from services.scripted.llm_server import ScriptedLlmServer
from services.scripted.spec import ScriptedTexts
from tests.daemon.client import STARTED, Client, talking, voice
from tests.daemon.process import END_S, DaemonProcess, serving

LONG = "从前有一座山，山里有一座庙。庙里有一个老和尚，在给小和尚讲故事。" * 3
#: exit codes: asked to stop by its supervisor, by Ctrl-C
CODES = {signal.SIGTERM: 0, signal.SIGINT: 130}


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """Where everything that it writes must lie; see `traces`."""
    for name in ("tmp", "home", "models"):
        (tmp_path / name).mkdir()
    return tmp_path


def variables(scratch: Path) -> dict[str, str]:
    return {
        "TMPDIR": str(scratch / "tmp"),
        "XDG_CACHE_HOME": str(scratch / "home"),
        "DUPLEXD_MODELS": str(scratch / "models"),
    }


def traces(scratch: Path) -> list[str]:
    """Files that are left."""
    return [str(path) for path in scratch.rglob("*") if path.is_file() or path.is_socket()]


def bind(port: int) -> None:
    """The port can be taken again."""
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))
        again.listen()


async def in_the_midst(
    stack: AsyncExitStack, daemon: DaemonProcess, script: LlmScript
) -> list[Client]:
    """Clients that are silent, speak, listen, and wait for the language model."""
    clients = [await stack.enter_async_context(talking(daemon.url)) for _ in range(4)]
    _, speaks, listens, waits = clients
    await speaks.append(voice(0.5))
    await speaks.wait(STARTED)
    await listens.speak()
    await listens.playing(1500)
    script.fault = LlmFault(kind="slow", delay_s=60)
    await waits.speak()
    await waits.transcript()
    return clients


@pytest.mark.parametrize("how", list(CODES), ids=lambda how: how.name)
async def test_it_ends_when_asked_while_clients_talk(how: signal.Signals, scratch: Path):
    script = LlmScript(texts=ScriptedTexts(replies=[LONG]))
    async with ScriptedLlmServer(script=script) as llm, AsyncExitStack() as stack:
        sets = {"llm.provider": "openai", "llm.base_url": llm.base_url, "llm.model": "scripted"}
        sets["log.level"] = "debug"  # what was said is in no other log
        daemon = await stack.enter_async_context(serving(sets=sets, env=variables(scratch)))
        port, children = daemon.port, daemon.process.children(recursive=True)
        assert children == []
        clients = await in_the_midst(stack, daemon, script)
        code, seconds = await asyncio.to_thread(daemon.end, how)
        assert seconds < END_S
        assert code == CODES[how], daemon.log
        assert daemon.lines[-1].endswith(" stopped")
        for client in clients:
            closed = await client.over()
            assert closed.rcvd is not None, "the client got no goodbye"
        assert "Traceback" not in daemon.log
        assert "Task was destroyed" not in daemon.log
        turns = {line[1]: line for line in daemon.turn_lines(2)}
        assert {line[3] for line in turns.values()} == {"interrupted"}
        # what the one had heard until then, and the other had not
        assert re.search(r" s3 turn 1: .* -> '从前.+'$", daemon.log, re.MULTILINE)
        assert re.search(r" s4 turn 1: .* -> ''$", daemon.log, re.MULTILINE)
        bind(port)
        assert traces(scratch) == []


async def test_it_ends_at_once_when_nobody_is_there(scratch: Path):
    async with serving(env=variables(scratch)) as daemon:
        code, seconds = await asyncio.to_thread(daemon.end)
        assert (code, seconds < END_S) == (0, True)
        assert daemon.lines[-1].endswith(" stopped")
        assert traces(scratch) == []


async def test_it_ends_while_it_warms_up(scratch: Path):
    script = LlmScript(fault=LlmFault(kind="slow", delay_s=60))
    async with ScriptedLlmServer(script=script) as llm:
        sets = {"llm.provider": "openai", "llm.base_url": llm.base_url, "llm.model": "scripted"}
        async with serving(sets=sets, env=variables(scratch), ready=False) as daemon:
            await script.arrived.wait()
            code, seconds = await asyncio.to_thread(daemon.end)
            assert (code, seconds < END_S) == (0, True)
            assert "Traceback" not in daemon.log
            await asyncio.wait_for(script.requests[0].over.wait(), 5)


async def test_killed_it_leaves_nothing_and_starts_again_on_its_port(scratch: Path):
    async with serving(env=variables(scratch)) as daemon:
        port = daemon.port
        async with talking(daemon.url) as client:
            await client.speak()
            await client.playing(100)
            code, _ = await asyncio.to_thread(daemon.end, signal.SIGKILL)
            assert code == -signal.SIGKILL
            await client.over()
    assert traces(scratch) == []
    async with serving(sets={"server.port": port}, env=variables(scratch)) as daemon:
        assert daemon.port == port
        async with talking(daemon.url) as client:
            await client.speak()
            assert (await client.done())["status"] == "completed"


# --- with the real child process of the local language model -------------------------------------


@pytest.mark.models
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
async def test_the_local_language_model_ends_with_it(how: signal.Signals):
    async with serving(engines="scripted:asr=0,tts=0", args=["--llm", "local"]) as daemon:
        [child] = daemon.process.children(recursive=True)
        assert "local_child" in " ".join(child.cmdline())
        port = daemon.port
        async with talking(daemon.url) as client:
            await client.speak()
            await client.playing(20)  # it is in the midst of its answer
            await asyncio.to_thread(daemon.end, how)
        gone, _ = await asyncio.to_thread(psutil.wait_procs, [child], 3.0)
        # a container's first process may not reap orphans; a zombie is dead enough
        assert gone or child.status() == psutil.STATUS_ZOMBIE
        bind(port)
