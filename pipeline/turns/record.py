"""The log of a conversation's turns: what the core was told, from which its decisions follow.

One JSON object a line. `at` is the clock of received audio in milliseconds, `kind` names an event
of `events`, or the settings, which come first and whenever they change; the rest are its fields.

    {"at": 0.0, "kind": "TurnSettings", "threshold": 0.5, "onset_windows": 3, ...}
    {"at": 32.0, "kind": "Window", "probability": 0.01, "level_db": -62.5}
    {"at": 1376.0, "kind": "FinalText", "request": 1, "text": "\u4f60\u597d", "language": "zh", ...}
"""
# pyright: strict

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, asdict, dataclass, fields, replace
from typing import Any, cast, get_args

from pipeline.turns.actions import Action
from pipeline.turns.core import step
from pipeline.turns.events import Event, Window
from pipeline.turns.settings import TurnSettings
from pipeline.turns.state import TurnState

_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (TurnSettings, *cast("tuple[type[Any], ...]", get_args(Event)))
}
#: what JSON may hold for a field of this type
_TYPES: dict[object, tuple[type, ...]] = {
    "str": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "float | None": (int, float, type(None)),
}


class BadLog(ValueError):
    """A line of a log that no recorder wrote; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the core was told, or how it was set, at a time of received audio."""

    at_ms: float
    told: TurnSettings | Event


@dataclass(frozen=True, slots=True)
class Decision:
    """What the core made of an entry.

    Parameters:
        entry: what it was told.
        before: its state then; the settings of the entry are in force.
        after: its state now.
        actions: what it wanted done.
    """

    entry: Entry
    before: TurnState
    after: TurnState
    actions: tuple[Action, ...]


class Recorder:
    """Writes the log of one conversation.

    Args:
        write: takes a line, with its end.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._at_ms = 0.0

    def __call__(self, told: TurnSettings | Event) -> None:
        """Writes what the core is told, or how it is set, from now on."""
        if isinstance(told, Window):
            self._at_ms = told.at_ms
        self._write(json.dumps(as_json(told, at=self._at_ms)) + "\n")


def as_json(told: TurnSettings | Event | Action, **more: object) -> dict[str, object]:
    """An event, an action or settings as plain data, with their kind."""
    named: dict[str, object] = {**more, "kind": type(told).__name__, **asdict(told)}
    if isinstance(told, Window):
        del named["at_ms"]  # the log's own clock
    return named


def read(lines: Iterable[str], *, name: str) -> tuple[Entry, ...]:
    """Reads a log.

    Args:
        lines: with their ends; a last one that has none and is not whole was cut off as it was
            written, and counts for nothing.
        name: of the file, for errors.

    Raises:
        BadLog: a line is no entry, or the first one is not the settings.
    """
    entries: list[Entry] = []
    for number, line in enumerate(lines, start=1):
        try:
            entries.append(_entry(line))
        except _CutOff:
            break
        except BadLog as error:
            raise BadLog(f"{name}, line {number}: {error}") from None
    if not entries or not isinstance(entries[0].told, TurnSettings):
        raise BadLog(f"{name}: no log of turns, which begins with TurnSettings")
    return tuple(entries)


def replay(entries: Iterable[Entry]) -> Iterator[Decision]:
    """Tells a core what was recorded; it decides what it decided then."""
    state = TurnState()
    for entry in entries:
        before, actions = state, ()
        if isinstance(entry.told, TurnSettings):
            before = state = replace(state, settings=entry.told)
        else:
            state, actions = step(state, entry.told)
        yield Decision(entry, before, state, actions)


class _CutOff(BadLog):
    """A line without an end."""


def _entry(line: str) -> Entry:
    named = _object(line)
    kind = _KINDS.get(str(named.pop("kind", None)))
    if kind is None:
        raise BadLog(f"its kind is none of {', '.join(_KINDS)}")
    at = named.pop("at", None)
    if not _fits(at, "float"):
        raise BadLog("at is no number")
    at_ms = float(cast("float", at))
    types = {field.name: field for field in fields(kind)}
    if "at_ms" in types:
        named["at_ms"] = at_ms
    for key, value in named.items():
        if key not in types:
            raise BadLog(f"{kind.__name__} has no {key}")
        if not _fits(value, types[key].type):
            raise BadLog(f"{key} of {kind.__name__} is to be {types[key].type}, not {value!r}")
    for key, field in types.items():
        if field.default is MISSING and key not in named:
            raise BadLog(f"{kind.__name__} lacks {key}")
    return Entry(at_ms, kind(**named))


def _object(line: str) -> dict[str, object]:
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        raise (BadLog if line.endswith("\n") else _CutOff)("it is no JSON") from None
    if not isinstance(value, dict):
        raise BadLog("it is no JSON object")
    return cast("dict[str, object]", value)


def _fits(value: object, declared: object) -> bool:
    if isinstance(value, bool):
        return declared == "bool"
    return isinstance(value, _TYPES[declared])
