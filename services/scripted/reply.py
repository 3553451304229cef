"""What a scripted LLM answers, function calls included, in one line of text.

    看一下。@call get_weather {"city": "北京"}@then 北京{tool}。
    @call lamp {"on": true} @call fan        two calls at once; without arguments they are {}
    @call lamp "{oops"                       a text instead of an object is sent as it stands
    write @@call and @@then                  the words themselves

A reply has steps, with `@then` between them. The first answers the user; each later one answers
the outputs of the calls before it. After calls without a `@then` the last output is said, as it is.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_MARK = re.compile(r"@@(?=(?:call|then)(?![A-Za-z0-9_]))|\s*@(call|then)(?![A-Za-z0-9_])")
_NAME = re.compile(r"\s+([A-Za-z0-9_-]{1,64})(?![A-Za-z0-9_-])")
_JSON = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedCall:
    """A function call of the scripted LLM.

    Parameters:
        name: the function.
        arguments: an object, sent as JSON, or a text, sent as it is.
    """

    name: str
    arguments: Any

    @property
    def text(self) -> str:
        """The arguments as they are sent."""
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(self.arguments, ensure_ascii=False)


#: text that is said, and calls, in order
Parts = tuple[str | ScriptedCall, ...]

_LAST_OUTPUT: Parts = ("{tool}",)


def calls_of(parts: Parts) -> int:
    """How many calls a step makes."""
    return sum(isinstance(part, ScriptedCall) for part in parts)


@functools.lru_cache(maxsize=256)
def parse_reply(template: str) -> tuple[Parts, ...]:
    """Reads a reply's steps; placeholders stay as they are.

    Raises:
        ValueError: says what is wrong with it.
    """
    steps: list[list[str | ScriptedCall]] = [[]]
    text, at = "", 0
    while (mark := _MARK.search(template, at)) is not None:
        text, at = text + template[at : mark.start()], mark.end()
        if mark[1] is None:
            text += "@"
            continue
        if text:
            steps[-1].append(text)
            text = ""
        if mark[1] == "call":
            call, at = _parse_call(template, at)
            steps[-1].append(call)
        elif not calls_of(tuple(steps[-1])):
            raise ValueError("@then follows nothing: there is no @call before it")
        else:
            steps.append([])
        at = _past_space(template, at)
    if text := text + template[at:]:
        steps[-1].append(text)
    return tuple(map(tuple, steps))


def _parse_call(template: str, at: int) -> tuple[ScriptedCall, int]:
    """The call whose name begins at `at`, and where it ends."""
    found = _NAME.match(template, at)
    if found is None:
        raise ValueError("@call names no function; write @@call for the word itself")
    name, end = found[1], found.end()
    start = _past_space(template, end)
    if not template.startswith(("{", '"'), start):
        return ScriptedCall(name=name, arguments={}), end
    try:
        arguments, end = _JSON.raw_decode(template, start)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the arguments of @call {name} are not JSON: {error}") from None
    return ScriptedCall(name=name, arguments=arguments), end


def _past_space(text: str, at: int) -> int:
    return len(text) - len(text[at:].lstrip())


def step_of(template: str, outputs: int) -> Parts:
    """The step of a reply that is due.

    Args:
        template: the reply.
        outputs: how many outputs of calls there are since the user spoke.
    """
    calls = 0
    for step in parse_reply(template):
        made = calls_of(step)
        calls += made
        if not made or outputs < calls:
            return step
    return _LAST_OUTPUT


def fill_parts(parts: Parts, fill: Callable[[str], str]) -> Parts:
    """Fills the placeholders in what is said, and in every text of the arguments."""
    return tuple(
        fill(part)
        if isinstance(part, str)
        else ScriptedCall(name=part.name, arguments=_fill_json(part.arguments, fill))
        for part in parts
    )


def _fill_json(value: Any, fill: Callable[[str], str]) -> Any:
    match value:
        case str():
            return fill(value)
        case dict():
            return {key: _fill_json(item, fill) for key, item in value.items()}
        case list():
            return [_fill_json(item, fill) for item in value]
        case _:
            return value
