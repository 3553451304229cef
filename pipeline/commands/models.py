"""`run.py models`: list, fetch and verify the model weights.

Exit codes: 0 done, 1 a model is missing, corrupt or not to be had, 2 wrong usage or manifest.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
from rich.table import Table

from services.models import ModelState, ModelStore, default_root, load_manifest
from tts_engine.errors import ConfigError, DuplexdError

MANIFEST = Path(__file__).resolve().parents[2] / "configs" / "models.yaml"
#: what the default configuration needs
DEFAULT_NAMES = ("whisper-base", "kokoro", "qwen2.5-coder-0.5b")

_Directory = Annotated[
    Path | None,
    typer.Option(
        "--models-dir",
        metavar="DIR",
        envvar="DUPLEXD_MODELS",
        help="Where the models lie.",
        show_default="duplexd/models in the user's cache directory",
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


def build_app(
    *, default_names: tuple[str, ...] = DEFAULT_NAMES, manifest: Path = MANIFEST
) -> typer.Typer:
    """The command group.

    Args:
        default_names: what `fetch` brings when it is given no names.
        manifest: the manifest's file.
    """
    app = typer.Typer(
        no_args_is_help=True,
        help="Model weights: list, fetch, verify.",
        epilog="Example: run.py models fetch",
    )

    def store(directory: Path | None, *, offline: bool = False) -> ModelStore:
        return ModelStore(
            root=(directory or default_root()).expanduser(),
            manifest=load_manifest(manifest),
            offline=offline,
        )

    @app.command("list", epilog="Example: run.py models list --json")
    def list_(models_dir: _Directory = None, as_json: _Json = False) -> None:
        """Show every model, its size, licence and state."""
        with _one_line_failures():
            _list(store(models_dir), as_json=as_json)

    @app.command(epilog="Example: run.py models fetch kokoro whisper-base")
    def fetch(
        names: Annotated[
            list[str] | None,
            typer.Argument(metavar="NAME", help="Models; none: the default configuration's."),
        ] = None,
        everything: Annotated[bool, typer.Option("--all", help="Every model.")] = False,
        offline: Annotated[
            bool, typer.Option("--offline", help="Use only what is on this machine.")
        ] = False,
        models_dir: _Directory = None,
    ) -> None:
        """Download models and verify them; what is here already is left alone."""
        if names and everything:
            raise typer.BadParameter("give names or --all, not both")
        with _one_line_failures():
            shelf = store(models_dir, offline=offline)
            wanted = tuple(shelf.manifest.models) if everything else tuple(names or default_names)
            _known(shelf, wanted)
            _fetch(shelf, wanted)

    @app.command(epilog="Example: run.py models verify kokoro")
    def verify(
        names: Annotated[
            list[str] | None,
            typer.Argument(metavar="NAME", help="Models; none: all that are here."),
        ] = None,
        models_dir: _Directory = None,
        as_json: _Json = False,
    ) -> None:
        """Hash models again and compare with the manifest."""
        with _one_line_failures():
            shelf = store(models_dir)
            _known(shelf, tuple(names or ()))
            _verify(shelf, tuple(names or _here(shelf)), as_json=as_json)

    return app


def _list(store: ModelStore, *, as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "kind": model.kind,
            "about": model.about,
            "bytes": model.bytes,
            "licence": model.licence,
            "upstream": model.upstream,
            "state": store.status(name).value,
            "path": str(store.root / name),
        }
        for name, model in store.manifest.models.items()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    table = Table("name", "kind", "size", "licence", "state")
    for row in rows:
        size = f"{row['bytes'] / 1e6:,.0f} MB"
        table.add_row(row["name"], row["kind"], size, row["licence"], row["state"])
    Console().print(table)
    typer.echo(f"in {store.root}")


def _fetch(store: ModelStore, names: tuple[str, ...]) -> None:
    failed = False
    for name in names:
        started = time.monotonic()
        try:
            with _progress(f"{name}: ") as progress:
                path = store.fetch(name, progress)
        except DuplexdError as error:
            failed = True
            _complain(error)
        else:
            typer.echo(f"{name}: ready in {path} ({time.monotonic() - started:.1f} s)")
    if failed:
        raise typer.Exit(1)


def _verify(store: ModelStore, names: tuple[str, ...], *, as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    for name in names:
        row: dict[str, Any] = {"name": name, "ok": True, "path": str(store.root / name)}
        try:
            with _progress(f"{name}: ") as progress:
                store.verify(name, progress=progress)
        except DuplexdError as error:
            row |= {"ok": False, "code": error.code, "error": error.message, "mend": error.mend}
            if not as_json:
                _complain(error)
        else:
            if not as_json:
                typer.echo(f"{name}: every file is what the manifest says")
        rows.append(row)
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    elif not rows:
        typer.echo(f"no model in {store.root}; `run.py models fetch` brings them", err=True)
    if not rows or not all(row["ok"] for row in rows):
        raise typer.Exit(1)


def _here(store: ModelStore) -> tuple[str, ...]:
    names = store.manifest.models
    return tuple(name for name in names if store.status(name) is not ModelState.MISSING)


def _known(store: ModelStore, names: tuple[str, ...]) -> None:
    """Makes an unknown name a usage error, before any work."""
    for name in names:
        if name not in store.manifest.models:
            known = ", ".join(store.manifest.models)
            raise typer.BadParameter(f"there is no model called {name!r}; known: {known}")


@contextmanager
def _one_line_failures() -> Iterator[None]:
    """Turns an expected failure into one line and an exit code."""
    try:
        yield
    except DuplexdError as error:
        _complain(error)
        raise typer.Exit(2 if isinstance(error, ConfigError) else 1) from None


def _complain(error: DuplexdError) -> None:
    typer.echo(f"error: {error}", err=True)


class _Bar:
    """The store's progress on a rich progress bar."""

    def __init__(self, bar: Progress, prefix: str) -> None:
        self._bar = bar
        self._prefix = prefix
        self._task = bar.add_task(prefix, total=None)

    def __call__(self, file: str, done: int, total: int, stage: str) -> None:
        self._bar.update(
            self._task, description=f"{self._prefix}{file}: {stage}", completed=done, total=total
        )


@contextmanager
def _progress(prefix: str) -> Iterator[_Bar]:
    # On stderr, so that what a program reads stays clean; a bar that is over leaves no trace.
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        yield _Bar(bar, prefix)


#: what `pipeline.cli` mounts
app = build_app()
