"""Many paced conversations from one process, as cheaply as Python can hold them.

`python -m pipeline.bench.sessions_load`: reads a `LoadPlan` as one line of JSON, opens nothing
before a second line says when to begin (seconds of the monotonic clock), and prints a `LoadResult`.
It is a process of its own so that its work is not on the core of the daemon.

Each conversation speaks at the start of every cycle, and is answered in the rest of it. An answer
is late where its frames come later than the pacing profile says, counted from its first frame.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self, cast

from pipeline.bench.sessions_dialects import Dialect, Name, dialect_of
from pipeline.bench.sessions_wire import (
    CLOSE,
    PING,
    PONG,
    ServerStream,
    WireError,
    client_frame,
    handshake,
)
from pipeline.bench.wire import MICROPHONE_RATE

#: a frame later than this is late, seconds
LATE_S = 0.020
#: an answer is whole within these shares of its length: its last frame may be a short one, or
#: filled up. One that is longer has something of another conversation's in it
WHOLE, MORE = 0.95, 1.05
#: bytes that may wait for a server that does not read; then the conversation is given up
_BACKLOG = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """What a process has to do.

    Parameters:
        host, port, path: of the server; `{client}` in the path stands for a name of the
            conversation's own.
        headers: of the handshake.
        dialect: the protocol, see `sessions_dialects`.
        lead_ms: how far the server's sending runs ahead of playing.
        cycle: file with the microphone's audio of one cycle: int16 at MICROPHONE_RATE.
        frame_ms: length of a message of the microphone.
        speech_s: where in the cycle the speech ends.
        answer_s: length of an answer.
        cycles: how often each conversation goes round.
        numbers: which of the conversations are this process's.
        total: how many there are in all processes.
        spread_s: the conversations begin evenly over so much time.
        window_s: begin and end of what is measured, from the beginning.
        cores: the process runs on these only; empty: on any.
    """

    host: str
    port: int
    path: str
    headers: list[list[str]] = field(default_factory=list[list[str]])
    dialect: Name
    lead_ms: float
    cycle: str
    frame_ms: int
    speech_s: float
    answer_s: float
    cycles: int
    numbers: list[int]
    total: int
    spread_s: float
    window_s: list[float]
    cores: list[int] = field(default_factory=list[int])


@dataclass(slots=True, kw_only=True)
class LoadResult:
    """What came of it.

    Parameters:
        frames: audio frames that came in the window.
        late: of those, later than LATE_S after they were due.
        dry: of those, after the client had played out all it had.
        worst_ms: the latest.
        asked: turns that were spoken.
        answered: turns whose answer came whole, before the next turn.
        v2v_ms: by answered turn, from the end of the speech to the first frame.
        behind_ms: the most that this process was behind with its own sending.
        failures: conversations that were refused or broke off, and why.
    """

    frames: int = 0
    late: int = 0
    dry: int = 0
    worst_ms: float = 0.0
    asked: int = 0
    answered: int = 0
    v2v_ms: list[float] = field(default_factory=list[float])
    behind_ms: float = 0.0
    failures: list[str] = field(default_factory=list[str])

    @classmethod
    def merged(cls, results: Sequence[Self]) -> Self:
        """All processes together."""
        return cls(
            frames=sum(each.frames for each in results),
            late=sum(each.late for each in results),
            dry=sum(each.dry for each in results),
            worst_ms=max((each.worst_ms for each in results), default=0.0),
            asked=sum(each.asked for each in results),
            answered=sum(each.answered for each in results),
            v2v_ms=[ms for each in results for ms in each.v2v_ms],
            behind_ms=max((each.behind_ms for each in results), default=0.0),
            failures=[why for each in results for why in each.failures],
        )


@dataclass(slots=True)
class _Answer:
    """What came of an answer; the lead is sent at once, and then every frame as it is played."""

    first: float
    ms: float = 0.0

    def due(self, lead_ms: float) -> float:
        """When the next frame is due, by the first."""
        return self.first + max(0.0, self.ms - lead_ms) / 1000

    @property
    def dry(self) -> float:
        """When a client that began to play at the first frame has played all that came."""
        return self.first + self.ms / 1000


class LoadSession(asyncio.Protocol):
    """One conversation."""

    def __init__(
        self,
        *,
        plan: LoadPlan,
        number: int,
        dialect: Dialect,
        frames: Sequence[bytes],
        window: tuple[float, float],
        result: LoadResult,
    ) -> None:
        self._plan = plan
        self._number = number
        self._dialect = dialect
        self._frames = frames
        self._window = window
        self._result = result
        self._loop = asyncio.get_running_loop()
        self._stream = ServerStream()
        self._began = 0.0
        self._sent = 0
        self._answers: dict[int, _Answer] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport
        self._why = ""
        self.over: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = socket = cast(asyncio.Transport, transport)
        plan = self._plan
        headers = [(name, value) for name, value in plan.headers]
        host = f"{plan.host}:{plan.port}"
        path = plan.path.replace("{client}", f"bench-{self._number}")
        socket.write(handshake(host=host, path=path, headers=headers))

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        now = time.monotonic()
        try:
            for opcode, payload in self._stream.feed(data):
                if opcode == PING:
                    self._transport.write(client_frame(PONG, payload))
                elif opcode == CLOSE:
                    raise WireError(f"closed by the server: {payload[2:].decode(errors='replace')}")
                elif ms := self._dialect.audio_ms(opcode, payload):
                    self._hear(now, ms)
        except WireError as error:
            self._end(str(error))
            return
        if self._stream.open and not self._began:
            self._began = now
            self._transport.write(self._dialect.opening)
            self._speak()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._end("" if self._done else str(exc or "the server hung up"))

    @property
    def _done(self) -> bool:
        return self._sent >= self._plan.cycles * len(self._frames)

    def _speak(self) -> None:
        """Sends what is due, and comes back when the next frame is."""
        frame_s = self._plan.frame_ms / 1000
        now = time.monotonic()
        while (due := self._began + (self._sent + 1) * frame_s) <= now:
            if self._done:
                self._end("")
                return
            self._transport.write(self._frames[self._sent % len(self._frames)])
            self._result.behind_ms = max(self._result.behind_ms, (now - due) * 1000)
            self._sent += 1
        if self._transport.get_write_buffer_size() > _BACKLOG:
            self._end("the server does not read")
            return
        self._timer = self._loop.call_later(due - now, self._speak)

    def _hear(self, now: float, ms: float) -> None:
        """A frame of an answer came; which one, the clock says."""
        cycle_s = len(self._frames) * self._plan.frame_ms / 1000
        number = int((now - self._began - self._plan.speech_s) // cycle_s)
        answer = self._answers.setdefault(number, _Answer(now))
        late_s = now - answer.due(self._plan.lead_ms)
        if self._window[0] <= now < self._window[1]:
            result = self._result
            result.frames += 1
            result.late += late_s > LATE_S
            result.dry += answer.ms > 0 and now > answer.dry
            result.worst_ms = max(result.worst_ms, late_s * 1000)
        answer.ms += ms

    def _end(self, why: str) -> None:
        """Closes the connection and the books. Only the first reason counts."""
        if self.over.done():
            return
        if self._timer is not None:
            self._timer.cancel()
        if why:
            self._result.failures.append(why)
        plan = self._plan
        self._result.asked += plan.cycles
        for cycle in range(plan.cycles):
            answer = self._answers.get(cycle)
            share = answer.ms / plan.answer_s / 1000 if answer is not None else 0.0
            if answer is not None and WHOLE <= share <= MORE:
                self._result.answered += 1
                ended = self._began + plan.speech_s
                ended += cycle * len(self._frames) * plan.frame_ms / 1000
                self._result.v2v_ms.append((answer.first - ended) * 1000)
        if self._stream.open and not self._transport.is_closing():
            self._transport.write(client_frame(CLOSE, (1000).to_bytes(2, "big")))
        self._transport.close()
        self.over.set_result(None)


def cycle_frames(dialect: Dialect, pcm: bytes, frame_ms: int) -> list[bytes]:
    """The messages of one cycle, ready for the socket; what is less than a frame is left out."""
    size = MICROPHONE_RATE * 2 * frame_ms // 1000
    return [dialect.frame(pcm[at : at + size]) for at in range(0, len(pcm) - size + 1, size)]


async def hold(plan: LoadPlan, pcm: bytes, began: float) -> LoadResult:
    """Holds the conversations of a plan, begun at `began` of the monotonic clock.

    Args:
        plan: what to do.
        pcm: what its file holds.
        began: monotonic seconds.
    """
    dialect = dialect_of(plan.dialect)
    frames = cycle_frames(dialect, pcm, plan.frame_ms)
    start, end = plan.window_s
    window = (began + start, began + end)
    result = LoadResult()

    async def one(number: int) -> None:
        due = began + number / plan.total * plan.spread_s
        await asyncio.sleep(due - time.monotonic())
        try:
            _, session = await asyncio.get_running_loop().create_connection(
                lambda: LoadSession(
                    plan=plan,
                    number=number,
                    dialect=dialect,
                    frames=frames,
                    window=window,
                    result=result,
                ),
                plan.host,
                plan.port,
            )
        except OSError as error:
            result.asked += plan.cycles
            result.failures.append(str(error))
            return
        await session.over

    async with asyncio.TaskGroup() as group:
        for number in plan.numbers:
            group.create_task(one(number))
    return result


def main() -> None:
    """The process."""
    import uvloop

    plan = LoadPlan(**json.loads(sys.stdin.readline()))
    if plan.cores:
        os.sched_setaffinity(0, plan.cores)
    pcm = Path(plan.cycle).read_bytes()
    print("ready", flush=True)
    began = float(sys.stdin.readline())
    gc.collect()
    gc.freeze()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(hold(plan, pcm, began))
    print(json.dumps(asdict(result)), flush=True)


def result_of(line: str) -> LoadResult:
    """Reads what `main` printed."""
    found: dict[str, Any] = json.loads(line)
    return LoadResult(**found)


if __name__ == "__main__":
    main()
