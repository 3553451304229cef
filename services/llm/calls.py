# pyright: strict
"""Function calls as they come from the server, piece by piece: read without trusting any of it.

Servers differ. Indices are missing, or the same for every call; ids are missing, or new with every
piece; names come in pieces, or again and again; arguments are objects instead of text. What comes
out is the same for all of them: a call begins, its arguments grow, and it is done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import cast

from loguru import logger

from services.items import FunctionCall
from services.llm.messages import is_object
from services.well_formed import SurrogateJoiner

#: calls of one answer; more are dropped
MAX_CALLS = 16
#: characters of a call's arguments; a call with more is dropped
MAX_ARGUMENTS = 1 << 16
#: characters of a name or an id; an offered name is shorter
MAX_NAME = 256


@dataclass(frozen=True, slots=True)
class CallBegun:
    """A call of an offered function begins."""

    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A piece of its arguments, well-formed text; the pieces, joined, are the arguments."""

    call_id: str
    delta: str


@dataclass(frozen=True, slots=True)
class CallDone:
    """The call is whole."""

    call: FunctionCall


CallEvent = CallBegun | CallArguments | CallDone


@dataclass(slots=True, eq=False)
class _Call:
    """A call so far.

    Parameters:
        id: the first one that the server gave it; empty while it gave none.
        name: as far as it has come.
        call_id: ours, once it has begun.
        arguments: those told; before it has begun, those that wait.
        over: done or dropped; what still comes of it is nothing.
    """

    id: str = ""
    name: str = ""
    call_id: str = ""
    arguments: str = ""
    over: bool = False
    joiner: SurrogateJoiner = field(default_factory=SurrogateJoiner)


@dataclass(frozen=True, slots=True)
class _Piece:
    """What one entry of `tool_calls` says."""

    index: int | None
    id: str
    name: str
    arguments: str


def field_of(value: object, name: str) -> object:
    """A field of a JSON object; None if it has none, or is no object."""
    return cast("dict[str, object]", value).get(name) if isinstance(value, dict) else None


