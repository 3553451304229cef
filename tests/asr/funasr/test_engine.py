"""The engine's side of the worker: the contract, failures, death and recovery.

The worker's models write down which samples they were given, so every text tells what it covers.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from services.asr.base import Transcript
from services.asr.funasr.engine import CHILD, FunAsrEngine
from services.asr.funasr.recogniser import FunAsrRecogniser
from services.asr.funasr.wire import Mode, Settings
from tests.asr.funasr.fake_models import CHUNK, SPOILT, counting, covered
from tests.asr.partials import Partials
from tts_engine.errors import (
    AtCapacity,
    BadAudio,
    DuplexdError,
    EngineFailed,
    ModelMissing,
    NotReady,
    TimedOut,
)
from tts_engine.restart import RestartPolicy

#: bound of every wait, on a machine that others use as well, seconds
PATIENCE_S = 120.0
AT_ONCE = RestartPolicy(first_s=0.01, longest_s=0.01, give_up_after=1_000)
MODES: tuple[Mode, ...] = ("streaming+offline", "offline", "streaming")
EMPTY = Transcript(text="")
FAKE = Path(__file__).with_name("fake_worker.py")
ROOT = Path(__file__).parents[3]


def fake(how: str) -> tuple[str, ...]:
    program = f"import sys, runpy; sys.path.insert(0, {str(ROOT)!r}); runpy.run_path({str(FAKE)!r})"
    return (sys.executable, "-c", program, how)


async def until(condition: Callable[[], bool]) -> None:
    """Waits for what no event tells of."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@asynccontextmanager
async def faked(
    mode: Mode = "streaming+offline", how: str = "ready", *, start: bool = True, **options: Any
) -> AsyncIterator[FunAsrEngine]:
    """An engine whose worker has fake models."""
    engine = FunAsrEngine(
        settings=Settings(mode=mode, chunk_ms=100, segment_s=1.0),
        command=fake(how),
        **{"policy": AT_ONCE, "timeout_s": PATIENCE_S, **options},
    )
    before = asyncio.all_tasks()
    try:
        if start:
            await engine.start()
        yield engine
    finally:
        await engine.close()
        await engine.close()
    assert not asyncio.all_tasks() - before
    assert engine.worker.pid is None
    assert engine.stats.depth == 0


class Talker:
    """Somebody whose audio tells where it lies, and whose it is."""

    def __init__(self, engine: FunAsrEngine, number: int = 1) -> None:
        self.number = number
        self.end = 0
        self.partials = Partials()
        self.recogniser: FunAsrRecogniser = engine.open(
            session=f"s{number}", on_partial=self.partials
        )

    def say(self, samples: int, block: int = 512) -> None:
        stop = self.end + samples
        while self.end < stop:
            size = min(block, stop - self.end)
            self.recogniser.feed(counting(self.end, self.end + size, of=self.number))
            self.end += size

    async def heard(self) -> tuple[int, int, int]:
        """Asks for the text, and checks it; what it covers."""
        end = self.end
        transcript = await self.recogniser.finalise()
        assert transcript.final
        assert transcript.audio_s == end / 16_000
        return covered(transcript.text)

    async def partial(self, end: int) -> None:
        """Waits for the partial that covers so many samples; checks those before."""
        await self.partials.until(lambda text: covered(text)[2] >= end)
        self.partials.check()
        for each in self.partials:
            number, start, stop = covered(each.text)
            assert (number, start, stop) == (self.number, 0, round(each.audio_s * 16_000))


