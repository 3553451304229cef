"""The file of API keys: their hashes, names and dates; never a key."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tts_engine.errors import BadRequest, ConfigError, DuplexdError
from tts_engine.files import Stamp, locked, replace_file, stamp_of

NAME_LENGTH = 64


class StoredKey(BaseModel):
    """What is kept of a key."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    name: str = ""
    created: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    keys: tuple[StoredKey, ...]


class KeyFile:
    """Keys on disk, readable by their owner only. Several processes may change them at a time.

    Parameters:
        path: the file; it and its folder are made when the first key is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def stamp(self) -> Stamp | None:
        """See `stamp_of`."""
        return stamp_of(self.path)

    def read(self) -> tuple[StoredKey, ...]:
        """All keys, the oldest first; none where there is no file.

        Raises:
            ConfigError: the file is not one of keys.
            DuplexdError: it cannot be read.
        """
        try:
            return _Content.model_validate_json(self.path.read_bytes()).keys
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise self._failure("read", error) from error
        except ValidationError as error:
            raise ConfigError(
                f"{self.path} is not a file of API keys",
                mend="Restore it, or delete it and make new keys with `run.py keys add`",
            ) from error

    def add(self, digest: str, *, name: str = "") -> StoredKey:
        """Keeps a further key.

        Args:
            digest: `digest_of` the key.
            name: for people to tell it from others.

        Raises:
            BadRequest: the name is too long, or not printable.
            DuplexdError: see `read`; or the file cannot be written.
        """
        with self._changing() as keys:
            return self._append(keys, digest, name)

    def add_first(self, digest: str, *, name: str = "") -> StoredKey | None:
        """The same where there is no key yet; None: there is one."""
        if self.read():  # then nothing is written, also where nothing can be
            return None
        with self._changing() as keys:
            return None if keys else self._append(keys, digest, name)

    def revoke(self, id: str) -> StoredKey:
        """Forgets a key.

        Raises:
            BadRequest: there is none with this id.
            DuplexdError: see `add`.
        """
        with self._changing() as keys:
            for key in keys:
                if key.id == id:
                    self._write(tuple(each for each in keys if each is not key))
                    return key
        raise BadRequest(f"There is no key with the id {id!r}", mend="See `run.py keys list`")

    def _append(self, keys: tuple[StoredKey, ...], digest: str, name: str) -> StoredKey:
        if len(name) > NAME_LENGTH or not name.isprintable():
            raise BadRequest(f"A key's name is at most {NAME_LENGTH} printable characters")
        key = StoredKey(
            id=secrets.token_hex(4),
            name=name,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            sha256=digest,
        )
        self._write((*keys, key))
        return key

    @contextmanager
    def _changing(self) -> Iterator[tuple[StoredKey, ...]]:
        """The keys, while no other process changes them."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with locked(self.path.with_name(f"{self.path.name}.lock")):
                yield self.read()
        except OSError as error:
            raise self._failure("write", error) from error

    def _write(self, keys: tuple[StoredKey, ...]) -> None:
        text = _Content(keys=keys).model_dump_json(indent=2)
        replace_file(self.path, text.encode() + b"\n", mode=0o600)

    def _failure(self, what: str, error: OSError) -> DuplexdError:
        return DuplexdError(
            f"Cannot {what} the API keys in {self.path}: {error.strerror or error}",
            mend="Name another file with server.keys_file",
        )
