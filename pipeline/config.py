"""Loads the configuration: defaults, then a file, then the environment, then the command line.

Later layers go before earlier ones, key by key; lists are replaced as a whole. A section that is
left empty in a file keeps its defaults. Paths are relative to the file that names them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipeline.config_file import KeyPath, parse_yaml, read_config_file
from pipeline.config_problems import (
    Origin,
    Origins,
    Problem,
    config_error,
    dotted,
    problems_of,
)
from pipeline.config_schema import Config
from pipeline.config_section import CONFIGS
from tts_engine.errors import ConfigError

#: the layer below every other
DEFAULT_FILE = CONFIGS / "default.yaml"

#: variables of the environment and the keys that they set
ENVIRONMENT: Mapping[str, KeyPath] = {
    "OPENAI_BASE_URL": ("llm", "base_url"),
    "OPENAI_API_KEY": ("llm", "api_key"),
    "OPENAI_MODEL": ("llm", "model"),
    "COSYVOICE_HOME": ("tts", "cosyvoice", "home"),
    "DUPLEXD_MODELS": ("models", "dir"),
}

_PROMPTS: tuple[KeyPath, ...] = (("prompts", "zh"), ("prompts", "en"))
_PATHS: tuple[KeyPath, ...] = (
    *_PROMPTS,
    ("models", "dir"),
    ("server", "keys_file"),
    ("speech", "reference_dir"),
    ("speech", "blocked_words"),
    ("tts", "cosyvoice", "model_dir"),
    ("tts", "cosyvoice", "home"),
    ("tts", "cosyvoice", "voices_dir"),
    ("tts", "cosyvoice", "engines_dir"),
    ("turns", "record_dir"),
    ("xiaozhi", "devices_file"),
    ("xiaozhi", "firmware_dir"),
)


#: what is a path if there is a / in it, else a name
_PATHS_OR_NAMES: tuple[KeyPath, ...] = (
    ("asr", "funasr", "streaming_model"),
    ("asr", "funasr", "offline_model"),
    ("asr", "funasr", "punctuation_model"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """Settings from one place; relative paths in it start at `base`."""

    source: str
    data: dict[str, Any]
    base: Path
    lines: dict[KeyPath, int] = field(default_factory=dict[KeyPath, int])

    def origin(self, path: KeyPath) -> Origin:
        return Origin(self.source, self.lines.get(path))


def load_config(
    path: Path | None,
    overrides: Sequence[str] = (),
    *,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Loads and checks the configuration.

    Args:
        path: a file whose keys go before those of configs/default.yaml, or None.
        overrides: `a.b=value` each, the value in YAML; they go before everything else.
        environ: the environment; None is the process's own.

    Raises:
        ConfigError: names every wrong key, with its file and line, and the nearest known key.
    """
    merged: dict[str, Any] = {}
    origins = Origins()
    for layer in _layers(path, overrides, os.environ if environ is None else environ):
        _absolute_paths(layer)
        _merge(merged, layer.data, (), layer, origins)
    problems: list[Problem] = []
    config: Config | None = None
    try:
        config = Config.model_validate(merged)
    except ValidationError as error:
        problems = problems_of(error, model=Config, data=merged, origins=origins)
    problems += _missing_prompts(merged, origins)
    if config is None or problems:
        raise config_error(problems)
    return config


def _layers(
    path: Path | None, overrides: Sequence[str], environ: Mapping[str, str]
) -> list[_Layer]:
    layers = [_file_layer(DEFAULT_FILE)]
    if path is not None:
        layers.append(_file_layer(path))
    for name, key in ENVIRONMENT.items():
        if environ.get(name):
            layers.append(_key_layer(name, key, environ[name]))
    for text in overrides:
        name, equals, value = text.partition("=")
        keys = name.strip().split(".")
        if not equals or not all(keys):
            raise ConfigError(
                f'--set {name}: expected the form "section.key=value"',
                mend="For example --set server.port=8081.",
            )
        source = f"--set {name.strip()}"
        layers.append(_key_layer("--set", tuple(keys), parse_yaml(value, source=source)))
    return layers


def _file_layer(path: Path) -> _Layer:
    file = read_config_file(path)
    return _Layer(source=file.source, data=file.data, base=path.absolute().parent, lines=file.lines)


def _key_layer(source: str, key: KeyPath, value: object) -> _Layer:
    data: Any = value
    for part in reversed(key):
        data = {part: data}
    return _Layer(source=source, data=data, base=Path.cwd())


def _absolute_paths(layer: _Layer) -> None:
    for path in (*_PATHS, *_PATHS_OR_NAMES):
        *sections, key = path
        values: Any = layer.data
        for section in sections:
            values = values.get(section) if isinstance(values, dict) else None
        value = values.get(key) if isinstance(values, dict) else None
        if isinstance(value, str) and (path in _PATHS or "/" in value):
            values[key] = str(layer.base / os.path.expanduser(value))


def _merge(
    into: dict[str, Any], data: dict[str, Any], path: KeyPath, layer: _Layer, origins: Origins
) -> None:
    for key, value in data.items():
        here = (*path, key)
        current = into.get(key)
        if isinstance(current, dict) and value is None and layer.lines:
            continue  # a section whose lines are all commented out
        origins.set(here, layer.origin(here))
        if isinstance(current, dict) and isinstance(value, dict):
            _merge(current, value, here, layer, origins)
        else:
            into[key] = value
            for inner in layer.lines:
                if inner[: len(here)] == here:
                    origins.set(inner, layer.origin(inner))


def _missing_prompts(merged: dict[str, Any], origins: Origins) -> list[Problem]:
    problems: list[Problem] = []
    for path in _PROMPTS:
        section, key = path
        values = merged.get(str(section))
        value = values.get(key) if isinstance(values, dict) else None
        if isinstance(value, str) and not Path(value).is_file():
            problems.append(Problem(origins.of(path), f"{dotted(path)}: there is no file {value}"))
    return problems