@pytest.mark.parametrize("mode", MODES)
async def test_turns_of_two_people_at_once(mode: Mode) -> None:
    async with faked(mode) as engine:
        waits: list[float] = []
        engine.stats.on_wait = waits.append
        one, two = Talker(engine, 1), Talker(engine, 2)
        assert await one.recogniser.finalise() == EMPTY
        for _ in range(10):
            one.say(3_333)
            two.say(2_500, block=7_000)
        heard = await asyncio.gather(one.heard(), two.heard())
        assert heard == [(1, 0, 33_330), (2, 0, 25_000)]
        one.say(100)
        assert await one.heard() == (1, 0, 33_430)
        one.recogniser.reset()
        one.end = 0
        assert await one.recogniser.finalise() == EMPTY
        one.say(5_000)
        assert await one.heard() == (1, 0, 5_000)
        assert (engine.stats.jobs, len(waits)) == (4, 4)
        assert min(waits) >= 0.0
        assert engine.stats.errors == {}


@pytest.mark.parametrize("mode", ["streaming+offline", "streaming"])
async def test_partials_hold_all_that_was_said_so_far(mode: Mode) -> None:
    async with faked(mode) as engine:
        one, two = Talker(engine, 1), Talker(engine, 2)
        silent = engine.open(session="nobody listens")
        waits: list[float] = []
        engine.stats.on_partial_wait = waits.append
        for number in range(1, 6):
            one.say(CHUNK)
            two.say(CHUNK, block=100)
            silent.feed(counting(0, CHUNK, of=3))
            await one.partial(number * CHUNK)
            await two.partial(number * CHUNK)  # or two of its chunks may share a step
        assert one.partials[-1].language in ("", "en")
        assert len(waits) >= 10
        assert engine.stats.stride_s == pytest.approx(0.1)
        # What is behind a final is not told after it.
        one.say(3 * CHUNK)
        await one.heard()
        told = len(one.partials)
        one.say(CHUNK)
        await one.partial(9 * CHUNK)
        assert all(each.audio_s > 0.8 for each in one.partials[told:])
        one.recogniser.close()
        two.say(CHUNK)
        await two.partial(6 * CHUNK)


async def test_who_cannot_be_told_a_partial_holds_up_nobody() -> None:
    async with faked() as engine:
        tried: list[Transcript] = []

        def refuse(partial: Transcript) -> None:
            tried.append(partial)
            raise ValueError("no")

        odd, one = engine.open(session="odd", on_partial=refuse), Talker(engine)
        odd.feed(counting(0, CHUNK, of=2))
        await until(lambda: bool(tried))
        assert covered((await odd.finalise()).text) == (2, 0, CHUNK)
        one.say(CHUNK)
        await one.partial(CHUNK)


async def test_partials_may_be_off() -> None:
    async with faked(partials=False) as engine:
        one = Talker(engine)
        one.say(5 * CHUNK)
        assert await one.heard() == (1, 0, 5 * CHUNK)
        assert not one.partials


async def test_a_question_is_answered_once() -> None:
    async with faked(hotwords=("duplexd",)) as engine:
        one = Talker(engine)
        one.say(CHUNK)
        first, same = await asyncio.gather(one.recogniser.finalise(), one.recogniser.finalise())
        assert first is not EMPTY
        assert (await one.recogniser.finalise()) == first == same
        assert engine.stats.jobs == 1
        one.recogniser.hint(("Anna", "duplexd"))
        await one.heard()
        one.recogniser.restrict(("en", "tlh"))
        await one.heard()
        assert engine.stats.jobs == 3
        one.recogniser.restrict(("tlh",))  # it knows none of them: all are meant
        one.recogniser.hint(())
        await one.heard()
        assert engine.stats.jobs == 4
        await one.heard()
        assert engine.stats.jobs == 4


async def test_one_caller_that_gives_up_does_not_take_the_text_from_the_other() -> None:
    async with faked() as engine:
        one = Talker(engine)
        one.say(CHUNK)
        leaving = asyncio.create_task(one.recogniser.finalise())
        staying = asyncio.create_task(one.recogniser.finalise())
        await asyncio.sleep(0)  # both ask
        assert engine.stats.depth == 1
        leaving.cancel()
        assert covered((await staying).text) == (1, 0, CHUNK)
        with pytest.raises(asyncio.CancelledError):
            await leaving


