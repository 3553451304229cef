"""The file of devices: which are known, which wait to be let in, and the secret of their tokens."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tts_engine.errors import BadRequest, ConfigError, DuplexdError
from tts_engine.files import Stamp, locked, replace_file, stamp_of

#: devices that may wait for approval; the oldest is forgotten first
MOST_WAITING = 32
#: how long a code is good
CODE_LASTS = timedelta(hours=24)


class Device(BaseModel):
    """A device that may come in.

    Parameters:
        id: its MAC address.
        client_id: the UUID that it has shown; empty: the first one that it shows will be it.
        name: for people.
        board, firmware: as it last said.
        generation: of its token; another one makes another token.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    client_id: str = ""
    name: str = ""
    board: str = ""
    firmware: str = ""
    generation: int = 1
    added: str


class Waiting(BaseModel):
    """A device that waits for approval, by the code that it shows and speaks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    code: str
    id: str
    client_id: str = ""
    board: str = ""
    firmware: str = ""
    since: str


class Devices(BaseModel):
    """What the file holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    secret: str = Field(default_factory=lambda: secrets.token_hex(32), min_length=32)
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
            DuplexdError: see `read`; or the file cannot be written.
        """
        with self._changing() as found:
            return self._write(_with(found, device))

    def wait(
        self, device_id: str, client_id: str, board: str, firmware: str
    ) -> tuple[str, Devices]:
        """Has a device wait; one that already does keeps its code.

        Returns:
            The code, and what the file holds now.

        Raises:
            DuplexdError: see `add`.
        """
        with self._changing() as found:
            fresh = tuple(each for each in found.waiting if not _expired(each))
            for each in fresh:
                if (each.id, each.client_id) == (device_id, client_id):
                    return each.code, found
            taken = {each.code for each in fresh}
            code = next(code for code in iter(_code, None) if code not in taken)
            waiting = Waiting(
                code=code,
                id=device_id,
                client_id=client_id,
                board=board,
                firmware=firmware,
                since=now(),
            )
            kept = (*fresh, waiting)[-MOST_WAITING:]
            return code, self._write(found.model_copy(update={"waiting": kept}))

    def approve(self, code: str, *, name: str = "") -> Device:
        """Lets the device in that shows a code.

        Raises:
            BadRequest: none does.
            DuplexdError: see `add`.
        """
        with self._changing() as found:
            for each in found.waiting:
                if each.code == code and not _expired(each):
                    before = found.device(each.id)
                    device = Device(
                        id=each.id,
                        client_id=each.client_id,
                        name=name or (before.name if before else ""),
                        board=each.board,
                        firmware=each.firmware,
                        generation=before.generation + 1 if before else 1,
                        added=now(),
                    )
                    self._write(_with(found, device))
                    return device
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
                    f"There is no device {device_id!r}", mend="See `run.py devices list`"
                )
            # A device that is let in again gets another token than the one that was taken back.
            self._write(Devices(devices=devices, waiting=waiting, secret=found.secret))
            return device_id

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


def now() -> str:
    """The time as the file has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _with(found: Devices, device: Device) -> Devices:
    others = tuple(each for each in found.devices if each.id != device.id)
    waiting = tuple(each for each in found.waiting if each.id != device.id)
    return found.model_copy(update={"devices": (*others, device), "waiting": waiting})


def _expired(waiting: Waiting) -> bool:
    return datetime.now(UTC) - datetime.fromisoformat(waiting.since) > CODE_LASTS


def _code() -> str:
    return f"{secrets.randbelow(10**6):06d}"
