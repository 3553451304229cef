"""`run.py models`: list, fetch and verify the model weights.

Exit codes: 0 done, 1 a model is missing, corrupt or not to be had, 2 wrong usage, configuration or
manifest.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from pipeline.commands.failures import complain
from pipeline.commands.options import ConfigFile, Sets, configured
from pipeline.commands.progress import progress_bar
from pipeline.config import Config
from pipeline.needs import needed_models
from pipeline.store import open_store
from services.models import ModelState, ModelStore
from tts_engine.errors import DuplexdError

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Model weights: list, fetch, verify."
)

_Directory = Annotated[
    Path | None,
    typer.Option(
        "--models-dir",
        metavar="DIR",
        help="Same as --set models.dir=DIR.",
        rich_help_panel="Configuration",
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


@app.command("list", epilog="Example: run.py models list --json")
def list_(
    config: ConfigFile = None,
    sets: Sets = None,
    models_dir: _Directory = None,
    as_json: _Json = False,
) -> None:
    """Show every model, its size, licence and state."""
    settings = _settings(config, sets, models_dir)
    store, needed = open_store(settings), needed_models(settings)
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "kind": model.kind,
            "about": model.about,
            "bytes": model.bytes,
            "licence": model.licence,
            "upstream": model.upstream,
            "state": store.status(name).value,
            "needed": name in needed,
            "path": str(store.root / name),
        }
        for name, model in store.manifest.models.items()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    table = Table("name", "kind", "size", "licence", "state", "needed")
    for row in rows:
        size, needs = f"{row['bytes'] / 1e6:,.0f} MB", "yes" if row["needed"] else ""
        table.add_row(row["name"], row["kind"], size, row["licence"], row["state"], needs)
    Console().print(table)
    typer.echo(f"in {store.root}")


@app.command(epilog="Example: run.py models fetch kokoro whisper-base")
def fetch(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="Models; none: those that the configuration needs on this machine."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every model.")] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Same as --set models.offline=true.")
    ] = False,
    config: ConfigFile = None,
    sets: Sets = None,
    models_dir: _Directory = None,
) -> None:
    """Download models and verify them; what is here already is left alone."""
    if names and everything:
        raise typer.BadParameter("give names or --all, not both")
    settings = _settings(config, sets, models_dir, offline=offline)
    store = open_store(settings)
    wanted = tuple(store.manifest.models) if everything else tuple(names or needed_models(settings))
    _known(store, wanted)
    if not wanted:
        typer.echo("this configuration needs no models")
    fetched = [_fetched(store, name) for name in wanted]  # all of them, also after a failure
    if not all(fetched):
        raise typer.Exit(1)


@app.command(epilog="Example: run.py models verify kokoro")
def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Models; none: all that are here."),
    ] = None,
    config: ConfigFile = None,
    sets: Sets = None,
    models_dir: _Directory = None,
    as_json: _Json = False,
) -> None:
    """Hash models again and compare with the manifest."""
    store = open_store(_settings(config, sets, models_dir))
    _known(store, tuple(names or ()))
    rows = [_verified(store, name, quiet=as_json) for name in names or _here(store)]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    elif not rows:
        typer.echo(f"no model in {store.root}; `run.py models fetch` brings them", err=True)
    if not rows or not all(row["ok"] for row in rows):
        raise typer.Exit(1)


def _settings(
    config: Path | None, sets: list[str] | None, models_dir: Path | None, *, offline: bool = False
) -> Config:
    """The configuration; the short options go before --set, as those of the other commands."""
    short = [f"models.dir={json.dumps(str(models_dir))}"] if models_dir else []
    short += ["models.offline=true"] if offline else []
    return configured(config, [*short, *(sets or ())])


def _fetched(store: ModelStore, name: str) -> bool:
    started = time.monotonic()
    try:
        with progress_bar(name) as progress:
            path = store.fetch(name, progress)
    except DuplexdError as error:
        complain(error)
        return False
    typer.echo(f"{name}: ready in {path} ({time.monotonic() - started:.1f} s)")
    return True


def _verified(store: ModelStore, name: str, *, quiet: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "ok": True, "path": str(store.root / name)}
    try:
        with progress_bar(name) as progress:
            store.verify(name, progress=progress)
    except DuplexdError as error:
        row |= {"ok": False, "code": error.code, "error": error.message, "mend": error.mend}
        if not quiet:
            complain(error)
    else:
        if not quiet:
            typer.echo(f"{name}: every file is what the manifest says")
    return row


def _here(store: ModelStore) -> tuple[str, ...]:
    names = store.manifest.models
    return tuple(name for name in names if store.status(name) is not ModelState.MISSING)


def _known(store: ModelStore, names: tuple[str, ...]) -> None:
    """Makes an unknown name a usage error, before any work."""
    for name in names:
        if name not in store.manifest.models:
            known = ", ".join(store.manifest.models)
            raise typer.BadParameter(f"there is no model called {name!r}; known: {known}")
