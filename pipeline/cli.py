"""The command line: `run.py COMMAND`.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 130 interrupted by Ctrl-C (under make
0). Modules of commands are imported when their command runs, so that `--help` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from pipeline.commands.failures import complain
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
from pipeline.commands.plain_help import PlainCommand, PlainGroup
from tts_engine.errors import BadRequest, ConfigError, DuplexdError

#: set to anything, failures show their traceback; `--debug` sets it, for child processes too
DEBUG = "DUPLEXD_DEBUG"
#: set by our Makefile, which would report the 130 of a Ctrl-C as an error
UNDER_MAKE = "DUPLEXD_UNDER_MAKE"
_INTERRUPTED = 130

#: commands that live in modules of their own, each with a typer `app`, and their line in --help
MODULES: dict[str, tuple[str, str]] = {
    "tts": ("pipeline.commands.tts", "Serve speech alone: texts in, audio out."),
    "talk": ("pipeline.commands.talk", "Talk to a running daemon from the terminal."),
    "transcribe": ("pipeline.commands.transcribe", "Write down what recordings say."),
    "replay": ("pipeline.commands.replay", "Show what was decided in a recorded conversation."),
    "bench": ("pipeline.commands.bench", "Measure latency, barge-in, sessions and engines."),
    "models": ("pipeline.commands.models", "List, fetch and verify model files."),
    "voices": ("pipeline.commands.voices", "Clone, list and remove voices; say something."),
    "keys": ("pipeline.commands.keys", "Make, list and revoke API keys of the daemon."),
    "devices": ("pipeline.commands.devices", "Let Xiaozhi devices in, list and revoke them."),
    "doctor": ("pipeline.commands.doctor", "Check this machine, the models and the servers."),
    "config": ("pipeline.commands.config", "Show the configuration in force."),
}


class LazyGroup(PlainGroup):
    """Puts a module's command in its place when it is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Imports the module of the command that is called, and no other."""
        if args and args[0] in MODULES:
            name = args[0]
            command = typer.main.get_command(import_module(MODULES[name][0]).app)
            command.name = name
            self.commands[name] = command
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="duplexd",
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from pipeline.version import version

        typer.echo(f"duplexd {version()}")
        raise typer.Exit


@app.callback(epilog="Example: run.py talk --say 'What is the capital of France?' --out talk.wav")
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help=f"Show tracebacks of failures, as {DEBUG}=1 does.")
    ] = False,
) -> None:
    """A full-duplex voice daemon: it listens while it speaks."""
    if debug:
        os.environ[DEBUG] = "1"


@app.command(cls=PlainCommand, epilog="Example: run.py serve --host 0.0.0.0 --tls auto")
def serve(
    host: Host = None,
    port: Port = None,
    tls: TlsName = None,
    config: ConfigFile = None,
    sets: Sets = None,
    asr: AsrName = None,
    llm: LlmName = None,
    tts: TtsName = None,
    engines: Engines = None,
) -> None:
    """Run the daemon until Ctrl-C; fetches the models that are missing."""
    sets = [*listening(host=host, port=port, tls=tls), *(sets or ())]
    settings = configured(config, sets, asr=asr, llm=llm, tts=tts, engines=engines)
    from pipeline.commands import serve as command

    command.run(settings)


def _placeholder() -> None:  # LazyGroup replaces it before it could run
    raise AssertionError("a command module was not loaded")


for _name, (_, _help) in MODULES.items():
    app.command(_name, help=_help)(_placeholder)


def main(args: Sequence[str] | None = None) -> None:
    """Runs the command line and exits.

    Args:
        args: without the program's name; None is the process's own.
    """
    try:
        typer.main.get_command(app).main(args, prog_name="run.py")
    except DuplexdError as error:
        if os.environ.get(DEBUG):
            raise
        complain(error)
        sys.exit(2 if isinstance(error, ConfigError | BadRequest) else 1)
    except SystemExit as end:
        if end.code == _INTERRUPTED and os.environ.get(UNDER_MAKE):
            sys.exit(0)
        raise
