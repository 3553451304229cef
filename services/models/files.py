"""What the store needs of a file system: hashes, and files that appear whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from services.models.manifest import ModelFile
from tts_engine.errors import ModelCorrupt

#: bytes read, hashed and written at a time
CHUNK = 1 << 20
_STAMP = ".verified.json"


def digest(path: Path, report: Callable[[int], None] = lambda _: None) -> str:
    """SHA-256 of a file, hexadecimal; `report` gets the bytes read so far."""
    sha, done = hashlib.sha256(), 0
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            sha.update(chunk)
            report(done := done + len(chunk))
    return sha.hexdigest()


def corrupt(what: str, *, name: str, expected: str, got: str, options: str = "") -> ModelCorrupt:
    """The failure of a file of model `name` that is not what the manifest says.

    Args:
        what: the file.
        name: the model.
        expected: what it should be.
        got: what it is.
        options: of the command that mends it.
    """
    return ModelCorrupt(
        f"{what} is corrupt: expected {expected}, got {got}",
        mend=f"Run `run.py models fetch {name}{options}`.",
    )


class Landing:
    """A file on its way in: written beside its target, hashed as it comes, renamed when right.

    The temporary name carries the expected hash, so what an interrupted download left is only
    ever continued towards the same file, whichever source the rest comes from.

        with Landing(...) as landing:
            landing.write(...)
            landing.finish()

    Parameters:
        name: the model, for messages.
        target: where the file is to appear.
        file: what it must be.
        report: gets the bytes there so far.
        resume: go on from what was left, and leave what is there when interrupted again.
    """

    def __init__(
        self,
        *,
        name: str,
        target: Path,
        file: ModelFile,
        report: Callable[[int], None],
        resume: bool = False,
    ) -> None:
        self.file = file
        self.done = 0
        self._name = name
        self._target = target
        self._report = report
        self._part = target.with_name(f".{target.name}.{file.sha256[:12]}.part")
        self._sha = hashlib.sha256()
        self._keep = resume

    def __enter__(self) -> Self:
        self._target.parent.mkdir(parents=True, exist_ok=True)
        self._stream = self._part.open("a+b")
        self._stream.seek(0)
        if not self._keep:
            self.restart()
        while chunk := self._stream.read(CHUNK):
            self._sha.update(chunk)
            self.done += len(chunk)
        if self.done > self.file.bytes:
            self.restart()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        # Closing flushes, and may fail like any write: the first failure is the one that counts.
        with suppress(OSError):
            self._stream.close()
        if not self._keep:
            self._part.unlink(missing_ok=True)

    def restart(self) -> None:
        """Starts over with an empty file."""
        self._stream.seek(0)
        self._stream.truncate()
        self._sha, self.done = hashlib.sha256(), 0

    def write(self, data: bytes) -> None:
        """Appends.

        Raises:
            ModelCorrupt: this is more than the file can hold.
        """
        self._sha.update(data)
        self._stream.write(data)
        self.done += len(data)
        if self.done > self.file.bytes:
            self._reject(f"{self.file.bytes} bytes", "more")
        self._report(self.done)

    def finish(self) -> None:
        """Checks the file and puts it in its place.

        Raises:
            ModelCorrupt: length or hash is wrong.
        """
        if self.done != self.file.bytes:
            self._reject(f"{self.file.bytes} bytes", str(self.done))
        if (got := self._sha.hexdigest()) != self.file.sha256:
            self._reject(f"sha256 {self.file.sha256}", got)
        self._stream.flush()
        os.fsync(self._stream.fileno())
        os.replace(self._part, self._target)

    def _reject(self, expected: str, got: str) -> None:
        self._keep = False
        raise corrupt(
            f"{self._name}/{self._target.name}", name=self._name, expected=expected, got=got
        )


class Stamp:
    """Remembers in a model's directory which files were verified, so that it need not be redone.

    A file counts as verified while its length and modification time are those it had then.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / _STAMP

    def covers(self, files: dict[str, ModelFile]) -> bool:
        """Whether every file was verified and has not changed since."""
        known = self._read()
        try:
            return all(known.get(name) == self._entry(name, file) for name, file in files.items())
        except OSError:
            return False

    def write(self, files: dict[str, ModelFile]) -> None:
        """Remembers that all these files were verified just now.

        Raises:
            OSError
        """
        entries = {name: self._entry(name, file) for name, file in files.items()}
        temporary = self._path.with_name(f"{_STAMP}.{os.getpid()}")
        try:
            temporary.write_text(json.dumps(entries, indent=1), encoding="utf-8")
            os.replace(temporary, self._path)
        finally:
            temporary.unlink(missing_ok=True)

    def clear(self) -> None:
        """Forgets everything."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _entry(self, name: str, file: ModelFile) -> dict[str, Any]:
        status = (self._directory / name).stat()
        return {"sha256": file.sha256, "bytes": status.st_size, "mtime_ns": status.st_mtime_ns}

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}
