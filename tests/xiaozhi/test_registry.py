"""Invariants: a token is for one MAC address and one Client-Id; whoever knows only the first gets
none, and takes none away; what is taken back is good no more within a second; floods are bounded.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from services.xiaozhi import device_file
from services.xiaozhi.device_file import MOST_OF_ADDRESS, MOST_WAITING, Device, DeviceFile, Visit
from services.xiaozhi.handshake import Identity
from services.xiaozhi.registry import DeviceRegistry, Enrolled
from tests.access.fakes import Clock
from tts_engine.errors import BadRequest, ConfigError, DuplexdError

MAC = "aa:bb:cc:dd:ee:01"
OWNER, STRANGER = "6fa7a1d4-owner", "00000000-stranger"


def visit(client_id: str = OWNER, mac: str = MAC, **said: str) -> Visit:
    return Visit(id=mac, client_id=client_id, **said)


@pytest.fixture
def file(tmp_path: Path) -> DeviceFile:
    return DeviceFile(tmp_path / "folder" / "devices.json")


def registry(
    file: DeviceFile, *, asks: bool = True, open_door: bool = False, clock: Clock | None = None
) -> DeviceRegistry:
    return DeviceRegistry(file=file, asks=asks, open_door=open_door, clock=clock or Clock())


def enrolled(file: DeviceFile, doors: DeviceRegistry, **said: str) -> str:
    """Lets the owner's device in; gives its token."""
    file.approve(doors.boots(visit(**said)).code)
    token = doors.boots(visit(**said)).token
    assert token
    return token


# --- enrolment -----------------------------------------------------------------------------------
def test_a_new_device_waits_until_it_is_approved(file: DeviceFile):
    clock = Clock()
    doors = registry(file, clock=clock)
    who = Identity(device_id=MAC, client_id=OWNER)
    first = doors.boots(visit(board="kitchen-box", firmware="2.2.2"))
    assert (first.token, first.replaces) == ("", False)
    assert len(first.code) == 6
    assert first.code.isdigit()
    assert doors.boots(visit()) == first  # it keeps its code
    assert not doors.approved(who)
    assert not doors.admits(MAC, "")
    device, before = file.approve(first.code, name="kitchen")
    assert (device.name, device.board, device.firmware) == ("kitchen", "kitchen-box", "2.2.2")
    assert before is None
    clock.now += 1
    assert doors.approved(who)
    assert not doors.approved(Identity(device_id=MAC, client_id=STRANGER))
    told = doors.boots(visit())
    assert told.code == ""
    assert doors.admits(MAC, told.token)
    assert not file.read().waiting


def test_the_token_lasts_over_boots_and_restarts(file: DeviceFile):
    token = enrolled(file, registry(file), board="box", firmware="1.0")
    assert registry(file).boots(visit(board="box", firmware="2.0")).token == token
    assert registry(file).admits(MAC, token)
    assert file.read().devices[0].firmware == "2.0"


@pytest.mark.parametrize("open_door", [False, True])
def test_a_stranger_who_knows_the_address_gets_no_token(file: DeviceFile, open_door: bool):
    doors = registry(file, open_door=open_door)
    token = doors.boots(visit()).token if open_door else enrolled(file, doors)
    stranger = doors.boots(visit(STRANGER, base="http://evil.example", board="evil"))
    assert stranger.token == ""
    assert stranger.replaces
    assert doors.boots(visit("")) == Enrolled()
    assert doors.admits(MAC, token)
    assert doors.boots(visit()).token == token
    # Nor has it moved where the device sends its photos.
    assert "evil" not in doors.vision(MAC)[0]
    assert doors.board(MAC) != "evil"


def test_what_is_approved_takes_the_place_of_what_was(file: DeviceFile):
    doors = registry(file)
    token = enrolled(file, doors)
    erased = doors.boots(visit("new-uuid"))
    device, before = file.approve(erased.code)
    assert before is not None
    assert before.is_of(OWNER)
    assert device.is_of("new-uuid")
    fresh = doors.boots(visit("new-uuid")).token
    assert doors.admits(MAC, fresh)
    assert not doors.admits(MAC, token)
    assert doors.boots(visit()).token == ""


