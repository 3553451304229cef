"""`run.py doctor`: what works on this machine, what does not, and what mends it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.commands.options import (
    AsrName,
    ConfigFile,
    Engines,
    Host,
    LlmName,
    Port,
    Sets,
    TlsName,
    TtsName,
    configured,
    listening,
)
from pipeline.commands.plain_help import PlainCommand

if TYPE_CHECKING:
    from pipeline.config import Config
    from pipeline.doctor_types import Check, Facts

app = typer.Typer(add_completion=False)

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red", "skip": "dim"}


@app.command(cls=PlainCommand, epilog="Example: run.py doctor --host 0.0.0.0 --tls auto")
def doctor(
    host: Host = None,
    port: Port = None,
    tls: TlsName = None,
    config: ConfigFile = None,
    sets: Sets = None,
    asr: AsrName = None,
    llm: LlmName = None,
    tts: TtsName = None,
    engines: Engines = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Check this machine, the models and the servers; exit code 1 if something fails.

    Give it the options of `serve`, and it checks what would be served.
    """
    sets = [*listening(host=host, port=port, tls=tls), *(sets or ())]
    checks = examine(
        lambda: configured(config, sets, asr=asr, llm=llm, tts=tts, engines=engines), file=config
    )
    failed = any(check.status == "fail" for check in checks)
    if as_json:
        report = {"ok": not failed, "checks": [asdict(check) for check in checks]}
        typer.echo(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        _show(checks)
    if failed:
        raise typer.Exit(1)


def examine(
    load: Callable[[], Config],
    *,
    file: Path | None = None,
    gather: Callable[[Config], Facts] | None = None,
) -> list[Check]:
    """Loads the configuration and judges the machine by it; only the machine if it is wrong.

    Args:
        load: gives the configuration, or raises ConfigError.
        file: the file that it comes from, to be named.
        gather: finds the facts; None looks at this machine.
    """
    from pipeline.config_schema import Config
    from pipeline.doctor_checks import judge, judge_machine
    from pipeline.doctor_types import Check
    from tts_engine.errors import ConfigError

    if gather is None:
        from pipeline.doctor_facts import gather
    try:
        config = load()
        first = Check(name="config", status="ok", detail=str(file or "configs/default.yaml"))
    except ConfigError as error:
        first = Check(name="config", status="fail", detail=error.message, fix=error.mend)
        return [first, *judge_machine(gather(Config()))]
    return [first, *judge(config, gather(config))]


def _show(checks: list[Check]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    width = max(len(check.name) for check in checks)
    for check in checks:
        status = (f"{check.status:<5}", _STYLES[check.status])
        console.print(Text.assemble(status, f"{check.name:<{width}}  {check.detail}"))
        if check.fix:
            console.print(Text.assemble(" " * (7 + width), ("fix: ", "bold"), check.fix))