@pytest.mark.parametrize("way", ["cancel", "reset", "close"])
async def test_a_final_may_be_withdrawn(way: str) -> None:
    async with faked() as engine:
        one, two = Talker(engine, 1), Talker(engine, 2)
        one.recogniser.hint(("hang",))
        one.say(CHUNK)
        waiting = asyncio.create_task(one.recogniser.finalise())
        await until(lambda: engine.stats.depth == 1)
        getattr(one.recogniser, way)()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert engine.stats.depth == 0
        if way == "close":
            one.recogniser.close()
            with pytest.raises(EngineFailed, match="handle of session s1 is closed"):
                await one.recogniser.finalise()
        if way == "reset":
            assert await one.recogniser.finalise() == EMPTY
        # Its worker hangs in what was withdrawn: that is for others to notice.
        two.say(CHUNK)
        other = asyncio.create_task(two.recogniser.finalise())
        await until(lambda: engine.stats.depth == 1)
        two.recogniser.cancel()
        with pytest.raises(asyncio.CancelledError):
            await other


async def test_what_was_withdrawn_just_after_it_was_done_is_not_told() -> None:
    async with faked() as engine:
        one = Talker(engine)
        one.say(CHUNK)
        waiting = asyncio.create_task(one.recogniser.finalise())
        await asyncio.sleep(0)  # it asks
        [future] = engine._finals.values()
        future.add_done_callback(lambda _: one.recogniser.reset())
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_a_failure_comes_as_what_it_is_and_to_nobody_else() -> None:
    async with faked() as engine:
        one, two = Talker(engine, 1), Talker(engine, 2)
        one.recogniser.hint(("bad",))
        one.say(CHUNK)
        two.say(CHUNK)
        failure, heard = await asyncio.gather(
            one.recogniser.finalise(), two.heard(), return_exceptions=True
        )
        assert isinstance(failure, BadAudio)
        assert (failure.message, failure.mend) == ("Not like that", "Do it otherwise")
        assert heard == (2, 0, CHUNK)
        assert engine.stats.errors == {"bad_audio": 1}
        one.recogniser.hint(())
        assert await one.heard() == (1, 0, CHUNK)


async def test_partials_that_fail_are_counted_and_the_final_comes() -> None:
    async with faked() as engine:
        one = Talker(engine, SPOILT)
        one.say(3 * CHUNK)
        await until(lambda: bool(engine.stats.errors))
        assert engine.stats.errors == {"engine_failed": 1}
        assert await one.heard() == (SPOILT, 0, 3 * CHUNK)
        assert not one.partials


async def test_capacity_is_bounded() -> None:
    async with faked(queue_limit=2) as engine:
        talkers = [Talker(engine, number) for number in (1, 2, 3)]
        for talker in talkers:
            talker.say(CHUNK)
            talker.recogniser.hint(("hang",))
        waiting = [asyncio.create_task(each.recogniser.finalise()) for each in talkers[:2]]
        await until(lambda: engine.stats.depth == 2)
        with pytest.raises(AtCapacity, match=r"2 turns wait .*asr\.funasr\.queue_limit"):
            await talkers[2].recogniser.finalise()
        assert engine.stats.errors == {"at_capacity": 1}
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert engine.stats.depth == 0


async def test_a_worker_that_hangs_is_killed_and_its_successor_has_all_the_audio() -> None:
    async with faked(timeout_s=1.0) as engine:
        first = engine.worker.pid
        one = Talker(engine)
        one.say(CHUNK * 3)
        await one.partial(3 * CHUNK)
        one.recogniser.hint(("hang",))
        with pytest.raises(TimedOut, match="within 1 s"):
            await one.recogniser.finalise()
        assert engine.stats.errors["timed_out"] == 1
        one.recogniser.hint(())
        one.say(CHUNK)
        await until(lambda: engine.worker.pid not in (first, None) and engine.ready)
        engine.timeout_s = PATIENCE_S
        one.say(CHUNK)
        assert await one.heard() == (1, 0, 5 * CHUNK)
        one.say(CHUNK)
        await one.partial(6 * CHUNK)


