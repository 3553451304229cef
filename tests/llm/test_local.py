"""The local model's process is up, coming up again, or told to have failed; never left behind."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from services.llm.local import NAME, LocalLlm, choose_model
from tts_engine.errors import EngineFailed, ModelMissing, TimedOut
from tts_engine.restart import RestartPolicy

FAKE = Path(__file__).with_name("fake_child.py")
#: generous bound of everything that happens by itself
SOON_S = 20.0
QUICK = RestartPolicy(first_s=0.01, longest_s=0.05)

Make = Callable[..., "Watched"]


class Watched(LocalLlm):
    """A LocalLlm on the fake child that records its states and can be waited for."""

    def __init__(self, folder: Path, moods: str, **options: object) -> None:
        model = folder / "tiny.gguf"
        model.touch()
        self.moods = folder / "moods"
        self.moods.write_text(moods)
        self.states: list[tuple[str, str]] = []
        self.moves: list[str] = []
        self._changed = asyncio.Event()
        settings = {"policy": QUICK, "grace_s": 3.0, "start_timeout_s": SOON_S} | options
        super().__init__(
            model_path=model,
            threads=1,
            command=(sys.executable, str(FAKE), str(self.moods)),
            on_state=self._record,
            on_address=self.moves.append,
            **settings,  # pyright: ignore[reportArgumentType]
        )

    def _record(self, state: str, detail: str) -> None:
        self.states.append((state, detail))
        self._changed.set()

    async def until(self, state: str, count: int = 1) -> str:
        """Waits for the count-th time a state is entered; returns its detail."""
        async with asyncio.timeout(SOON_S):
            while len(seen := [d for s, d in self.states if s == state]) < count:
                self._changed.clear()
                await self._changed.wait()
        return seen[count - 1]

    async def spawned(self) -> psutil.Process:
        """Waits for the child to exist; no state tells that."""
        async with asyncio.timeout(SOON_S):
            while self.pid is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return self.child()

    @property
    def port(self) -> int:
        return urlsplit(self.base_url).port or 0

    def child(self) -> psutil.Process:
        assert self.pid is not None
        return psutil.Process(self.pid)


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    made: list[Watched] = []

    def build(moods: str, **options: object) -> Watched:
        made.append(Watched(tmp_path, moods, **options))
        return made[-1]

    yield build
    for local in made:
        await local.close()
    assert [c for c in psutil.Process().children() if str(FAKE) in c.cmdline()] == []
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not [t for t in left if NAME in t.get_name()]


async def test_it_serves_and_ends(make: Make):
    local = make("serve")
    assert local.base_url == ""
    assert local.pid is None
    await local.start()
    child = local.child()
    assert local.base_url == f"http://127.0.0.1:{local.port}/v1"
    assert local.model == "tiny"
    assert [state for state, _ in local.states] == ["starting", "ready"]
    await local.close()
    await local.close()
    assert not child.is_running()
    assert local.pid is None


async def test_the_key_is_not_on_the_command_line(make: Make):
    local = make("serve")
    await local.start()
    child = local.child()
    assert len(local.api_key) >= 32
    assert local.api_key not in " ".join([*child.cmdline(), *child.environ().values()])


async def test_a_missing_model_is_named(tmp_path: Path):
    local = LocalLlm(model_path=tmp_path / "none.gguf", threads=1)
    with pytest.raises(ModelMissing, match=r"none\.gguf.*models fetch"):
        await local.start()
    await local.close()


async def test_a_command_that_is_not_there(tmp_path: Path):
    model = tmp_path / "tiny.gguf"
    model.touch()
    local = LocalLlm(model_path=model, threads=1, command=(str(tmp_path / "nothing"),))
    with pytest.raises(EngineFailed, match="could not be started"):
        await local.start()
    assert local.state == "failed"
    await local.close()


async def test_death_at_the_first_start_is_told_with_the_last_words(make: Make):
    local = make("die")
    with pytest.raises(EngineFailed, match=r"exit status 3 before it was ready: .*made of cheese"):
        await local.start()
    assert local.state == "failed"
    assert "cheese" in local.detail


async def test_stdout_that_ends_without_a_report_is_a_failure(make: Make):
    local = make("mute")
    with pytest.raises(EngineFailed, match="before it was ready"):
        await local.start()


async def test_never_ready_is_timed_out(make: Make):
    local = make("never", start_timeout_s=0.3)
    with pytest.raises(TimedOut, match=r"not ready after 0\.3 s"):
        await local.start()


async def test_garbage_before_the_report_is_only_log(make: Make):
    local = make("moody")
    await local.start()
    assert local.state == "ready"
    assert local.port


async def test_after_a_death_it_comes_back_on_the_same_port(make: Make):
    local = make("serve")
    await local.start()
    first, port = local.child(), local.port
    first.kill()
    assert "killed by signal 9" in await local.until("restarting")
    await local.until("ready", 2)
    assert local.port == port
    assert local.moves == []
    assert local.pid != first.pid


async def test_a_taken_port_is_given_up(make: Make):
    local = make("serve", policy=RestartPolicy(first_s=0.3))
    await local.start()
    old = local.port
    local.child().kill()
    await local.until("restarting")
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.bind(("127.0.0.1", old))
        thief.listen()
        await local.until("ready", 2)
        assert local.port not in (0, old)
    assert local.moves == [local.base_url]


async def test_five_quick_deaths_are_a_failure_and_not_the_end(make: Make):
    local = make("brief brief die die segv serve")
    await local.start()
    detail = await local.until("failed")
    assert "signal 11" in detail
    await local.until("ready", 4)
    assert [state for state, _ in local.states if state != "ready"] == [
        "starting",
        *["restarting"] * 4,
        "failed",
    ]


async def test_a_restart_that_never_gets_ready_counts_as_a_death(make: Make):
    local = make("serve never serve", start_timeout_s=2.0)
    await local.start()
    local.child().kill()
    assert "not ready after" in await local.until("restarting", 2)
    await local.until("ready", 2)


async def test_sigterm_ignored_is_answered_with_sigkill(make: Make):
    local = make("deaf", grace_s=0.2)
    await local.start()
    child = local.child()
    async with asyncio.timeout(SOON_S):
        await local.close()
    assert not child.is_running()


async def test_close_while_it_starts(make: Make):
    local = make("never")
    start = asyncio.create_task(local.start())
    child = await local.spawned()
    await local.close()
    with pytest.raises(EngineFailed, match="closed while it was starting"):
        await start
    assert not child.is_running()


async def test_a_cancelled_start_leaves_nothing(make: Make):
    local = make("never")
    start = asyncio.create_task(local.start())
    child = await local.spawned()
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert not child.is_running()


async def test_close_while_it_waits_to_restart(make: Make):
    local = make("serve", policy=RestartPolicy(first_s=30))
    await local.start()
    os.kill(local.child().pid, signal.SIGKILL)
    await local.until("restarting")
    async with asyncio.timeout(SOON_S):
        await local.close()
    assert local.pid is None


async def test_a_cancelled_close_still_kills(make: Make):
    local = make("deaf", grace_s=30.0)
    await local.start()
    child = local.child()
    close = asyncio.create_task(local.close())
    await asyncio.sleep(0.05)
    close.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await close
    gone, _ = await asyncio.to_thread(psutil.wait_procs, [child], SOON_S)
    assert gone == [child]


@pytest.mark.parametrize(
    "choice, cores, name",
    [
        ("auto", 1, "qwen2.5-coder-0.5b"),
        ("auto", 3, "qwen2.5-coder-0.5b"),
        ("auto", 4, "qwen2.5-coder-1.5b"),
        ("0.5b", 64, "qwen2.5-coder-0.5b"),
        ("1.5b", 1, "qwen2.5-coder-1.5b"),
    ],
)
def test_the_larger_model_wants_four_cores(choice, cores: int, name: str):
    assert choose_model(choice, cores) == name
