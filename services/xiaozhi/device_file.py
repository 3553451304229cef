"""The file of devices: which are known, which wait to be let in, and the secret of their tokens."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from tts_engine.errors import BadRequest, ConfigError, DuplexdError
from tts_engine.files import Stamp, locked, replace_file, stamp_of

#: devices that may wait for approval, in all and of one address: beyond it the oldest is forgotten
MOST_WAITING, MOST_OF_ADDRESS = 64, 8
#: devices that are let in without anybody's word
MOST_OPEN = 1_024
#: how long a code is good
CODE_LASTS = timedelta(hours=24)
#: how exactly it is known when a device was there last
_SEEN_EVERY = timedelta(hours=1)
#: longest name that people give a device, characters
NAME_LENGTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """What a device says of itself when it boots.

    Parameters:
        id: its MAC address.
        client_id: a UUID that it keeps to itself; not empty.
        board, firmware: may be empty.
        base: by which address it has reached us, `http://host:port`.
        address: whom it comes from, as `services.access.limits.payer` has it.
    """

    id: str
    client_id: str
    board: str = ""
    firmware: str = ""
    base: str = ""
    address: str = ""


class Device(BaseModel):
    """A device that may come in.

    Parameters:
        id: its MAC address.
        client_id: the UUID that it has shown; empty: the first one that it shows will be it.
        name: for people.
        board, firmware: as it last said.
        base: by which address it last reached us.
        salt: of its token; another one makes another token.
        added, seen: when it was let in, and when it booted last, to the hour; None: not yet.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    client_id: str = ""
    name: str = ""
    board: str = ""
    firmware: str = ""
    base: str = ""
    salt: str = Field(default_factory=lambda: secrets.token_hex(16))
    added: AwareDatetime = Field(default_factory=lambda: _now())
    seen: AwareDatetime | None = None

    def is_of(self, client_id: str) -> bool:
        """Whether this UUID is its own; takes as long for every one."""
        return hmac.compare_digest(self.client_id.encode(), client_id.encode())

    def after(self, visit: Visit) -> Device:
        """The device after it has booted; itself where that tells nothing new."""
        said = {
            "client_id": visit.client_id,
            "board": visit.board,
            "firmware": visit.firmware,
            "base": visit.base,
        }
        news = any(getattr(self, name) != value for name, value in said.items())
        if not news and self.seen is not None and _now() - self.seen < _SEEN_EVERY:
            return self
        return self.model_copy(update={**said, "seen": _now()})


class Waiting(BaseModel):
    """A device that waits for approval, by the code that it shows and speaks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    code: str
    id: str
    client_id: str
    board: str = ""
    firmware: str = ""
    base: str = ""
    address: str = ""
    since: AwareDatetime = Field(default_factory=lambda: _now())

    @property
    def expired(self) -> bool:
        """Its code is good no more."""
        return _now() - self.since > CODE_LASTS


class Devices(BaseModel):
    """What the file holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    secret: str = Field(
        default_factory=lambda: secrets.token_hex(32), pattern=r"^(?:[0-9a-f]{2}){32,}$"
    )
    devices: tuple[Device, ...] = ()
    waiting: tuple[Waiting, ...] = ()

    def device(self, device_id: str) -> Device | None:
        """A known one."""
        return next((each for each in self.devices if each.id == device_id), None)


