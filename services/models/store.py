"""The model store: `<root>/<model>/<file>`, complete and verified, or a failure that says why not.

Beside the models the root holds `.partial-<model>/`, the wheels of a fetch that was interrupted,
and `.lock-<model>`, which keeps two processes from fetching the same model at once.
"""

from __future__ import annotations

import errno
import os
import shlex
import shutil
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import platformdirs
from loguru import logger

from services.models.files import Stamp, corrupt, digest
from services.models.manifest import Manifest, Model, ModelFile
from services.models.sources import bring
from services.models.wheels import WheelCache
from tts_engine.errors import ModelCorrupt, ModelError, ModelMissing
from tts_engine.files import locked

#: file (or model), bytes done, bytes in all, stage in words
Progress = Callable[[str, int, int, str], None]


class ModelState(StrEnum):
    """What is known of a model without reading it."""

    PRESENT = "present"  # complete, verified, unchanged since
    UNVERIFIED = "unverified"  # complete by its lengths; hashed at first use
    CORRUPT = "corrupt"  # a file has the wrong length
    MISSING = "missing"


def default_root() -> Path:
    """Where models lie: DUPLEXD_MODELS, else `duplexd/models` in the user's cache directory."""
    if chosen := os.environ.get("DUPLEXD_MODELS"):
        return Path(chosen).expanduser()
    return platformdirs.user_cache_path("duplexd") / "models"


def fetch_options(root: Path) -> str:
    """What `run.py models fetch NAME` needs after it to fetch into `root`: nothing by default."""
    return "" if root == default_root() else f" --models-dir {shlex.quote(str(root))}"


def _silent(file: str, done: int, total: int, stage: str) -> None:
    """Progress that nobody watches."""


