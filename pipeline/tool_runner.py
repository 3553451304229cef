"""Functions that the daemon runs itself when an answer calls them.

An answer that calls some ends as any other, after its words. When it is over and all of them have
returned, what they gave is in the context and is answered, with the options of the answer that
called, unless somebody spoke or cancelled meanwhile: then it is there for the next answer. Calls
that the client has to run are the client's, and so is the answer, if there was one among them. A
tool may say that nothing is to follow.

Nobody waits in silence: if nothing was heard for a while a sentence says that it takes longer.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from loguru import logger

from services.face import AnswerOptions
from services.items import ContextItem, FunctionCall, FunctionOutput, call_ref
from services.tools import DaemonTool, ToolChoice
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
        options: what was asked of the answer.
        running: calls that have not returned.
        items: those that have, with what they gave.
        over: the answer has ended: it calls no more.
        shared: the client runs some of its calls, and will ask for the answer.
        last: one of its calls is such that nothing follows.
        overdue: it is time for the filler.
    """

    revision: int
    options: AnswerOptions = field(default_factory=AnswerOptions)
    running: int = 0
    items: list[ContextItem] = field(default_factory=list[ContextItem])
    over: bool = False
    shared: bool = False
    last: bool = False
    overdue: bool = False


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
        self._tasks: set[asyncio.Task[str]] = set()
        self._silence: asyncio.TimerHandle | None = None
        self._closed = False

    # --- what the conversation tells ----------------------------------------------------------
    def run(
        self, revision: int, call: FunctionCall, tool: DaemonTool, options: AnswerOptions
    ) -> None:
        """An answer calls a function; it is in the context.

        Args:
            options: what was asked of the answer.
        """
        current = self._of(revision)
        current.options = options
        current.running += 1
        current.last = current.last or not tool.answered
        task = asyncio.create_task(self._output(call, tool), name=f"tool {call.name}")
        self._tasks.add(task)
        # A callback, as a task that is cancelled may not have run at all.
        task.add_done_callback(partial(self._returned, current, call))

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
        """The user has said or written something new, or the client asks for an answer."""
        self._rounds = 0
        if self._round is not None:
            self._round.overdue = False

    def stopped(self) -> None:
        """The user interrupts or cancels: functions that run go on, and nothing follows."""
        if self._round is not None:
            revision = self._round.revision
            self._end()
            self._conversation.rested(revision)

    def look(self) -> None:
        """Something has changed: what has returned may be answered now."""
        current = self._round
        if current is None or not current.over or not self._conversation.free:
            return
        if current.running:
            self._fill(current)
            return
        self._end()
        if current.shared or current.last:
            self._conversation.rested(current.revision)
            return
        self._rounds += 1
        options, context = current.options, current.options.context
        if context is not None:  # it is not answered from the conversation, which has them
            context = (*context, *current.items)
        choice: ToolChoice = "none" if self._rounds >= MOST_ROUNDS else "auto"
        self._conversation.follow_up(replace(options, context=context, tool_choice=choice))

    def close(self) -> None:
        """The conversation ends. Idempotent."""
        self._closed = True
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
            self._silence = loop.call_later(after_s, self._due)

    def _due(self) -> None:
        self._silence = None
        if self._round is not None:
            self._round.overdue = True
            self.look()

    def _fill(self, current: _Round) -> None:
        filler = self._conversation.filler
        if current.overdue and filler:
            current.overdue = False
            options = replace(current.options, text=filler, remember=False)
            self._conversation.follow_up(options)

    def _returned(self, current: _Round, call: FunctionCall, task: asyncio.Task[str]) -> None:
        self._tasks.discard(task)
        current.running -= 1
        if self._closed:
            return
        if task.cancelled() or task.exception() is not None:
            logger.warning("{}: {} was cancelled", self._session, call.name)
            output = "error: it was cancelled"
        else:
            output = task.result()
        item = FunctionOutput(call_id=call.call_id, output=output)
        current.items += (call, item)
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
