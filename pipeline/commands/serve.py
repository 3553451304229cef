"""`run.py serve`: the daemon."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import sys
from typing import TYPE_CHECKING

from loguru import logger

from pipeline.access import key_required, key_ring, pages, tls_of
from pipeline.commands.invitation import invite
from pipeline.commands.weights import fetch_needed
from tts_engine.errors import DuplexdError

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

    from pipeline.config import Config
    from services.access.tls import Tls

#: larger messages are closed with 1009 before anything of them is parsed
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
#: how long connections may take to end at shutdown, seconds
GRACE_S = 5
#: how long whoever has the port may take to say what it is, seconds
ASK_S = 1.0


def run(config: Config) -> None:
    """Fetches what is missing, serves until Ctrl-C or SIGTERM.

    Raises:
        DuplexdError: the port is taken, a model is not to be had, an engine cannot be started, the
            keys or the certificate cannot be used.
    """
    # uvicorn takes the signal over while it serves, and gives it back once all is closed.
    signal.signal(signal.SIGTERM, _end)
    set_up_logging(config)
    listener = listen(config.server.host, config.server.port)
    try:
        if key_required(config.server):
            key_ring(config.server)  # what is wrong with it is told before anything slow is done
        tls = tls_of(config.server)
        fetch_needed(config, say=logger.info)
        invite(config, pages(config.server, listener.getsockname()[1], tls), tls)
        _serve(config, listener, tls)
    finally:
        listener.close()


def _end(*_: object) -> None:
    """Being asked to end is no failure, and must not skip what is still to be closed."""
    raise SystemExit(0)


def set_up_logging(config: Config) -> None:
    """One log on standard error, in the format that the configuration names."""
    logger.remove()
    level = config.log.level.upper()
    if config.log.format == "json":
        logger.add(sys.stderr, level=level, serialize=True)
    else:
        form = "<dim>{time:HH:mm:ss.SSS}</dim> <level>{level: <7}</level> {message}"
        logger.add(sys.stderr, level=level, format=form, filter=_not_a_greeting)


def listen(host: str, port: int) -> socket.socket:
    """Takes the port before anything slow is done. Clients that come early wait to be served.

    Raises:
        DuplexdError: it is taken, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # Two sockets that reuse the address may both be bound to it; only one may listen.
        listener.listen()
    except OSError as error:
        listener.close()
        raise _port_failure(host, port, error) from error
    return listener


def _port_failure(host: str, port: int, error: OSError) -> DuplexdError:
    if error.errno == errno.EADDRINUSE:
        return _taken(host, port)
    if error.errno == errno.EACCES:
        return DuplexdError(
            f"Port {port} may not be used", mend="Choose one above 1023 with --set server.port=8080"
        )
    return DuplexdError(
        f"Cannot listen on {host}:{port}: {error.strerror or error}",
        mend="Set server.host to an address of this machine",
    )


def _taken(host: str, port: int) -> DuplexdError:
    from pipeline.doctor_facts import is_duplexd
    from pipeline.talk.daemon import address_of

    other = f"choose another port: --set server.port={port % 65_535 + 1}"
    if is_duplexd(host, port, timeout_s=ASK_S):
        address = address_of(host, port)
        return DuplexdError(
            f"A duplexd is running at {address} already",
            mend=f"Talk to it with `run.py talk --url {address} --say TEXT`, or {other}",
        )
    return DuplexdError(
        f"Port {port} is taken by another program, or by a duplexd that is still starting",
        mend=f"End it, or {other}",
    )


def uvicorn_config(app: FastAPI, tls: Tls | None) -> uvicorn.Config:
    """How the application is served."""
    import uvicorn

    from services.realtime.uvicorn_protocol import FaceWebSocketProtocol

    return uvicorn.Config(
        app,
        ws=FaceWebSocketProtocol,
        # Old device firmware does not answer pings; dead peers are found by sends and TCP.
        ws_ping_interval=None,
        ws_per_message_deflate=False,
        ws_max_size=MAX_MESSAGE_BYTES,
        timeout_graceful_shutdown=GRACE_S,
        log_config=None,
        access_log=False,
        proxy_headers=False,  # what a client says about its address is not believed
        ssl_certfile=tls and tls.certificate,
        ssl_keyfile=tls and tls.key,
    )


def _serve(config: Config, listener: socket.socket, tls: Tls | None) -> None:
    import uvicorn

    from pipeline.app import Daemon, create_app
    from pipeline.store import open_store

    daemon = Daemon(config=config, store=open_store(config))

    def fail() -> None:
        server.should_exit = True

    def ready() -> None:
        found = pages(config.server, port, tls)
        socket_url = f"{found[0].replace('http', 'ws', 1)}v1/realtime"
        browse = " or ".join(found)
        logger.info("ready: point a Realtime client at {}, a browser at {}", socket_url, browse)

    host, port = listener.getsockname()[:2]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    app = create_app(
        daemon, on_ready=ready, on_failure=fail, ca_certificate=tls.authority if tls else None
    )
    server = uvicorn.Server(uvicorn_config(app, tls))
    scheme = "https" if tls else "http"
    logger.info("listening on {}://{}, engines are warming up", scheme, address)
    try:
        _until_stopped(server, listener)
    finally:
        # Also when the signal is given back, which ends this call.
        logger.info("stopped")
    if daemon.failure is not None:
        raise daemon.failure


def _until_stopped(server: uvicorn.Server, listener: socket.socket) -> None:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.serve(sockets=[listener]))


def _not_a_greeting(record: object) -> bool:
    """Pipecat announces itself with a banner; a daemon's log does not need it."""
    return "ᓚᘏᗢ" not in record["message"]  # type: ignore[index]