def test_the_open_door_lets_the_first_in_and_only_so_many(
    file: DeviceFile, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(device_file, "MOST_OPEN", 2)
    doors = registry(file, open_door=True)
    told = [doors.boots(visit(mac=f"aa:bb:cc:dd:ee:0{at}")) for at in range(3)]
    assert [bool(each.token) for each in told] == [True, True, False]
    assert told[2].code


def test_who_shows_no_client_id_gets_no_token(file: DeviceFile):
    for open_door in (False, True):
        assert registry(file, open_door=open_door).boots(visit("")) == Enrolled()
    assert not file.path.exists()


def test_a_device_that_was_added_is_the_first_that_comes(file: DeviceFile):
    file.add(Device(id=MAC, name="desk"))
    doors = registry(file)
    assert doors.approved(Identity(device_id=MAC, client_id=OWNER))
    token = doors.boots(visit()).token
    assert doors.admits(MAC, token)
    assert doors.boots(visit(STRANGER)).code
    assert file.read().devices[0].name == "desk"


def test_a_door_that_asks_nothing(file: DeviceFile):
    doors = registry(file, asks=False)
    assert doors.boots(visit(board="box", base="http://me:1")) == Enrolled()
    assert doors.admits(MAC, "")
    assert doors.admits_photo("")
    assert doors.approved(Identity(device_id=MAC))
    assert (doors.board(MAC), doors.board("other")) == ("box", "")
    assert doors.vision(MAC) == ("http://me:1/xiaozhi/vision/explain", "")
    assert doors.vision("other") == ("", "")
    assert not file.path.exists()
    for at in range(2_000):
        doors.boots(visit(mac=f"mac{at}", board="box"))
    assert (doors.board("mac0"), doors.board("mac1999")) == ("", "box")


# --- tokens --------------------------------------------------------------------------------------
@pytest.mark.parametrize("wrong", ["", "x", "é", "a" * 43])
def test_wrong_tokens(file: DeviceFile, wrong: str):
    doors = registry(file)
    enrolled(file, doors)
    assert not doors.admits(MAC, wrong)
    assert not doors.admits("11:22:33:44:55:66", wrong)
    assert not doors.admits_photo(wrong)


def test_a_token_is_for_its_device_and_its_purpose(file: DeviceFile):
    doors = registry(file, open_door=True)
    mine = doors.boots(visit(base="http://me:8080")).token
    other = "aa:bb:cc:dd:ee:02"
    others = doors.boots(visit(mac=other)).token
    assert mine != others
    assert not doors.admits(MAC, others)
    url, photo = doors.vision(MAC)
    assert url == "http://me:8080/xiaozhi/vision/explain"
    assert doors.admits_photo(photo)
    assert not doors.admits(MAC, photo)
    assert not doors.admits(MAC, photo.rpartition("/")[2])
    assert not doors.admits_photo(f"{other}/{photo.rpartition('/')[2]}")
    assert not doors.admits_photo(mine)
    assert not doors.admits_photo(f"{MAC}/{mine}")
    assert doors.vision(other)[0] == ""  # it has not said by which address it came
    assert doors.vision("11:22:33:44:55:66") == ("", "")
    text = file.path.read_text()
    assert mine not in text
    assert photo not in text


def test_what_is_taken_back_is_good_no_more_and_never_again(file: DeviceFile):
    clock = Clock()
    doors = registry(file, clock=clock)
    token = enrolled(file, doors)
    photo = doors.vision(MAC)[1]
    for _ in range(2):
        clock.now += 1
        assert doors.admits(MAC, token)
    assert file.revoke(MAC.upper()) == MAC
    clock.now += 1
    assert not doors.admits(MAC, token)
    assert not doors.admits_photo(photo)
    file.add(Device(id=MAC, client_id=OWNER))  # within the same second, and the same device
    clock.now += 1
    assert not doors.admits(MAC, token)
    assert doors.admits(MAC, doors.boots(visit()).token)
    with pytest.raises(BadRequest, match="There is no device"):
        file.revoke("nobody")


def test_a_change_of_another_process_is_not_lost_to_a_boot(file: DeviceFile):
    clock = Clock()
    doors = registry(file, clock=clock)
    token = enrolled(file, doors)
    doors.boots(visit(STRANGER))  # writes, and remembers what it has written
    file.revoke(MAC)
    clock.now += 1
    assert not doors.admits(MAC, token)


# --- the file ------------------------------------------------------------------------------------
def test_it_is_its_owners_and_nobody_is_let_in_while_it_is_broken(
    file: DeviceFile, errors: list[str]
):
    clock = Clock()
    doors = registry(file, clock=clock)
    token = enrolled(file, doors)
    assert file.path.stat().st_mode & 0o777 == 0o600
    good = file.path.read_bytes()
    for broken in (b"{", b'{"secret":"zz"}', b'{"devices":[{"id":"x","added":"yesterday"}]}'):
        file.path.write_bytes(broken)
        clock.now += 1
        assert not doors.admits(MAC, token)
        with pytest.raises(ConfigError, match="is not a file of devices"):
            doors.boots(visit())
        with pytest.raises(ConfigError):
            registry(file)
    assert len(errors) == 3
    file.path.write_bytes(good)
    clock.now += 1
    assert doors.admits(MAC, token)


def test_a_folder_that_cannot_be_written(tmp_path: Path):
    (tmp_path / "file").touch()
    file = DeviceFile(tmp_path / "file" / "devices.json")
    with pytest.raises(DuplexdError, match="Cannot read the devices"):
        registry(file)
    with pytest.raises(DuplexdError, match="Cannot write the devices") as caught:
        file.add(Device(id=MAC))
    assert "xiaozhi.devices_file" in caught.value.mend


def test_a_known_device_boots_where_nothing_can_be_written(
    file: DeviceFile, monkeypatch: pytest.MonkeyPatch
):
    token = enrolled(file, registry(file), board="box")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(device_file, "replace_file", full)
    doors = registry(file)
    assert doors.boots(visit(board="box")).token == token
    with pytest.raises(DuplexdError, match="No space left"):
        doors.boots(visit(STRANGER))


def test_it_is_known_when_a_device_was_there(file: DeviceFile):
    enrolled(file, registry(file))
    [device] = file.read().devices
    assert device.seen is not None
    early = datetime.now(UTC) - timedelta(hours=2)
    file.add(device.model_copy(update={"seen": early}))
    doors = registry(file)
    doors.boots(visit())
    [device] = file.read().devices
    assert device.seen is not None
    assert device.seen > early


def test_names_are_short_and_printable(file: DeviceFile):
    code = registry(file).boots(visit()).code
    for name in ("x" * 65, "a\x1b[2J"):
        with pytest.raises(BadRequest, match="printable"):
            file.approve(code, name=name)
        with pytest.raises(BadRequest, match="printable"):
            file.add(Device(id=MAC, name=name))


# --- codes ---------------------------------------------------------------------------------------
def test_a_flood_of_one_address_takes_no_others_place(file: DeviceFile):
    doors = registry(file)
    mine = doors.boots(visit(address="192.168.1.7")).code
    for at in range(3 * MOST_WAITING):
        doors.boots(visit("x", mac=f"mac{at}", address="192.168.1.66"))
    waiting = file.read().waiting
    assert len(waiting) == MOST_OF_ADDRESS + 1
    assert len({each.code for each in waiting}) == len(waiting)
    assert waiting[-1].id == f"mac{3 * MOST_WAITING - 1}"
    assert file.approve(mine)[0].id == MAC


def test_a_flood_of_many_addresses_is_bounded(file: DeviceFile):
    doors = registry(file)
    for at in range(MOST_WAITING + 5):
        doors.boots(visit(mac=f"mac{at}", address=f"10.0.0.{at}"))
    assert len(file.read().waiting) == MOST_WAITING


def test_codes_that_nobody_has_or_that_are_old(file: DeviceFile):
    doors = registry(file)
    code = doors.boots(visit()).code
    wrong = f"{(int(code) + 1) % 10**6:06d}"
    for bad in (wrong, "", code[:5], f"{code} "):
        with pytest.raises(BadRequest, match="No device waits"):
            file.approve(bad)
    found = file.read()
    old = found.waiting[0].model_copy(update={"since": datetime.now(UTC) - timedelta(hours=25)})
    file.path.write_text(found.model_copy(update={"waiting": (old,)}).model_dump_json())
    with pytest.raises(BadRequest, match="good for a day"):
        file.approve(code)
    assert doors.boots(visit()).code
    assert len(file.read().waiting) == 1


def test_a_code_that_is_taken_is_not_given_again(file: DeviceFile, monkeypatch: pytest.MonkeyPatch):
    drawn = iter([7, 7, 8])
    monkeypatch.setattr(device_file.secrets, "randbelow", lambda _: next(drawn))
    doors = registry(file)
    assert doors.boots(visit()).code == "000007"
    assert doors.boots(visit(mac="other")).code == "000008"


def test_many_at_once(file: DeviceFile):
    several = [registry(file, open_door=True) for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        told = list(
            pool.map(
                lambda at: several[at % 4].boots(visit(mac=f"mac{at}", client_id=f"c{at}")),
                range(40),
            )
        )
    fresh = registry(file)
    assert all(fresh.admits(f"mac{at}", each.token) for at, each in enumerate(told))