class DeviceFile:
    """Devices on disk, readable by their owner only. Several processes may change them at a time.

    Parameters:
        path: the file; it and its folder are made when they are needed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def stamp(self) -> Stamp | None:
        """See `stamp_of`."""
        return stamp_of(self.path)

    def read(self) -> Devices:
        """What it holds.

        Raises:
            ConfigError: the file is not one of devices.
            DuplexdError: it cannot be read.
        """
        try:
            return Devices.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return Devices()
        except OSError as error:
            raise self._failure("read", error) from error
        except ValidationError as error:
            raise ConfigError(
                f"{self.path} is not a file of devices",
                mend="Restore it, or delete it: every device then has to be let in again",
            ) from error

    def add(self, device: Device) -> Devices:
        """Lets a device in; one with the same id is replaced, and what waits under it is settled.

        Raises:
            BadRequest: its name is too long, or not printable.
            DuplexdError: see `read`; or the file cannot be written.
        """
        _check_name(device.name)
        with self._changing() as found:
            return self._write(_with(found, device))

    def enrol(self, visit: Visit, *, open_door: bool) -> tuple[Devices, str]:
        """A device boots: it is let in if it is known by its Client-Id, or waits.

        Args:
            visit: what it says of itself.
            open_door: whoever is not known is let in.

        Returns:
            What the file holds now, and the code by which it waits; empty: it is let in.

        Raises:
            DuplexdError: see `add`.
        """
        with self._changing() as found:
            device = found.device(visit.id)
            if device is None and open_door and len(found.devices) < MOST_OPEN:
                device = Device(id=visit.id, client_id=visit.client_id)
            if device is None or (device.client_id and not device.is_of(visit.client_id)):
                return self._wait(found, visit)
            now = device.after(visit)
            return (self._write(_with(found, now)), "") if now is not device else (found, "")

    def approve(self, code: str, *, name: str = "") -> tuple[Device, Device | None]:
        """Lets the device in that shows a code.

        Returns:
            The device, and the one of the same id that it takes the place of.

        Raises:
            BadRequest: none does; or the name is too long, or not printable.
            DuplexdError: see `add`.
        """
        _check_name(name)
        with self._changing() as found:
            for each in found.waiting:
                if each.code == code and not each.expired:
                    before = found.device(each.id)
                    device = Device(
                        id=each.id,
                        client_id=each.client_id,
                        name=name or (before.name if before else ""),
                        board=each.board,
                        firmware=each.firmware,
                        base=each.base,
                    )
                    self._write(_with(found, device))
                    return device, before
        raise BadRequest(
            f"No device waits with the code {code!r}",
            mend="See `run.py devices list`; a code is good for a day",
        )

    def revoke(self, device_id: str) -> str:
        """Forgets a device, be it known or waiting; its token is good no more.

        Returns:
            Its id.

        Raises:
            BadRequest: it is not there.
            DuplexdError: see `add`.
        """
        device_id = device_id.lower()
        with self._changing() as found:
            devices = tuple(each for each in found.devices if each.id != device_id)
            waiting = tuple(each for each in found.waiting if each.id != device_id)
            if (devices, waiting) == (found.devices, found.waiting):
                raise BadRequest(
                    f"There is no device {device_id[:NAME_LENGTH]!r}",
                    mend="See `run.py devices list`",
                )
            self._write(Devices(devices=devices, waiting=waiting, secret=found.secret))
            return device_id

    def _wait(self, found: Devices, visit: Visit) -> tuple[Devices, str]:
        """Has a device wait; one that already does keeps its code."""
        fresh = [each for each in found.waiting if not each.expired]
        for each in fresh:
            if (each.id, each.client_id) == (visit.id, visit.client_id):
                return found, each.code
        neighbours = [each for each in fresh if each.address == visit.address]
        if len(neighbours) >= MOST_OF_ADDRESS:
            fresh.remove(neighbours[0])
        taken = {each.code for each in fresh}
        waiting = Waiting(
            code=next(code for code in iter(_code, None) if code not in taken),
            id=visit.id,
            client_id=visit.client_id,
            board=visit.board,
            firmware=visit.firmware,
            base=visit.base,
            address=visit.address,
        )
        kept = (*fresh, waiting)[-MOST_WAITING:]
        return self._write(found.model_copy(update={"waiting": kept})), waiting.code

    @contextmanager
    def _changing(self) -> Iterator[Devices]:
        """What it holds, while no other process changes it."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with locked(self.path.with_name(f"{self.path.name}.lock")):
                yield self.read()
        except OSError as error:
            raise self._failure("write", error) from error

    def _write(self, content: Devices) -> Devices:
        replace_file(self.path, content.model_dump_json(indent=2).encode() + b"\n", mode=0o600)
        return content

    def _failure(self, what: str, error: OSError) -> DuplexdError:
        return DuplexdError(
            f"Cannot {what} the devices in {self.path}: {error.strerror or error}",
            mend="Name another file with xiaozhi.devices_file",
        )


def _check_name(name: str) -> None:
    if len(name) > NAME_LENGTH or not name.isprintable():
        raise BadRequest(f"A device's name is at most {NAME_LENGTH} printable characters")


def _with(found: Devices, device: Device) -> Devices:
    """With a device in its place, or as the last one."""
    known = {each.id: each for each in found.devices} | {device.id: device}
    waiting = tuple(each for each in found.waiting if each.id != device.id)
    return found.model_copy(update={"devices": tuple(known.values()), "waiting": waiting})


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _code() -> str:
    return f"{secrets.randbelow(10**6):06d}"
