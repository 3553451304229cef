"""Reads the configuration that lies beside a checkpoint, and builds what it describes.

The published files are in hyperpyyaml's dialect, in which a configuration may name any function of
any package and have it called. Here it may only describe modules of CosyVoice itself, and only what
is asked for is built: not the discriminators and the data pipeline of the training.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tts_engine.errors import ModelCorrupt, ModelMissing

#: what a configuration may name: these packages, and these single classes
_PACKAGES = ("cosyvoice.", "matcha.")
_CLASSES = ("omegaconf.DictConfig",)
_REF = re.compile(r"<(\w+)>")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Something of the configuration that is yet to be built.

    Parameters:
        target: dotted name of a class or a function.
        arguments: for it, by name; may hold recipes.
        call: build by calling it; else it is a function with some arguments given.
    """

    target: str
    arguments: Mapping[str, Any]
    call: bool


@dataclass(frozen=True, slots=True)
class _Ref:
    """An expression over top-level keys: one of them, or a product of two."""

    keys: tuple[str, ...]


def read_architecture(path: Path, **overrides: object) -> dict[str, Any]:
    """Reads a configuration; nothing of it is imported or called.

    Args:
        path: a cosyvoice2.yaml or cosyvoice3.yaml.
        overrides: top-level values that replace those of the file.

    Returns:
        Plain values and recipes by top-level key.

    Raises:
        ModelMissing: there is no such file.
        ModelCorrupt: it is not such a configuration.
    """
    try:
        found = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except FileNotFoundError as error:
        raise ModelMissing(f"{path} is not there") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ModelCorrupt(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ModelCorrupt(f"{path} holds no configuration")
    top: dict[str, Any] = found | overrides
    try:
        return {key: _resolved(value, top) for key, value in top.items()}
    except (KeyError, TypeError, RecursionError) as error:
        raise ModelCorrupt(f"{path}: a reference leads nowhere: {error}") from error


def build(part: Any, replaced: Mapping[str, Callable[..., Any]]) -> Any:
    """Builds a recipe and everything in it; anything else is given back as it is.

    Args:
        part: of what `read_architecture` returned.
        replaced: builders that take the place of the named classes.

    Raises:
        ModelCorrupt: it names something that is not there or may not be named, or whose
            constructor takes other arguments.
    """
    if isinstance(part, list):
        return [build(each, replaced) for each in part]
    if isinstance(part, dict):
        return {key: build(value, replaced) for key, value in part.items()}
    if not isinstance(part, Recipe):
        return part
    target = replaced.get(part.target) or _named(part.target)
    arguments = {key: build(value, replaced) for key, value in part.arguments.items()}
    if not part.call:
        return functools.partial(target, **arguments)
    try:
        return target(**arguments)
    except TypeError as error:
        raise ModelCorrupt(f"the configuration does not fit {part.target}: {error}") from error


def _named(target: str) -> Callable[..., Any]:
    module, _, name = target.rpartition(".")
    if not target.startswith(_PACKAGES) and target not in _CLASSES:
        raise ModelCorrupt(f"the configuration names {target}, which is no part of CosyVoice")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ModelCorrupt(
            f"the configuration names {target}, which these modules do not have",
            mend="Newer models need a git checkout of CosyVoice; name it with tts.cosyvoice.home.",
        ) from error


def _resolved(value: Any, top: dict[str, Any]) -> Any:
    if isinstance(value, _Ref):
        parts = [_resolved(top[key], top) for key in value.keys]
        return functools.reduce(lambda left, right: left * right, parts)
    if isinstance(value, Recipe):
        arguments = {key: _resolved(each, top) for key, each in value.arguments.items()}
        return Recipe(value.target, arguments, value.call)
    if isinstance(value, dict):
        return {key: _resolved(each, top) for key, each in value.items()}
    if isinstance(value, list):
        return [_resolved(each, top) for each in value]
    return value


class _Loader(yaml.SafeLoader):
    """YAML with hyperpyyaml's tags as data."""


def _ref(loader: yaml.SafeLoader, node: yaml.Node) -> _Ref:
    assert isinstance(node, yaml.ScalarNode)
    text = str(loader.construct_scalar(node))
    keys = tuple(_REF.findall(text))
    if not keys or _REF.sub("", text).replace("*", "").strip():
        raise yaml.YAMLError(f"reference {text!r} is not understood")
    return _Ref(keys)


def _recipe(call: bool) -> Callable[[yaml.SafeLoader, str, yaml.Node], Recipe]:
    def construct(loader: yaml.SafeLoader, target: str, node: yaml.Node) -> Recipe:
        mapping = isinstance(node, yaml.MappingNode)
        arguments = loader.construct_mapping(node, deep=True) if mapping else {}
        return Recipe(target, {str(key): value for key, value in arguments.items()}, call)

    return construct


def _ignored(loader: yaml.SafeLoader, target: str, node: yaml.Node) -> None:
    """Calls while reading, such as setting seeds, are not made."""


# As YAML 1.2 has it: without this, 1e-06 would be a string.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)
_Loader.add_constructor("!ref", _ref)
_Loader.add_multi_constructor("!new:", _recipe(call=True))
_Loader.add_multi_constructor("!name:", _recipe(call=False))
_Loader.add_multi_constructor("!apply:", _ignored)
