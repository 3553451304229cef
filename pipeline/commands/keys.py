"""`run.py keys`: API keys of the daemon. A running daemon sees changes within a second.

Exit codes: 0 done, 1 the file cannot be used, 2 wrong usage or no such key.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from pipeline.access import key_file
from pipeline.commands.invitation import introduce
from pipeline.commands.options import (
    ConfigFile,
    Host,
    Port,
    Sets,
    TlsName,
    configured,
    listening,
)
from pipeline.commands.plain_help import PlainCommand, PlainGroup
from services.access.key_file import KeyFile
from services.access.keys import digest_of, new_key

app = typer.Typer(
    cls=PlainGroup,
    add_completion=False,
    no_args_is_help=True,
    help="API keys of the daemon: add, list, revoke.",
    epilog="Example: run.py keys add --name phone",
)

_HOW_TO_OPEN = "with the daemon's --host, --port and --tls, its link and QR code are shown too"
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


@app.command(
    cls=PlainCommand, epilog="Example: run.py keys add --name phone --host 0.0.0.0 --tls auto"
)
def add(
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="To tell it from others.")
    ] = "",
    host: Host = None,
    port: Port = None,
    tls: TlsName = None,
    config: ConfigFile = None,
    sets: Sets = None,
    as_json: _Json = False,
) -> None:
    """Make a key and print it; it is shown only now.

    With the daemon's --host, --port and --tls it also shows the link that opens the talk page with
    the key, on a terminal as a QR code too.
    """
    server = configured(config, [*listening(host=host, port=port, tls=tls), *(sets or ())]).server
    key = new_key()
    stored = key_file(server).add(digest_of(key), name=name)
    if as_json:
        typer.echo(json.dumps({"id": stored.id, "name": name, "key": key}, ensure_ascii=False))
        return
    typer.echo(key)
    # A program that takes standard output gets the key and nothing else.
    typer.echo(f"shown only now; to take it back: run.py keys revoke {stored.id}", err=True)
    for line in introduce(server, key, code=sys.stderr.isatty()) or (_HOW_TO_OPEN,):
        typer.echo(line, err=True)


@app.command("list", cls=PlainCommand, epilog="Example: run.py keys list --json")
def list_(config: ConfigFile = None, sets: Sets = None, as_json: _Json = False) -> None:
    """Show the keys' ids, names and dates; the keys themselves are not kept."""
    file = _file(config, sets)
    keys = file.read()
    if as_json:
        rows = [key.model_dump(exclude={"sha256"}) for key in keys]
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    table = Table("id", "name", "made")
    for key in keys:
        table.add_row(key.id, key.name, key.created)
    Console().print(table)
    typer.echo(f"in {file.path}")


@app.command(cls=PlainCommand, epilog="Example: run.py keys revoke 3f9a01bc")
def revoke(
    id: Annotated[str, typer.Argument(metavar="ID", help="As `run.py keys list` shows it.")],
    config: ConfigFile = None,
    sets: Sets = None,
    as_json: _Json = False,
) -> None:
    """Take a key back; conversations that it has opened go on."""
    key = _file(config, sets).revoke(id)
    if as_json:
        typer.echo(json.dumps(key.model_dump(exclude={"sha256"}), ensure_ascii=False))
        return
    typer.echo(f"revoked {key.id}{f', {key.name}' if key.name else ''}")


def _file(config: ConfigFile, sets: Sets) -> KeyFile:
    return key_file(configured(config, sets).server)
