"""Reads a configuration file and remembers on which line each key stands.

The dialect is YAML 1.2's core schema, without anchors, tags and second documents: `on`, `no` and
`12:30` are strings, as people who write settings expect. Everything wrong with a file is a
`ConfigError` that names the file and the line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml.events import AliasEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tts_engine.errors import ConfigError

#: the way to a value: keys, and indices of list items
KeyPath = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
#: YAML 1.2 core schema, in the order in which the forms are tried
_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("null", re.compile(r"^(?:~|null|Null|NULL|)$")),
    ("bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")),
    ("int", re.compile(r"^(?:[-+]?[0-9]+|0x[0-9a-fA-F]+)$")),
    (
        "float",
        re.compile(
            r"^[-+]?(?:(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
            r"|\.(?:inf|Inf|INF))$|^\.(?:nan|NaN|NAN)$"
        ),
    ),
)


class _Loader(yaml.SafeLoader):
    """Composes nodes only; scalars are resolved here, by the core schema."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - PyYAML's own class attribute

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        # An alias may contain itself or unfold without bound, and settings do not need it.
        if self.check_event(AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.MarkedYAMLError(problem="aliases are not supported", problem_mark=mark)
        return super().compose_node(parent, index)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """A parsed file.

    Parameters:
        source: how messages name the file.
        data: its mapping; values are str, int, float, bool, None, lists and mappings of these.
        lines: line (from 1) of every key and list item.
    """

    source: str
    data: dict[str, Any]
    lines: dict[KeyPath, int] = field(default_factory=dict[KeyPath, int])


def read_config_file(path: Path) -> ConfigFile:
    """Reads a YAML file whose root is a mapping; an empty file is an empty mapping.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or holds a key twice.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            f"configuration file {path} does not exist", mend="Name a file that exists."
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: not UTF-8 text (byte {error.start})", mend="Save the file as UTF-8."
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"configuration file {path} cannot be read: {reason}") from None
    lines: dict[KeyPath, int] = {}
    data = parse_yaml(text, source=str(path), lines=lines)
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigError(
            f"{path}:1: a configuration file is a mapping of sections; found {kind_of(data)}",
            mend="Write `section:` with `key: value` lines below it.",
        )
    return ConfigFile(source=str(path), data=data, lines=lines)


def parse_yaml(text: str, *, source: str, lines: dict[KeyPath, int] | None = None) -> Any:
    """Parses one YAML document.

    Args:
        text: the document.
        source: what messages name.
        lines: filled with the line of every key and list item.

    Raises:
        ConfigError: not YAML, a key twice, or a feature that settings do not need.
    """
    found = {} if lines is None else lines
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
            return None if root is None else _value(root, (), source, found)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError(f"{source}:{line}: not valid YAML: {reason}") from None
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{source}: not valid YAML: {reason}") from None
    except RecursionError:
        raise ConfigError(f"{source}: nested too deeply") from None


def kind_of(value: object) -> str:
    """What a parsed value is, in words for messages; never the value itself."""
    if value is None:
        return "nothing"
    names = {bool: "true or false", int: "a number", float: "a number", str: "text"}
    return names.get(type(value)) or ("a list" if isinstance(value, list) else "a section")


def _value(node: Node, path: KeyPath, source: str, lines: dict[KeyPath, int]) -> Any:
    line = node.start_mark.line + 1
    if isinstance(node, MappingNode) and node.tag == f"{_TAG}map":
        return _mapping(node, path, source, lines)
    if isinstance(node, SequenceNode) and node.tag == f"{_TAG}seq":
        items: list[Any] = []
        for index, item in enumerate(node.value):
            lines[(*path, index)] = item.start_mark.line + 1
            items.append(_value(item, (*path, index), source, lines))
        return items
    if isinstance(node, ScalarNode) and node.tag == f"{_TAG}str":
        return _scalar(node, f"{source}:{line}")
    raise ConfigError(f"{source}:{line}: the tag {node.tag.replace(_TAG, '!!')} is not supported")


def _mapping(
    node: MappingNode, path: KeyPath, source: str, lines: dict[KeyPath, int]
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, ScalarNode):
            raise ConfigError(f"{source}:{line}: a key must be text")
        key = _text(key_node, f"{source}:{line}")
        here = (*path, key)
        if key in result:
            dotted = ".".join(map(str, here))
            raise ConfigError(
                f'{source}:{line}: key "{dotted}" stands here twice (first on line {lines[here]})',
                mend="Remove one of them.",
            )
        lines[here] = line
        result[key] = _value(value_node, here, source, lines)
    return result


def _scalar(node: ScalarNode, where: str) -> str | int | float | bool | None:
    text = _text(node, where)
    if node.style is not None:  # quoted or block: text, whatever it looks like
        return text
    form = next((name for name, pattern in _FORMS if pattern.match(text)), "str")
    try:
        match form:
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int":
                return int(text, 16) if text.startswith("0x") else int(text)
            case "float":
                return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
            case _:
                return text
    except ValueError:  # Python refuses to read integers of thousands of digits
        raise ConfigError(f"{where}: a number of {len(text)} digits") from None


def _text(node: ScalarNode, where: str) -> str:
    text: str = node.value
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        # From an escape like "\\ud800"; no log, terminal or socket could take it later.
        raise ConfigError(f"{where}: text with half a character (a lone surrogate)")
    return text