class CallDeltas:
    """Joins the `tool_calls` of a stream's chunks to calls.

    A call is done when the next one begins, if its arguments are a whole object by then, else at
    the stream's end: servers may write several calls at once. One that is dropped after it has
    begun is never done.

    Args:
        new_id: makes the calls' ids: those of the server need not be unique.
        offered: names of the functions that may be called; calls of others are dropped.
        max_calls: calls of one answer; more are dropped.
        max_arguments: characters of a call's arguments; a call with more is dropped.

    Attributes:
        chars: characters of arguments that came, whatever became of them, and one for each piece.
    """

    def __init__(
        self,
        new_id: Callable[[], str],
        offered: Collection[str],
        *,
        max_calls: int = MAX_CALLS,
        max_arguments: int = MAX_ARGUMENTS,
    ) -> None:
        self._new_id = new_id
        self._offered = offered
        self._max_calls = max_calls
        self._max_arguments = max_arguments
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._latest: _Call | None = None
        self._told: set[str] = set()
        self.chars = 0

    def push(self, tool_calls: object) -> list[CallEvent]:
        """Takes `delta.tool_calls` of a chunk, whatever it is."""
        entries = cast("list[object]", tool_calls) if isinstance(tool_calls, list) else [tool_calls]
        events: list[CallEvent] = []
        for position, entry in enumerate(entries):
            piece = _read(entry)
            self.chars += 1 + len(piece.arguments)
            if piece.id or piece.name or piece.arguments:
                self._add(piece, position, events)
        return events

    def finish(self, *, cut: bool = False) -> list[CallEvent]:
        """The stream's regular end.

        Args:
            cut: the answer was cut off; only calls whose arguments are a whole object are done.
        """
        events: list[CallEvent] = []
        for call in self._calls:
            if not cut or is_object(call.arguments):
                self._end(call, events)
            call.over = True
        return events

    def _add(self, piece: _Piece, position: int, events: list[CallEvent]) -> None:
        call = self._find(piece, position)
        if call is None:
            call = self._open(position if piece.index is None else piece.index)
        if call.over:
            return
        call.id = call.id or piece.id
        if not call.call_id and piece.name != call.name:
            call.name += piece.name
        if len(call.name) > MAX_NAME or (
            len(call.arguments) + len(piece.arguments) > self._max_arguments
        ):
            call.over = True
            self._log("A call of {!r} was dropped: it is too long", call.name[:MAX_NAME])
            return
        delta = call.joiner.push(piece.arguments)
        if call.call_id:
            _grow(call, delta, events)
            return
        call.arguments += delta
        # Only now: what came before the first argument may have been half of the name.
        if call.name and call.arguments:
            self._begin(call, events)

    def _find(self, piece: _Piece, position: int) -> _Call | None:
        """The call that a piece goes on with; None for a new one."""
        same = next((call for call in self._calls if call.id and call.id == piece.id), None)
        if piece.index is None and same is not None:
            call = same
        else:
            call = self._by_index.get(position if piece.index is None else piece.index)
        if call is None:
            # Without a name it is no new call: the index has jumped.
            return None if piece.name else same
        return None if _is_another(call, piece) else call

    def _open(self, index: int) -> _Call:
        call = _Call()
        if len(self._calls) < self._max_calls:
            self._calls.append(call)
            self._by_index[index] = call
            return call
        call.over = True
        if index in self._by_index:
            self._by_index[index] = call  # what follows must not go to the one before
        self._log("A call was dropped: the language model made more than {}", self._max_calls)
        return call

    def _begin(self, call: _Call, events: list[CallEvent]) -> None:
        if call.name not in self._offered:
            call.over = True
            self._log("A call of {!r} was dropped: it was not offered", call.name)
            return
        if self._latest is not None and is_object(self._latest.arguments):
            self._end(self._latest, events)
        self._latest = call
        call.call_id = self._new_id()
        events.append(CallBegun(call.call_id, call.name))
        events.append(CallArguments(call.call_id, call.arguments))

    def _end(self, call: _Call, events: list[CallEvent]) -> None:
        """Tells that a call is done, unless it is void."""
        if call.over or not call.name:
            return
        rest = call.joiner.finish()
        if call.call_id:
            _grow(call, rest, events)
        else:
            call.arguments = rest or "{}"
            self._begin(call, events)
            if call.over:
                return
        if not call.arguments.strip():
            _grow(call, "{}", events)
        call.over = True
        done = FunctionCall(call_id=call.call_id, name=call.name, arguments=call.arguments)
        events.append(CallDone(done))

    def _log(self, message: str, detail: object) -> None:
        """Logs once: a server that errs does so again and again."""
        if message not in self._told:
            self._told.add(message)
            logger.warning(message, detail)


def _is_another(call: _Call, piece: _Piece) -> bool:
    """Whether a piece in a call's place begins another one: servers give several the same place."""
    if not piece.name or not call.name:
        return False
    if piece.id and call.id and piece.id != call.id:
        return True
    if not call.arguments:
        return False  # a second piece of the name
    # A server that knows neither index nor id sends whole calls.
    return piece.name != call.name or (piece.index is None and not piece.id)


def _grow(call: _Call, delta: str, events: list[CallEvent]) -> None:
    if delta:
        call.arguments += delta
        events.append(CallArguments(call.call_id, delta))


def _read(entry: object) -> _Piece:
    function = field_of(entry, "function")
    index, call_id = field_of(entry, "index"), field_of(entry, "id")
    name, arguments = field_of(function, "name"), field_of(function, "arguments")
    return _Piece(
        index=index if isinstance(index, int) and not isinstance(index, bool) else None,
        id=call_id[:MAX_NAME] if isinstance(call_id, str) else "",
        name=name if isinstance(name, str) else "",
        arguments=arguments if isinstance(arguments, str) else _as_text(arguments),
    )


def _as_text(arguments: object) -> str:
    """Arguments that are JSON instead of its text."""
    if not isinstance(arguments, dict | list):
        return ""
    try:
        return json.dumps(arguments, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return ""
