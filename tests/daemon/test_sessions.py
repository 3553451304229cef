"""Invariants: conversations that are over leave nothing behind: no memory, task, thread or file."""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
from collections.abc import Callable

import psutil

from tests.daemon.client import talking
from tests.daemon.inside import alive, inside, settled
from tests.daemon.process import DaemonProcess, serving

SESSIONS = 200
#: the first ones fill caches and pools
WARM_UP = 50
AT_ONCE = 8
#: bytes of resident memory that the others may add
GROWTH = 20 << 20
#: after the last session, before its memory is collected, see `pipeline.app`; seconds
COLLECTED_S = 1.5
SHORT = {"scripted.replies": "[好。]", "server.max_sessions": 16}


async def visit(url: str, number: int) -> None:
    """One conversation: most are whole, some end in the middle of an answer or of a word."""
    async with talking(url) as client:
        await client.speak(0.3)
        if number % 10 == 3:
            await client.playing(20)
            return
        assert (await client.done())["status"] == "completed"
        if number % 10 == 6:
            await client.speak(0.5, pause_s=0.0)


async def visits(url: str, count: int) -> None:
    """So many conversations, a few at a time, all the time."""
    numbers = itertools.islice(itertools.count(), count)

    async def guests() -> None:
        for number in numbers:
            await visit(url, number)

    await asyncio.gather(*(guests() for _ in range(AT_ONCE)))


async def at_rest(daemon: DaemonProcess) -> tuple[int, int, int]:
    """Resident bytes, threads and open files, once the daemon has nothing to do."""
    await asyncio.to_thread(daemon.metric, "sessions", 0)
    await asyncio.sleep(COLLECTED_S)
    process: psutil.Process = daemon.process
    return process.memory_info().rss, process.num_threads(), process.num_fds()


async def test_memory_threads_and_files_stay_flat(record_property: Callable[[str, object], None]):
    async with serving(sets=SHORT) as daemon:
        await visits(daemon.url, WARM_UP)
        rss, threads, files = await at_rest(daemon)
        await visits(daemon.url, SESSIONS - WARM_UP)
        rss_after, threads_after, files_after = await at_rest(daemon)
        grown = (rss_after - rss) / (1 << 20)
        record_property("rss_growth_mib", grown)
        print(f"rss {rss >> 20} MiB, grown by {grown:.1f} MiB; {threads} threads, {files} files")
        assert rss_after - rss < GROWTH
        assert threads_after <= threads
        assert files_after <= files
        # A machine that stalls starves a turn, which then is two: more lines are not wrong.
        lines = daemon.turn_lines(SESSIONS)
        assert len({line[1] for line in lines}) == SESSIONS
        assert {line[3] for line in lines} == {"answered", "interrupted"}


async def test_nothing_of_a_conversation_stays_in_the_process():
    async with inside(SHORT) as served:
        # the daemon's own, with none of a conversation: a set of tasks would keep those alive
        tasks = len(asyncio.all_tasks())
        await visits(served.url, AT_ONCE)  # pools and caches of the process
        before = set(threading.enumerate())
        await visits(served.url, 3 * AT_ONCE)
        await served.empty()
        await settled(lambda: len(asyncio.all_tasks()) <= tasks, "tasks are left")
        left = {each.name for each in threading.enumerate() if each not in before}
        # those of the loop's executor are the process's, and come as it likes
        assert not {name for name in left if not name.startswith("asyncio_")}
        await settled(lambda: alive(served) == 0, "conversations stay in memory")
        assert gc.garbage == []
