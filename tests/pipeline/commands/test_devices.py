"""Invariants: the commands change what a running daemon sees; tokens and secrets are shown by
`token` alone; what a device says of itself breaks no table; exit codes say whose fault it was.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from services.xiaozhi.device_file import DeviceFile, Visit
from services.xiaozhi.registry import DeviceRegistry
from tests.pipeline.conftest import Run

pytestmark = pytest.mark.usefixtures("plain_environment")

MAC = "aa:bb:cc:dd:ee:01"


@pytest.fixture
def kept(tmp_path: Path) -> tuple[str, ...]:
    return ("--set", f"xiaozhi.devices_file={tmp_path}/devices.json")


@pytest.fixture
def file(tmp_path: Path) -> DeviceFile:
    return DeviceFile(tmp_path / "devices.json")


def visit(mac: str = MAC, client_id: str = "uuid", board: str = "box") -> Visit:
    return Visit(id=mac, client_id=client_id, board=board, firmware="2.0", address="10.0.0.9")


def boots(file: DeviceFile, who: Visit) -> str:
    """The token, or the code."""
    told = DeviceRegistry(file=file, asks=True, open_door=False).boots(who)
    return told.token or told.code


def test_approve_list_token_and_revoke(
    run: Run, kept: tuple[str, ...], file: DeviceFile, monkeypatch: pytest.MonkeyPatch
):
    code = boots(file, visit())
    monkeypatch.setenv("COLUMNS", "70")
    _, out, _ = run("devices", "list", *kept)
    assert code in out
    assert MAC in out  # whole on a narrow terminal too: `revoke` needs it
    told = run("devices", "approve", code, "--name", "kitchen", *kept)
    assert told == (0, f"{MAC}, kitchen, box may connect\n", "")
    token = boots(file, visit())
    assert run("devices", "token", MAC.upper(), *kept) == (0, f"{token}\n", "")
    _, out, _ = run("devices", "list", *kept)
    assert "kitchen" in out
    assert str(file.path) in "".join(out.split("\n"))
    found = file.read()
    for secret in (token, found.secret, found.devices[0].salt):
        assert secret not in out
    assert run("devices", "revoke", MAC, *kept) == (0, f"revoked {MAC}\n", "")
    assert len(boots(file, visit())) == 6


def test_for_programs(run: Run, kept: tuple[str, ...], file: DeviceFile):
    code = boots(file, visit())
    code_of, out, _ = run("devices", "list", "--json", *kept)
    listed = json.loads(out)
    assert code_of == 0
    assert listed.keys() == {"devices", "waiting"}
    assert listed["waiting"][0]["code"] == code
    row = json.loads(run("devices", "approve", code, "--json", *kept)[1])
    assert (row["id"], row["client_id"]) == (MAC, "uuid")
    assert "salt" not in row
    listed = json.loads(run("devices", "list", "--json", *kept)[1])
    assert listed == {"devices": [row], "waiting": []}
    token = json.loads(run("devices", "token", MAC, "--json", *kept)[1])
    assert token == {"id": MAC, "token": boots(file, visit())}
    assert json.loads(run("devices", "revoke", MAC, "--json", *kept)[1]) == {"id": MAC}


def test_add(run: Run, kept: tuple[str, ...], file: DeviceFile):
    assert run("devices", "add", MAC.upper(), *kept) == (0, f"{MAC} may connect\n", "")
    old = run("devices", "token", MAC, *kept)[1]
    told = run("devices", "add", MAC, "--name", "desk", "--client-id", "uuid-1", *kept)
    assert told == (0, f"{MAC}, desk may connect\n", "")
    new = run("devices", "token", MAC, *kept)[1]
    assert new != old
    assert boots(file, visit(client_id="uuid-1")) == new.strip()
    assert len(boots(file, visit(client_id="uuid-2"))) == 6


def test_what_takes_the_place_of_another_is_said(run: Run, kept: tuple[str, ...], file: DeviceFile):
    run("devices", "approve", boots(file, visit()), *kept)
    code = boots(file, visit(client_id="other"))
    assert "in place of" in run("devices", "list", *kept)[1]
    assert "from before may not" in run("devices", "approve", code, *kept)[1]


def test_what_a_device_says_is_no_markup(run: Run, kept: tuple[str, ...], file: DeviceFile):
    for at, board in enumerate(("[/x]", "[bold red]", "[link=http://evil]x[/link]", ":smiley:")):
        boots(file, visit(mac=f"mac{at}", board=board))
    code, out, err = run("devices", "list", *kept)
    assert (code, err) == (0, "")
    words = "".join(out.split())
    assert "[/x]" in words
    assert "[bold" in words
    assert ":smiley:" in words
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("approve", "123456"), "run.py devices list"),
        (("revoke", "nobody"), "run.py devices list"),
        (("token", "nobody"), "run.py devices list"),
        (("add", "my-device"), "aa:bb:cc:dd:ee:ff"),
        (("add", MAC, "--client-id", "a b"), "UUID"),
        (("add", MAC, "--name", "x" * 65), "64 printable"),
    ],
)
def test_wrong_usage(run: Run, kept: tuple[str, ...], args: tuple[str, ...], says: str):
    code, out, err = run("devices", *args, *kept)
    assert (code, out) == (2, "")
    assert says in " ".join(err.split())


def test_a_file_that_cannot_be_used(run: Run, file: DeviceFile, tmp_path: Path):
    (tmp_path / "plain").touch()
    bad = ("--set", f"xiaozhi.devices_file={tmp_path}/plain/devices.json")
    code, _, err = run("devices", "list", *bad)
    assert code == 1
    assert "xiaozhi.devices_file" in err
    (tmp_path / "broken.json").write_text("{")
    code, _, err = run("devices", "list", "--set", f"xiaozhi.devices_file={tmp_path}/broken.json")
    assert code == 2
    assert "is not a file of devices" in " ".join(err.split())


def test_where_they_are_kept_by_default(run: Run, tmp_path: Path):
    assert run("devices", "add", MAC)[0] == 0
    assert (tmp_path / "data" / "duplexd" / "devices.json").is_file()


@pytest.mark.parametrize("verb", ["", "approve", "add", "list", "revoke", "token"])
def test_help_has_examples(run: Run, verb: str):
    code, out, _ = run("devices", *filter(None, (verb,)), "--help")
    assert code == 0
    assert "Example: run.py devices" in out
