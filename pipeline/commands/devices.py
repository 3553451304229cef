"""`run.py devices`: which Xiaozhi devices may connect; a running daemon sees changes in a second.

Exit codes: 0 done, 1 the file cannot be used, 2 wrong usage or no such device.
"""

from __future__ import annotations

import json
import re
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.commands.options import ConfigFile, Sets, configured
from pipeline.commands.plain_help import PlainCommand, PlainGroup
from pipeline.xiaozhi_devices import device_file
from services.xiaozhi.device_file import Device, DeviceFile, Waiting
from services.xiaozhi.handshake import identity
from services.xiaozhi.tokens import token_of
from tts_engine.errors import BadRequest

app = typer.Typer(
    cls=PlainGroup,
    add_completion=False,
    no_args_is_help=True,
    help="Xiaozhi devices: approve, add, list, revoke.",
    epilog="Example: run.py devices approve 402913",
)

_MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
_Id = Annotated[str, typer.Argument(metavar="ID", help="Its MAC address, as devices list has it.")]
_Name = Annotated[str, typer.Option("--name", metavar="NAME", help="To tell it from others.")]


@app.command(cls=PlainCommand, epilog="Example: run.py devices approve 402913 --name kitchen")
def approve(
    code: Annotated[str, typer.Argument(metavar="CODE", help="Which the device shows and speaks.")],
    name: _Name = "",
    config: ConfigFile = None,
    sets: Sets = None,
    as_json: _Json = False,
) -> None:
    """Let the device in that shows a code; it looks for itself within half a minute."""
    device, before = _file(config, sets).approve(code, name=name)
    what = "may connect, and the one of this id from before may not" if before else "may connect"
    _tell(device, what, as_json=as_json)


@app.command(cls=PlainCommand, epilog="Example: run.py devices add aa:bb:cc:dd:ee:ff --name desk")
def add(
    id: _Id,
    name: _Name = "",
    client_id: Annotated[
        str,
        typer.Option("--client-id", metavar="UUID", help="Its Client-Id; else the first it shows."),
    ] = "",
    config: ConfigFile = None,
    sets: Sets = None,
    as_json: _Json = False,
) -> None:
    """Let a device in before it has asked; one that is in already gets another token."""
    id = id.lower()
    if not _MAC.fullmatch(id):
        raise BadRequest(f"{id!r} is no MAC address", mend="Write one like aa:bb:cc:dd:ee:ff")
    if client_id and identity({"client-id": client_id}, {}).client_id != client_id:
        raise BadRequest(f"{client_id!r} is no Client-Id", mend="It is a UUID, as devices show it")
    device = Device(id=id, client_id=client_id, name=name)
    _file(config, sets).add(device)
    _tell(device, "may connect", as_json=as_json)


@app.command("list", cls=PlainCommand, epilog="Example: run.py devices list --json")
def list_(config: ConfigFile = None, sets: Sets = None, as_json: _Json = False) -> None:
    """Show the devices that may connect, and those that wait with their codes."""
    file = _file(config, sets)
    found = file.read()
    if as_json:
        kept = {"devices": {"__all__": {"salt"}}, "secret": True}
        typer.echo(found.model_dump_json(exclude=kept, indent=2))
        return
    table = Table("id", "name", "board", "firmware", "code", "from")
    for column in table.columns:
        column.overflow = "fold"
        column.no_wrap = column.header in ("id", "code")
    for device in found.devices:
        _row(table, device, device.name)
    for each in found.waiting:
        known = found.device(each.id)
        name = f"in place of {known.name or 'the one above'}" if known else "new"
        _row(table, each, name, each.code, each.address)
    Console().print(table)
    typer.echo(f"in {file.path}")


def _row(table: Table, device: Device | Waiting, *cells: str) -> None:
    name, *others = cells
    # Text: what a device says of itself is no markup.
    table.add_row(*map(Text, (device.id, name, device.board, device.firmware, *others)))


@app.command(cls=PlainCommand, epilog="Example: run.py devices revoke aa:bb:cc:dd:ee:ff")
def revoke(id: _Id, config: ConfigFile = None, sets: Sets = None, as_json: _Json = False) -> None:
    """Take a device's token back; a conversation that it has open goes on."""
    gone = _file(config, sets).revoke(id)
    typer.echo(json.dumps({"id": gone}) if as_json else f"revoked {gone}")


@app.command(cls=PlainCommand, epilog="Example: run.py devices token aa:bb:cc:dd:ee:ff")
def token(id: _Id, config: ConfigFile = None, sets: Sets = None, as_json: _Json = False) -> None:
    """Print a device's token, for programs that do not ask the OTA address."""
    found = _file(config, sets).read()
    device = found.device(id.lower())
    if device is None:
        raise BadRequest(f"There is no device {id!r}", mend="See `run.py devices list`")
    shown = token_of(found, device)
    typer.echo(json.dumps({"id": device.id, "token": shown}) if as_json else shown)


def _file(config: ConfigFile, sets: Sets) -> DeviceFile:
    return device_file(configured(config, sets))


def _tell(device: Device, what: str, *, as_json: bool) -> None:
    if as_json:
        typer.echo(device.model_dump_json(exclude={"salt"}))
        return
    about = ", ".join(filter(None, (device.id, device.name, device.board)))
    typer.echo(f"{about} {what}")
