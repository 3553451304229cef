"""`run.py replay LOG`: what was decided in a conversation, from the log of its turns."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.commands.plain_help import PlainCommand
from pipeline.turns import record
from pipeline.turns.actions import (
    Action,
    Apologise,
    Commit,
    Discard,
    Dismiss,
    Forget,
    Interrupt,
    OpenTurn,
    Pause,
    Resume,
    Revoke,
    Speculate,
)
from pipeline.turns.events import Event, Window
from pipeline.turns.record import Decision
from pipeline.turns.settings import TurnSettings
from tts_engine.errors import DuplexdError

app = typer.Typer(add_completion=False)

_STYLES: dict[type[Action], str] = {
    OpenTurn: "green",
    Commit: "bold green",
    Discard: "yellow",
    Forget: "yellow",
    Dismiss: "yellow",
    Interrupt: "bold red",
    Apologise: "bold red",
    Pause: "magenta",
    Resume: "magenta",
    Speculate: "cyan",
    Revoke: "cyan",
}


@app.command(cls=PlainCommand, epilog="Example: run.py replay turns/3f2a.jsonl")
def replay(
    log: Annotated[
        Path,
        typer.Argument(metavar="LOG", exists=True, dir_okay=False, help="The log of its turns."),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object a decision.")
    ] = False,
) -> None:
    """Replay a conversation through the turn core, and show what it decided and why.

    The daemon writes such a log for every conversation where the key turns.record_dir names a
    folder. It holds what was recognised, and no audio.
    """
    decisions = _decisions(log)
    if as_json:
        for decision in decisions:
            typer.echo(json.dumps(_as_json(decision), ensure_ascii=False))
    else:
        _show(decisions)


def _decisions(log: Path) -> list[Decision]:
    """Those that had something done."""
    try:
        with log.open(encoding="utf-8", errors="replace") as lines:
            entries = record.read(lines, name=str(log))
    except record.BadLog as error:
        raise DuplexdError(str(error)) from error
    except OSError as error:
        raise DuplexdError(f"{log} cannot be read: {error.strerror}") from error
    return [decision for decision in record.replay(entries) if decision.actions]


def _as_json(decision: Decision) -> dict[str, object]:
    return {
        "at": decision.entry.at_ms,
        "event": record.as_json(decision.entry.told),
        "actions": [record.as_json(action) for action in decision.actions],
        "phase": decision.after.phase.value,
    }


def _show(decisions: list[Decision]) -> None:
    table = Table("s", "what happened", "what was decided", "then", box=None, pad_edge=False)
    table.columns[0].justify = "right"
    for decision in decisions:
        at = f"{decision.entry.at_ms / 1000:.3f}"
        lines = [Text(_words(each), _STYLES.get(type(each), "")) for each in decision.actions]
        phase = decision.after.phase.value
        table.add_row(at, _cause(decision), Text("\n").join(lines), phase)
    console = Console(highlight=False)
    console.print(table)
    console.print(_summary(decisions), soft_wrap=True)


def _cause(decision: Decision) -> Text:
    told, state = decision.entry.told, decision.before
    if not isinstance(told, Window):
        return Text(_words(told))
    voiced = told.probability >= state.settings.threshold and not state.muted
    return Text("voice" if voiced else "silence")


def _words(thing: TurnSettings | Event | Action) -> str:
    """An event or action in words: its name, and those of its fields that say something."""
    name = type(thing).__name__
    words = ["".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()]
    for field in fields(thing):
        value = getattr(thing, field.name)
        if isinstance(value, Enum):
            words.append(value.value)
        elif isinstance(value, str):
            words += [f"“{value}”"] if value else []
        elif isinstance(value, bool):
            words += [field.name] if value else []
        elif value != field.default:
            words.append(f"{field.name}={value:g}")
    return " ".join(words)


def _summary(decisions: Iterable[Decision]) -> str:
    done = [action for decision in decisions for action in decision.actions]

    def count(kind: type[Action]) -> int:
        return sum(isinstance(action, kind) for action in done)

    kept = sum(isinstance(action, Commit) and action.number > 0 for action in done)
    return (
        f"{count(OpenTurn)} turns opened, {count(Commit)} committed, {count(Discard)} empty; "
        f"{count(Speculate)} answers made in advance, {kept} kept; "
        f"{count(Interrupt)} interrupted, {count(Dismiss)} sounds dismissed"
    )
