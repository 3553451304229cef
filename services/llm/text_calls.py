# pyright: strict
"""Function calls that a server hands on as the text that its model wrote.

        <tool_call>{"name": "weather", "arguments": {"city": "Paris"}}</tool_call>

Servers without a parser for their model's calls do so, and small models forget the tags, without
which no parser knows them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, cast

#: characters of a call and what stands before it; what is longer is text
MAX_CALL = 8192
_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
#: what may stand around calls
_BETWEEN = re.compile(rf"(?:\s|,|{_OPEN}|{_CLOSE})*")
#: how a call begins; what begins otherwise is told to be text after so many characters
_HEAD, _HEAD_CHARS = re.compile(r'\{\s*"(?:name|arguments)"'), 40


@dataclass(frozen=True, slots=True)
class _Read:
    """What a text begins with.

    Parameters:
        call: name and arguments; None: with no call.
        rest: what follows the call.
    """

    call: dict[str, Any] | None = None
    rest: str = ""


class TextCalls:
    """Takes calls out of an answer's text: those that it begins with, as models write them.

    Attributes:
        over: a call was read, and something else follows, or the same once more. It belongs to no
            answer: a small model that has called goes on without end.
    """

    def __init__(self) -> None:
        self._held = ""
        self._count = 0
        self._last: dict[str, Any] | None = None
        self._plain = False
        self.over = False

    def push(self, text: str) -> tuple[str, list[dict[str, Any]]]:
        """Takes the next piece.

        Returns:
            What is text, and the calls that are whole, as entries of `tool_calls`.
        """
        if self._plain:
            return "" if self.over else text, []
        self._held += text
        calls: list[dict[str, Any]] = []
        while (read := _read(self._held)) is not None:
            if read.call is None or read.call == self._last:
                self._plain, self.over = True, self._count > 0
                return self.finish(), calls
            calls.append({"index": self._count, "function": read.call})
            self._count, self._held, self._last = self._count + 1, read.rest, read.call
        return "", calls

    def finish(self) -> str:
        """The answer's end.

        Returns:
            What was held back, and is text.
        """
        held, self._held = self._held, ""
        return "" if self._count else held


def _read(text: str) -> _Read | None:
    """Reads the call that a text begins with; None: more of it is needed."""
    if len(text) > MAX_CALL:
        return _Read()
    start = _BETWEEN.match(text)
    assert start is not None  # it matches nothing as well
    rest = text[start.end() :]
    if _OPEN.startswith(rest) or _CLOSE.startswith(rest):
        return None
    if not rest.startswith("{") or (len(rest) >= _HEAD_CHARS and not _HEAD.match(rest)):
        return _Read()
    if "}" not in rest:
        return None
    try:
        value, end = json.JSONDecoder().raw_decode(rest)
    except ValueError:
        return None
    except RecursionError:
        return _Read()
    call = cast("dict[str, Any]", value)
    if set(call) != {"name", "arguments"} or not isinstance(call["name"], str):
        return _Read()
    return _Read(call, rest[end:]) if isinstance(call["arguments"], dict) else _Read()
