"""`run.py tts`: the TTS service.

Exit codes: 0 ended, 1 the port is taken or the engine cannot be started, 2 wrong usage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from loguru import logger

from pipeline.commands.options import (
    ConfigFile,
    Engines,
    Host,
    Port,
    Sets,
    TlsName,
    TtsName,
    configured,
    listening,
)
from pipeline.commands.plain_help import PlainCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pipeline.commands.serve import Made
    from pipeline.config import Config

app = typer.Typer(add_completion=False)


@app.command(cls=PlainCommand, epilog="Example: run.py tts --port 8090")
def tts(
    host: Host = None,
    port: Port = None,
    tls: TlsName = None,
    config: ConfigFile = None,
    sets: Sets = None,
    tts: TtsName = None,
    engines: Engines = None,
) -> None:
    """Serve speech alone until Ctrl-C: texts in, audio out, over HTTP and WebSocket.

    POST /tts, WS /ws/tts, GET /list-voice, POST /register-voice, DELETE /voices/ID, and OpenAI's
    POST /v1/audio/speech; see docs/tts.md. Keys, TLS and limits are those of `serve`.
    """
    sets = [*listening(host=host, port=port, tls=tls), *(sets or ())]
    run(configured(config, sets, tts=tts, engines=engines))


def run(config: Config) -> None:
    """Fetches the voice's model where it is missing, serves until Ctrl-C or SIGTERM.

    Raises:
        DuplexdError: see `pipeline.commands.serve.host`.
    """
    from pipeline.commands.serve import host
    from pipeline.commands.weights import fetch_missing
    from pipeline.needs import needed_voice

    def fetch() -> None:
        fetch_missing(config, needed_voice(config), say=logger.info)

    host(config, fetch=fetch, make=_make)


def _make(
    config: Config, found: Sequence[str], authority: Path | None, end: Callable[[], None]
) -> Made:
    from pipeline.store import open_store
    from pipeline.tts_app import TtsService, create_app

    def ready() -> None:
        logger.info("ready: POST texts to {}tts, voices: {}", found[0], len(service.voices))

    service = TtsService(config=config, store=open_store(config))
    app = create_app(service, on_ready=ready, on_failure=end, ca_certificate=authority)
    return app, lambda: service.failure