async def test_a_worker_that_dies_is_started_again() -> None:
    async with faked() as engine:
        first = engine.worker.pid
        one, two, idle = Talker(engine, 1), Talker(engine, 2), Talker(engine, 3)
        one.say(CHUNK)
        two.say(CHUNK)
        one.recogniser.hint(("crash",))
        failures = await asyncio.gather(
            one.recogniser.finalise(), two.recogniser.finalise(), return_exceptions=True
        )
        for failure in failures:
            assert isinstance(failure, EngineFailed)
            assert "killed by signal 9: the last words" in failure.message
        assert engine.stats.errors == {"engine_failed": 2}
        two.say(CHUNK)  # while there is no worker, perhaps
        await until(lambda: engine.ready)
        assert engine.worker.pid != first
        one.recogniser.hint(())
        assert await one.heard() == (1, 0, CHUNK)
        assert await two.heard() == (2, 0, 2 * CHUNK)
        assert await idle.recogniser.finalise() == EMPTY


async def test_while_there_is_no_worker_everything_fails_at_once() -> None:
    slowly = RestartPolicy(first_s=3600, longest_s=3600)
    async with faked(policy=slowly) as engine:
        one = Talker(engine)
        one.say(CHUNK)
        one.recogniser.hint(("crash",))
        with pytest.raises(EngineFailed):
            await one.recogniser.finalise()
        await until(lambda: engine.worker.state == "restarting")
        assert not engine.ready
        one.say(5 * CHUNK)
        with pytest.raises(NotReady, match="restarting"):
            await one.recogniser.finalise()
        one.recogniser.reset()


async def test_a_worker_that_says_nothing_more_is_ended() -> None:
    async with faked(grace_s=0.2) as engine:
        first = engine.worker.pid
        one = Talker(engine)
        one.say(CHUNK)
        one.recogniser.hint(("deaf",))
        with pytest.raises(EngineFailed, match="killed by signal 9"):
            await one.recogniser.finalise()
        await until(lambda: engine.ready and engine.worker.pid != first)


@pytest.mark.parametrize(
    ("how", "kind", "told"),
    [
        ("refuse", ModelMissing, r"No model\. Get one"),
        ("die", EngineFailed, "exit status 1 before it was ready: I cannot go on"),
        ("mute", TimedOut, r"not ready after 0\.5 s"),
    ],
)
async def test_what_keeps_a_worker_from_starting_is_told(
    how: str, kind: type[DuplexdError], told: str
) -> None:
    async with faked(how=how, start=False, start_timeout_s=0.5 if how == "mute" else 60) as engine:
        with pytest.raises(kind, match=told):
            await engine.start()
        one = Talker(engine)
        one.say(CHUNK)
        with pytest.raises(NotReady):
            await one.recogniser.finalise()


async def test_close_ends_what_waits() -> None:
    async with faked() as engine:
        one = Talker(engine)
        one.recogniser.hint(("hang",))
        one.say(CHUNK)
        waiting = asyncio.create_task(one.recogniser.finalise())
        await until(lambda: engine.stats.depth == 1)
        await engine.close()
        with pytest.raises(EngineFailed, match="FunASR is closed"):
            await waiting
        with pytest.raises(EngineFailed, match="not running: closed"):
            await one.recogniser.finalise()


def test_a_worker_without_a_parent_ends() -> None:
    done = subprocess.run(CHILD, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (0, b"")


def test_the_daemon_s_side_needs_no_torch() -> None:
    program = (
        "import sys, pipeline.recognition, services.asr.funasr.worker\n"
        "print(*{'torch', 'funasr', 'transformers'} & {*sys.modules})"
    )
    done = subprocess.run(
        (sys.executable, "-c", program), cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
