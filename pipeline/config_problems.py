"""Turns validation errors into lines that people can act on.

my.yaml:7: vad.treshold: unknown key; did you mean vad.threshold?
my.yaml:9: server.port: must be at most 65535; found 70000
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, cast, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pipeline.config_file import KeyPath, kind_of
from tts_engine.errors import ConfigError

#: pydantic's error types in our words; `{...}` are taken from the error's context
_WORDS = {
    "literal_error": "must be {expected}",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "path_type": "must be the path of a file or folder",
    "tuple_type": "must be a list, like [a, b]",
    "model_type": "must be a section with keys of its own",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must not be empty",
    "too_short": "needs at least {min_length} item",
    "string_pattern_mismatch": "must match {pattern}",
    "value_error": "{error}",
}
#: keys whose errors have a mend of their own
_MENDS = {"llm.base_url": "Write it as http://host:port/v1."}
#: errors after which what was found says nothing, or might be a secret
_SILENT = {"extra_forbidden", "missing", "value_error", "string_too_short", "too_short"}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was set: a file and line, an option, a variable of the environment."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


class Origins:
    """Remembers where every value of the merged configuration was set last."""

    def __init__(self) -> None:
        self._origins: dict[KeyPath, Origin] = {}

    def set(self, path: KeyPath, origin: Origin) -> None:
        """Records where the value at `path` comes from."""
        self._origins[path] = origin

    def of(self, path: KeyPath) -> Origin:
        """Where `path` was set, or else the nearest section around it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._origins:
                return self._origins[path[:length]]
        return Origin("configuration")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and where it stands."""

    origin: Origin
    text: str
    mend: str = "docs/configuration.md lists every key."

    def __str__(self) -> str:
        return f"{self.origin}: {self.text}"


def config_error(problems: Sequence[Problem]) -> ConfigError:
    """One error for all that is wrong, in the order of the lines."""
    mend = " ".join(dict.fromkeys(problem.mend for problem in problems))
    if len(problems) == 1:
        return ConfigError(str(problems[0]), mend=mend)
    ordered = sorted(problems, key=lambda problem: problem.origin.line or 0)
    listed = "\n".join(f"  {problem}" for problem in ordered)
    return ConfigError(f"{len(problems)} problems in the configuration:\n{listed}", mend=mend)


def problems_of(
    error: ValidationError, *, model: type[BaseModel], data: Mapping[str, Any], origins: Origins
) -> list[Problem]:
    """One problem for each wrong value.

    Args:
        error: what validating `data` raised.
        model: what `data` was validated against.
        data: the merged configuration.
        origins: where its values were set.
    """
    words: dict[KeyPath, list[str]] = {}
    silent: set[KeyPath] = set()
    for item in error.errors(include_url=False):
        # A union puts the name of each alternative into the location: they are no keys.
        path = _existing(data, item["loc"])
        words.setdefault(path, []).append(_word(item, path, model))
        if item["type"] in _SILENT:
            silent.add(path)
    problems: list[Problem] = []
    for path, said in words.items():
        text = " or ".join([said[0], *(word.removeprefix("must be ") for word in said[1:])])
        found = "" if path in silent else f"; found {_shown(data, path)}"
        key = dotted(path)
        problem = Problem(origins.of(path), f"{key}: {text}{found}")
        problems.append(replace(problem, mend=_MENDS[key]) if key in _MENDS else problem)
    return problems


def dotted(path: KeyPath) -> str:
    """`("asr", "languages", 0)` as people write it: `asr.languages[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def leaf_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every dotted key of a model that holds a value and not a section."""
    for name, field in model.model_fields.items():
        inner = section_of(field.annotation)
        if inner is None:
            yield f"{prefix}{name}"
        else:
            yield from leaf_keys(inner, f"{prefix}{name}.")


def section_of(annotation: object) -> type[BaseModel] | None:
    """The model that a field holds, or None for a plain value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return None


def _below(annotation: object) -> type[BaseModel] | None:
    """The model whose keys come next: of a field, of one that may be null, of a list's items."""
    inner = section_of(annotation)
    return inner or next((each for part in get_args(annotation) if (each := _below(part))), None)


def _existing(data: object, loc: tuple[str | int, ...]) -> KeyPath:
    """The part of an error's location that leads through the data."""
    path: list[str | int] = []
    for part in loc:
        if isinstance(data, dict) and part in data:
            data = cast(dict[Any, Any], data)[part]
        elif isinstance(data, list | tuple) and isinstance(part, int):
            data = data[part]
        else:
            break
        path.append(part)
    return tuple(path)


def _word(item: ErrorDetails, path: KeyPath, model: type[BaseModel]) -> str:
    kind = item["type"]
    if kind == "extra_forbidden":
        return f"unknown key; {_nearest(path, model)}"
    if kind == "missing":
        return f"'{item['loc'][-1]}' is missing"
    if kind in _WORDS:
        context = item.get("ctx", {})
        plain = {
            name: f"{value:g}" if isinstance(value, float) else value
            for name, value in context.items()
        }
        return _WORDS[kind].format(**plain)
    return item["msg"]


def _nearest(path: KeyPath, model: type[BaseModel]) -> str:
    """Which key was probably meant."""
    key = str(path[-1])
    section: type[BaseModel] = model
    for parent in path[:-1]:
        if isinstance(parent, str):
            section = _below(section.model_fields[parent].annotation) or section
    siblings = [*section.model_fields]
    if close := get_close_matches(key, siblings, 1):
        return f"did you mean {dotted((*path[:-1], close[0]))}?"
    elsewhere = {name.rpartition(".")[2]: name for name in leaf_keys(model)}
    if close := get_close_matches(key, elsewhere, 1, 0.75):
        return f"did you mean {elsewhere[close[0]]}?"
    return f"known here: {', '.join(siblings)}"


def _shown(data: object, path: KeyPath) -> str:
    """The value at `path` for a message: short, and never a secret."""
    for part in path:
        data = cast(Any, data)[part]
    if "api_key" in path or isinstance(data, dict | list) or data is None:
        return kind_of(data)
    text = json.dumps(data, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
