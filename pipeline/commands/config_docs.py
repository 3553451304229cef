"""Writes docs/configuration.md from the models of the configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from pipeline.access import KEY_VARIABLE
from pipeline.config import CONFIGS, ENVIRONMENT, Config
from pipeline.config_problems import dotted, section_of

_HEAD = """\
# Configuration

<!-- Written by `make docs` from pipeline/config_schema.py; do not edit. -->

Every key has a default. A file of your own, given by `--config my.yaml`, holds only what differs:

```yaml
tts:
  speed: 1.1
```

`--set tts.speed=1.1` sets one key on the command line. What comes later goes before what comes
earlier: configs/default.yaml, your file, the environment, the short options (`--asr`, `--llm`,
`--tts`, `--engines`), `--set`. Lists are replaced as a whole. An unknown key or a wrong value stops
the start with the file, the line and the nearest key. `run.py config show` prints the values in
force, without secrets.
"""


def reference() -> str:
    """The whole page."""
    lines = [_HEAD, "Variables of the environment:\n", "| variable | key |", "|---|---|"]
    lines += [f"| `{name}` | `{dotted(key)}` |" for name, key in ENVIRONMENT.items()]
    lines.append(f"| `{KEY_VARIABLE}` | none: a key of the daemon, see [security](security.md) |")
    for name, field in Config.model_fields.items():
        section = section_of(field.annotation)
        assert section is not None  # every field of Config is a section
        lines += ["", f"## {name}", "", _first_line(section), ""]
        lines += ["| key | value | default | |", "|---|---|---|---|"]
        lines += _rows(section, f"{name}.")
    return "\n".join(lines) + "\n"


def _rows(section: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in section.model_fields.items():
        inner = section_of(field.annotation)
        many = _named_sections(field.annotation)
        if many is not None:
            yield f"| `{prefix}{name}` | sections by name | `{{}}` | {field.description} |"
            yield from _rows(many, f"{prefix}{name}.NAME.")
        elif inner is None:
            cells = (f"`{prefix}{name}`", _kind(field), _default(field), field.description or "")
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
        elif {*inner.model_fields} == {"zh", "en"}:
            yield from _sentence_rows(f"{prefix}{name}", field)
        else:
            yield from _rows(inner, f"{prefix}{name}.")


def _sentence_rows(key: str, field: FieldInfo) -> Iterator[str]:
    for language, text in field.get_default().model_dump().items():
        yield f"| `{key}.{language}` | text | {text} | {field.description} |"


def _named_sections(kind: Any) -> type[BaseModel] | None:
    """The section that a name stands for, where a key holds several by name."""
    args = get_args(kind)
    named = get_origin(kind) is dict and isinstance(args[1], type)
    return args[1] if named and issubclass(args[1], BaseModel) else None


def _first_line(section: type[BaseModel]) -> str:
    return (section.__doc__ or "").strip().splitlines()[0]


def _kind(field: FieldInfo) -> str:
    text = _type_words(field.annotation)
    limits = _limits(field.metadata)
    return f"{text}, {limits}" if limits else text


def _type_words(kind: Any) -> str:
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        limits = _limits(kind.__metadata__)
        return _type_words(args[0]) + (f", {limits}" if limits else "")
    if origin is Literal:
        return ", ".join(f"`{choice}`" for choice in args)
    if origin in (Union, UnionType):
        return " or ".join(_type_words(each) for each in args)
    if origin is tuple:
        return f"list of {_type_words(args[0])}"
    if origin is dict:
        return f"{_type_words(args[1])} by name"
    words = {
        bool: "true, false",
        int: "whole number",
        float: "number",
        str: "text",
        SecretStr: "text",
        Path: "path",
        type(None): "null",
    }
    return words.get(kind) or f"{kind.__name__.lower()}s"


def _limits(metadata: Any) -> str:
    """Bounds in words; pydantic keeps those of `Field` one by one or in one object."""
    low = high = ""
    for item in metadata:
        inner = _limits(getattr(item, "metadata", ()))
        if inner:
            return inner
        match item:
            case Ge(ge=bound):
                low = f"from {bound}"
            case Gt(gt=bound):
                low = f"above {bound}"
            case Le(le=bound):
                high = f"to {bound}"
            case Lt(lt=bound):
                high = f"below {bound}"
            case _:
                pass
    return " ".join(filter(None, (low, high)))


def _default(field: FieldInfo) -> str:
    value: Any = field.get_default(call_default_factory=True)
    if isinstance(value, Path):
        return f"`{value.relative_to(CONFIGS)}`"
    shown = value if isinstance(value, tuple) else (value,)
    if any(isinstance(each, BaseModel) for each in shown):
        return "see configs/default.yaml"
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{value if isinstance(value, str) and value else json.dumps(value)}`"