class ModelStore:
    """Gives engines the directory of a model, and fetches what is not there. Synchronous.

    Parameters:
        root: directory of all models; made at the first fetch.
        manifest: what there is.
        offline: fetch only from this machine (`file` sources and wheels already here).
    """

    def __init__(self, *, root: Path, manifest: Manifest, offline: bool = False) -> None:
        self.root = root
        self.manifest = manifest
        self.offline = offline

    def status(self, name: str) -> ModelState:
        """The model's state, from lengths and the stamp alone: milliseconds.

        Raises:
            ConfigError: unknown model.
        """
        states = [self._state(name, files) for files in self.manifest.model(name).variants]
        return min(states, key=list(ModelState).index)

    def path(self, name: str) -> Path:
        """The model's directory, complete and verified.

        Files that were copied here by hand are hashed once; from then on this is as quick as
        `status`.

        Raises:
            ModelMissing, ModelCorrupt: it cannot be used; `mend` names the command.
            ConfigError: unknown model.
        """
        return self.verify(name, deep=False)

    def verify(self, name: str, *, deep: bool = True, progress: Progress = _silent) -> Path:
        """Checks a model and returns its directory.

        Args:
            name: the model.
            deep: hash every file again; otherwise a file verified before and unchanged is trusted.
            progress: told of the hashing.

        Raises:
            ModelMissing, ModelCorrupt: names the file, what it should be and what it is.
            ConfigError: unknown model.
        """
        failures: list[ModelError] = []
        for files in self.manifest.model(name).variants:
            try:
                self._check(name, files, deep=deep, progress=progress)
            except ModelError as failure:
                failures.append(failure)
            except OSError as error:
                raise self._disk_failure(error) from error
            else:
                return self.root / name
        raise next((each for each in failures if isinstance(each, ModelCorrupt)), failures[0])

    def fetch(self, name: str, progress: Progress = _silent) -> Path:
        """Brings a model here, or returns at once where it is already.

        What was there stays until its replacement is verified. An interrupted fetch is continued
        by the next one. When another process fetches the same model, this waits for it.

        Args:
            name: the model.
            progress: called often, from this thread; what it raises ends the fetch.

        Returns:
            The model's directory.

        Raises:
            ModelMissing: no source has it or can be reached.
            ModelCorrupt: sources have something else.
            ModelError: the disk is full or cannot be written.
            ConfigError: unknown model.
        """
        model = self.manifest.model(name)
        if self.status(name) is ModelState.PRESENT:
            return self.root / name

        def waiting() -> None:
            progress(name, 0, model.bytes, "waiting for another process")

        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with locked(self.root / f".lock-{name}", waiting=waiting):
                self._fetch(name, model, progress)
        except OSError as error:
            raise self._disk_failure(error) from error
        return self.root / name

    def _state(self, name: str, files: dict[str, ModelFile]) -> ModelState:
        directory = self.root / name
        try:
            sizes = {file: (directory / file).stat().st_size for file in files}
        except OSError:
            return ModelState.MISSING
        if any(sizes[file] != spec.bytes for file, spec in files.items()):
            return ModelState.CORRUPT
        return ModelState.PRESENT if Stamp(directory).covers(files) else ModelState.UNVERIFIED

    def _check(
        self, name: str, files: dict[str, ModelFile], *, deep: bool, progress: Progress
    ) -> None:
        directory = self.root / name
        state = self._state(name, files)
        if state is ModelState.PRESENT and not deep:
            return
        if state is ModelState.MISSING:
            absent = [file for file in files if not (directory / file).exists()]
            raise ModelMissing(
                f"model {name} is not in {self.root} ({', '.join(absent)} missing)",
                mend=f"Run `{self._command(name)}`.",
            )
        for file, spec in files.items():
            if (size := (directory / file).stat().st_size) != spec.bytes:
                expected, got = f"{spec.bytes} bytes", str(size)
            elif (sha := _hash(directory, file, spec, progress)) != spec.sha256:
                expected, got = f"sha256 {spec.sha256}", sha
            else:
                continue
            Stamp(directory).clear()
            raise corrupt(
                str(directory / file),
                name=name,
                expected=expected,
                got=got,
                options=fetch_options(self.root),
            )
        try:
            Stamp(directory).write(files)
        except OSError as error:  # a store that others own is usable, only slower
            logger.warning("cannot remember that model {} was verified: {}", name, error)

    def _fetch(self, name: str, model: Model, progress: Progress) -> None:
        with suppress(ModelMissing, ModelCorrupt):
            # Another process may have fetched it, or a person copied it here.
            self.verify(name, deep=False, progress=progress)
            return
        partial = self.root / f".partial-{name}"
        for scratch in partial.glob("pip-*"):  # of a process that was killed
            shutil.rmtree(scratch, ignore_errors=True)
        wheels = WheelCache(name=name, directory=partial, offline=self.offline)
        failures: list[ModelError] = []
        for files in model.variants:
            if not (found := self._fetch_set(name, files, wheels, progress)):
                Stamp(self.root / name).write(files)
                shutil.rmtree(partial, ignore_errors=True)
                self._clean(name, model, files)
                return
            failures += found
        with suppress(OSError):  # not there, or with wheels to go on from
            partial.rmdir()
        raise self._summary(name, failures)

    def _fetch_set(
        self, name: str, files: dict[str, ModelFile], wheels: WheelCache, progress: Progress
    ) -> list[ModelError]:
        """Lands what is wanting of one set; returns why the first file that failed did."""
        directory = self.root / name
        wanted = {
            file: spec
            for file, spec in files.items()
            if not _has(directory, file, spec)
            or _hash(directory, file, spec, progress) != spec.sha256
        }
        # Wheels lie here beside the file that is joined from them.
        needed = sum(spec.bytes * (2 if spec.sources[0].pypi else 1) for spec in wanted.values())
        needed = max(0, needed - wheels.bytes)
        if shutil.disk_usage(self.root).free < needed:
            raise self._disk_full(needed)
        try:
            for file, spec in wanted.items():
                if failures := self._fetch_file(name, file, spec, wheels, progress):
                    return failures
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise self._disk_full(needed) from error
            raise
        return []

    def _fetch_file(
        self, name: str, file: str, spec: ModelFile, wheels: WheelCache, progress: Progress
    ) -> list[ModelError]:
        """Lands one file; returns why each source failed, nothing when one did not."""
        failures: list[ModelError] = []
        # Damage on the way is made good from the next source, or by asking the only one again;
        # what lies on this machine stays what it is.
        once = len(spec.sources) > 1 or self.offline
        sources = spec.sources if once else spec.sources * 2
        for source in sources:
            try:
                bring(
                    source,
                    name=name,
                    target=self.root / name / file,
                    file=spec,
                    wheels=wheels,
                    report=lambda done, stage: progress(file, done, spec.bytes, stage),
                    offline=self.offline,
                )
                return []
            except (ModelMissing, ModelCorrupt) as failure:
                failures.append(failure)
                if len(spec.sources) == 1 and isinstance(failure, ModelMissing):
                    break
                if len(failures) < len(sources) and not self.offline:
                    what = "the next source" if once else "once more"
                    logger.warning("{}; trying {}", failure.message, what)
        return failures

    def _clean(self, name: str, model: Model, files: dict[str, ModelFile]) -> None:
        """Removes torn downloads, and files of other variants, which engines might pick up."""
        directory = self.root / name
        for leftover in directory.rglob(".*.part"):
            leftover.unlink(missing_ok=True)
        for variant in model.variants:
            for other in variant.keys() - files.keys():
                (directory / other).unlink(missing_ok=True)

    def _command(self, name: str) -> str:
        return f"run.py models fetch {name}{fetch_options(self.root)}"

    def _summary(self, name: str, failures: list[ModelError]) -> ModelError:
        """One failure for all that was tried: corrupt if anything was."""
        reasons = dict.fromkeys(each.message for each in failures)  # in order, each once
        message = f"model {name} could not be fetched: {'; '.join(reasons)}"
        if any(isinstance(each, ModelCorrupt) for each in failures):
            return ModelCorrupt(message, mend="Name another source; docs/models.md says how.")
        if self.offline:
            mend = (
                f"Copy its files into {self.root / name} (docs/models.md lists them), or run "
                f"`{self._command(name)}` with the network allowed: without --offline and "
                "models.offline."
            )
            return ModelMissing(message, mend=mend)
        mend = next((each.mend for each in failures if each.mend), "")
        return ModelMissing(
            message,
            mend=mend
            or f"Check the network, pip's index and HF_ENDPOINT or MODELSCOPE_ENDPOINT, then run "
            f"`{self._command(name)}`; docs/models.md says more.",
        )

    def _disk_full(self, needed: int) -> ModelError:
        free = shutil.disk_usage(self.root).free
        return ModelError(
            f"no room in {self.root}: {_mb(needed)} needed, {_mb(free)} free",
            mend="Make room, or choose another directory with --models-dir or DUPLEXD_MODELS.",
        )

    def _disk_failure(self, error: OSError) -> ModelError:
        return ModelError(
            f"{error.filename or self.root}: {error.strerror or error}",
            mend="Choose another directory with --models-dir or DUPLEXD_MODELS.",
        )


def _has(directory: Path, file: str, spec: ModelFile) -> bool:
    try:
        return (directory / file).stat().st_size == spec.bytes
    except OSError:
        return False


def _hash(directory: Path, file: str, spec: ModelFile, progress: Progress) -> str:
    return digest(directory / file, lambda done: progress(file, done, spec.bytes, "verifying"))


def _mb(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
