"""`run.py config`: the configuration in force, and its reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.commands.options import (
    AsrName,
    ConfigFile,
    Engines,
    LlmName,
    Sets,
    TtsName,
    configured,
)
from pipeline.commands.plain_help import PlainCommand, PlainGroup

if TYPE_CHECKING:
    from pipeline.config import Config

app = typer.Typer(
    cls=PlainGroup,
    add_completion=False,
    no_args_is_help=True,
    help="Show the configuration in force.",
    epilog="Example: run.py config show --config my.yaml",
)


@app.command(
    cls=PlainCommand, epilog="Example: run.py config show --config my.yaml --set tts.speed=1.1"
)
def show(
    config: ConfigFile = None,
    sets: Sets = None,
    asr: AsrName = None,
    llm: LlmName = None,
    tts: TtsName = None,
    engines: Engines = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Show every key with the value in force; secrets are masked."""
    values = shown(configured(config, sets, asr=asr, llm=llm, tts=tts, engines=engines))
    if as_json:
        typer.echo(json.dumps(values, ensure_ascii=False, indent=2))
    else:
        import yaml

        typer.echo(yaml.safe_dump(values, allow_unicode=True, sort_keys=False), nl=False)


@app.command(cls=PlainCommand, epilog="Example: run.py config docs --output docs/configuration.md")
def docs(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write it.")
    ] = Path("docs/configuration.md"),
) -> None:
    """Write the reference of all keys."""
    from pipeline.commands.config_docs import reference
    from tts_engine.errors import DuplexdError

    try:
        output.write_text(reference(), encoding="utf-8")
    except OSError as error:
        raise DuplexdError(f"{output} cannot be written: {error.strerror}") from error


def shown(config: Config) -> dict[str, Any]:
    """A configuration as plain data, without its secrets."""
    values: dict[str, Any] = config.model_dump(mode="json")
    values["llm"]["base_url"] = config.llm.shown_url
    return values
