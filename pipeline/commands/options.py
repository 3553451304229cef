"""Options that every command with a configuration takes, and the configuration they make.

    @app.command()
    def serve(
        config: ConfigFile = None,
        sets: Sets = None,
        asr: AsrName = None,
        llm: LlmName = None,
        tts: TtsName = None,
        engines: Engines = None,
    ) -> None:
        settings = configured(config, sets, asr=asr, llm=llm, tts=tts, engines=engines)

Nothing heavy is imported here: the parsing of a command line must not wait for it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pipeline.config import Config

_PANEL = "Configuration"

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="A YAML file; its keys go before those of configs/default.yaml.",
        rich_help_panel=_PANEL,
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Sets one key; repeatable.", rich_help_panel=_PANEL
    ),
]
AsrName = Annotated[
    str | None,
    typer.Option(
        "--asr", metavar="NAME", help="Same as --set asr.provider=NAME.", rich_help_panel=_PANEL
    ),
]
LlmName = Annotated[
    str | None,
    typer.Option(
        "--llm", metavar="NAME", help="Same as --set llm.provider=NAME.", rich_help_panel=_PANEL
    ),
]
TtsName = Annotated[
    str | None,
    typer.Option(
        "--tts", metavar="NAME", help="Same as --set tts.provider=NAME.", rich_help_panel=_PANEL
    ),
]
Engines = Annotated[
    str | None,
    typer.Option(
        "--engines",
        metavar="scripted:SPEC",
        help="Fake engines with set delays in place of those that SPEC names, as in "
        "scripted:asr=60,llm=150@50,tts=150.",
        rich_help_panel=_PANEL,
    ),
]
Host = Annotated[
    str | None,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="Same as --set server.host=ADDRESS; 0.0.0.0 lets other devices in, with a key.",
    ),
]
Port = Annotated[
    int | None,
    typer.Option("--port", metavar="PORT", help="Same as --set server.port=PORT."),
]
TlsName = Annotated[
    str | None,
    typer.Option(
        "--tls",
        metavar="auto|CERT,KEY|off",
        help="Same as --set server.tls=...; auto makes a certificate for this machine.",
    ),
]


def listening(*, host: str | None, port: int | None, tls: str | None) -> list[str]:
    """The options of `serve` as `server.key=value`."""
    given = {"host": host, "port": port, "tls": tls}
    return [
        f"server.{key}={json.dumps(value)}" for key, value in given.items() if value is not None
    ]


def overrides(
    sets: Sequence[str] | None = None,
    *,
    asr: str | None = None,
    llm: str | None = None,
    tts: str | None = None,
    engines: str | None = None,
) -> list[str]:
    """The options as `section.key=value`; --set comes last, so that it goes before the short ones.

    Raises:
        ConfigError: `engines` is not of the form scripted:SPEC.
    """
    result: list[str] = []
    if engines is not None:
        result += _scripted(engines)
    for part, provider in (("asr", asr), ("llm", llm), ("tts", tts)):
        if provider is not None:
            result.append(f"{part}.provider={provider}")
    return [*result, *(sets or ())]


def serve_options(config: Path | None, keys: Sequence[str]) -> list[str]:
    """A configuration as options of `serve`.

    Args:
        config: the user's file.
        keys: see `overrides`.
    """
    options = ["--config", str(config)] if config else []
    for each in keys:
        options += ["--set", each]
    return options


def configured(
    config: Path | None = None,
    sets: Sequence[str] | None = None,
    *,
    asr: str | None = None,
    llm: str | None = None,
    tts: str | None = None,
    engines: str | None = None,
) -> Config:
    """The configuration that the options ask for.

    Raises:
        ConfigError: the file or a value is wrong.
    """
    from pipeline.config import load_config

    return load_config(config, overrides(sets, asr=asr, llm=llm, tts=tts, engines=engines))


def _scripted(engines: str) -> list[str]:
    from services.scripted.spec import PREFIX, parse_spec

    named = asdict(parse_spec(engines))
    parts = [part for part, spec in named.items() if spec is not None]
    result = [
        f'scripted.spec="{engines.removeprefix(PREFIX)}"',
        *(f"{part}.provider=scripted" for part in parts),
    ]
    if "asr" in parts:  # a scripted recogniser hears test tones too, a neural detector does not
        result.append("vad.provider=energy")
    return result
