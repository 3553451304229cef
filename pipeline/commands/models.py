"""`run.py models`: list, fetch and verify the model weights; make some of random numbers.

Exit codes: 0 done, 1 a model is missing, corrupt or not to be had, 2 wrong usage, configuration or
manifest.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from pipeline.commands.failures import complain
from pipeline.commands.logs import log_warnings_only
from pipeline.commands.options import ConfigFile, Sets, configured
from pipeline.commands.plain_help import PlainCommand, PlainGroup
from pipeline.commands.progress import Job, megabytes, progress_bar, say_on_stderr
from pipeline.config import Config
from pipeline.needs import needed_models
from pipeline.store import open_store
from services.models import ModelState, ModelStore, fetch_options
from tts_engine.errors import DuplexdError, ModelError, not_installed

app = typer.Typer(
    cls=PlainGroup,
    add_completion=False,
    no_args_is_help=True,
    help="Model weights: list, fetch, verify, make random ones.",
    epilog="Example: run.py models fetch",
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


@app.command("list", cls=PlainCommand, epilog="Example: run.py models list --json")
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
        size, needs = megabytes(row["bytes"]), "yes" if row["needed"] else ""
        table.add_row(row["name"], row["kind"], size, row["licence"], row["state"], needs)
    Console().print(table)
    typer.echo(f"in {store.root}")


@app.command(cls=PlainCommand, epilog="Example: run.py models fetch kokoro whisper-base")
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
    fetched = [_fetched(store, job) for job in _jobs(store, wanted)]  # also after a failure
    if not all(fetched):
        raise typer.Exit(1)


@app.command(cls=PlainCommand, epilog="Example: run.py models verify kokoro")
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
    rows = [_verified(store, job, quiet=as_json) for job in _jobs(store, names or _here(store))]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    elif not rows:
        brings = f"run.py models fetch{fetch_options(store.root)}"
        typer.echo(f"no model in {store.root}; `{brings}` brings them", err=True)
    if not rows or not all(row["ok"] for row in rows):
        raise typer.Exit(1)


@app.command(
    "make-random",
    cls=PlainCommand,
    epilog="Example: run.py models make-random --size full /tmp/random-cosyvoice2",
)
def make_random_(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The directory to make; must not be there yet.")
    ],
    kind: Annotated[
        Literal[
            "cosyvoice2",
            "cosyvoice3",
            "paraformer-streaming",
            "paraformer",
            "sensevoice",
            "fsmn-vad",
            "ct-punc",
        ],
        typer.Option(help="Which model's architecture."),
    ] = "cosyvoice2",
    size: Annotated[
        Literal["tiny", "full"],
        typer.Option(
            help="tiny for tests: 60 MB of CosyVoice, 1 MB of FunASR; or full as published:"
            " 3.7 GB, 940 MB."
        ),
    ] = "tiny",
    seed: Annotated[int, typer.Option(metavar="N", help="Of the random weights.")] = 0,
    home: Annotated[
        Path | None,
        typer.Option(
            metavar="CHECKOUT",
            envvar="COSYVOICE_HOME",
            help="A git checkout of CosyVoice, for its models; without it the installed modules"
            " are used.",
        ),
    ] = None,
) -> None:
    """Make a model of CosyVoice or FunASR with random weights, for tests and benchmarks."""
    started = time.monotonic()
    try:
        if kind == "cosyvoice2" or kind == "cosyvoice3":
            from tts_engine.cosyvoice.make_random import make_random as make_voice

            make_voice(kind, size, directory, seed=seed, home=home)
        else:
            from services.asr.funasr.make_random import make_random

            make_random(kind, size, directory, seed=seed)
    except ModuleNotFoundError as error:
        raise not_installed("making a model", error) from error
    except OSError as error:
        raise ModelError(f"{directory} cannot be made: {error.strerror or error}") from error
    typer.echo(f"{kind}, {size}, random: {directory} ({time.monotonic() - started:.1f} s)")


def _settings(
    config: Path | None, sets: list[str] | None, models_dir: Path | None, *, offline: bool = False
) -> Config:
    """The configuration; the short options go before --set, as those of the other commands."""
    log_warnings_only()
    short = [f"models.dir={json.dumps(str(models_dir))}"] if models_dir else []
    short += ["models.offline=true"] if offline else []
    return configured(config, [*short, *(sets or ())])


def _jobs(store: ModelStore, names: Sequence[str]) -> list[Job]:
    return [
        Job(name=name, bytes=store.manifest.model(name).bytes, number=number, count=len(names))
        for number, name in enumerate(names, start=1)
    ]


def _fetched(store: ModelStore, job: Job) -> bool:
    started = time.monotonic()
    try:
        with progress_bar(job, say=say_on_stderr) as progress:
            path = store.fetch(job.name, progress)
    except DuplexdError as error:
        complain(error)
        return False
    typer.echo(f"{job.name}: ready in {path} ({time.monotonic() - started:.1f} s)")
    return True


def _verified(store: ModelStore, job: Job, *, quiet: bool) -> dict[str, Any]:
    name = job.name
    row: dict[str, Any] = {"name": name, "ok": True, "path": str(store.root / name)}
    try:
        with progress_bar(job) as progress:
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
