"""Functions that the daemon runs itself when an answer calls them.

An answer that calls some ends as any other, after its words. When it is over and all of them have
returned, what they gave is in the context and is answered, unless somebody spoke or cancelled
meanwhile: then it is there for the next answer. Calls that the client has to run are the client's,
and so is the answer, if there was one among them.

Nobody waits in silence: if nothing was heard for a while a sentence says that it takes longer.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from loguru import logger

from services.face import AnswerOptions
from services.items import ContextItem, FunctionCall, FunctionOutput, call_ref
from services.tools import DaemonTool
from tts_engine.errors import DuplexdError

#: answers in a row that call functions; the next one has to do without
MOST_ROUNDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """How functions are run.

    Parameters:
        filler_after_s: silence while they run after which the filler is spoken; 0: never.
        fillers: that sentence, by language; empty: none.
    """

    filler_after_s: float = 1.5
    fillers: Mapping[str, str] = field(default_factory=dict[str, str])


class Conversing(Protocol):
    """What the runner needs of its conversation."""

    def add(self, ref: str, item: ContextItem, *, after: str | None) -> None:
        """Adds an item to the context."""
        ...

    def follow_up(self, options: AnswerOptions) -> None:
        """An answer of the daemon's own accord."""
        ...

    @property
    def free(self) -> bool:
        """Nobody speaks, and nothing is answered."""
        ...

    @property
    def filler(self) -> str:
        """The sentence that fills a silence, in the conversation's language."""
        ...

    def rested(self, revision: int) -> None:
        """Nothing follows an answer that had called."""
        ...


@dataclass(slots=True, kw_only=True)
class _Round:
    """The calls of one answer.

    Parameters:
        revision: of the answer.
        running: calls that have not returned.
        over: the answer has ended: it calls no more.
        shared: the client runs some of its calls, and will ask for the answer.
    """

    revision: int
    running: int = 0
    over: bool = False
    shared: bool = False


class ToolRunner:
    """Runs the calls of one conversation.

    Args:
        session: the conversation's id.
        settings: see ToolSettings.
        conversation: see Conversing.
    """

    def __init__(self, *, session: str, settings: ToolSettings, conversation: Conversing) -> None:
        self._session = session
        self._settings = settings
        self._conversation = conversation
        self._round: _Round | None = None
        self._rounds = 0  # in a row
        self._lanes: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._silence: asyncio.TimerHandle | None = None

    # --- what the conversation tells ----------------------------------------------------------
    def run(self, revision: int, call: FunctionCall, tool: DaemonTool) -> None:
        """An answer calls a function; it is in the context."""
        current = self._of(revision)
        current.running += 1
        task = asyncio.create_task(self._run(current, call, tool), name=f"tool {call.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def shared(self, revision: int) -> None:
        """The answer calls a function that the client runs."""
        self._of(revision).shared = True

    def answered(self, revision: int) -> None:
        """An answer was played to its end."""
        current = self._round
        if current is None or current.revision != revision:
            return
        current.over = True
        if current.running:
            self._wait_in_silence()
        self.look()

    def begun(self) -> None:
        """Another answer begins, which has what the functions gave so far."""
        self._end()

    @property
    def pending(self) -> bool:
        """An answer has called, and what follows it is still to come."""
        return self._round is not None

    def turn(self) -> None:
        """The user has said something new."""
        self._rounds = 0

    def stopped(self) -> None:
        """The user interrupts or cancels: functions that run go on, and nothing follows."""
        if self._round is not None:
            revision = self._round.revision
            self._end()
            self._conversation.rested(revision)

    def look(self) -> None:
        """Something has changed: what has returned may be answered now."""
        current = self._round
        if current is None or not current.over or current.running or not self._conversation.free:
            return
        self._end()
        if current.shared:
            self._conversation.rested(current.revision)
            return
        self._rounds += 1
        last = self._rounds >= MOST_ROUNDS
        options = AnswerOptions(tool_choice="none") if last else AnswerOptions()
        self._conversation.follow_up(options)

    def close(self) -> None:
        """The conversation ends. Idempotent."""
        self._end()
        for task in self._tasks:
            task.cancel()

    # --- helpers ------------------------------------------------------------------------------
    def _of(self, revision: int) -> _Round:
        if self._round is None or self._round.revision != revision:
            self._end()
            self._round = _Round(revision=revision)
        return self._round

    def _end(self) -> None:
        self._round = None
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None

    def _wait_in_silence(self) -> None:
        after_s = self._settings.filler_after_s
        if after_s and self._conversation.filler:
            loop = asyncio.get_running_loop()
            self._silence = loop.call_later(after_s, self._fill)

    def _fill(self) -> None:
        self._silence = None
        current = self._round
        if current is not None and current.running and self._conversation.free:
            options = AnswerOptions(text=self._conversation.filler, remember=False)
            self._conversation.follow_up(options)

    async def _run(self, current: _Round, call: FunctionCall, tool: DaemonTool) -> None:
        output = await self._output(call, tool)
        current.running -= 1
        item = FunctionOutput(call_id=call.call_id, output=output)
        ref = f"output-{call.call_id}"
        self._conversation.add(ref, item, after=call_ref(call.call_id))
        self.look()

    async def _output(self, call: FunctionCall, tool: DaemonTool) -> str:
        """What a call gives; a failure is a text as well."""
        try:
            arguments: Any = json.loads(call.arguments or "{}")
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            return "error: the arguments are not a JSON object"
        try:
            if not tool.lane:
                return await self._called(tool, arguments)
            async with self._lanes[tool.lane]:
                return await self._called(tool, arguments)
        except TimeoutError:
            failure = f"no answer in {tool.timeout_s:g} s"
        except DuplexdError as error:
            failure = str(error)
        except Exception as error:
            logger.opt(exception=error).error("{}: {} failed", self._session, call.name)
            failure = "it failed"
        logger.warning("{}: {}: {}", self._session, call.name, failure)
        return f"error: {failure}"

    async def _called(self, tool: DaemonTool, arguments: dict[str, Any]) -> str:
        async with asyncio.timeout(tool.timeout_s):
            return await tool.run(arguments)
