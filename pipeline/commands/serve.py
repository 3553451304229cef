"""`run.py serve`: the daemon."""

from __future__ import annotations

import asyncio
import errno
import resource
import signal
import socket
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from loguru import logger

from pipeline.access import key_required, key_ring, pages, tls_of
from pipeline.commands.daemon_log import set_up_logging
from pipeline.commands.invitation import invite
from pipeline.commands.weights import fetch_needed
from services.access.hosts import host_port, is_loopback, plain
from tts_engine.errors import DuplexdError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import TypeAlias

    import uvicorn
    from fastapi import FastAPI

    from pipeline.config import Config
    from services.access.tls import Tls

    #: an application, and why it ended the server, if it did
    Made: TypeAlias = tuple[FastAPI, Callable[[], DuplexdError | None]]
    #: builds it of the configuration, the addresses of its pages, the authority's certificate, and
    #: what ends the server
    Maker: TypeAlias = Callable[[Config, Sequence[str], Path | None, Callable[[], None]], Made]

#: larger messages are closed with 1009 before anything of them is parsed
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
#: how long connections may take to end at shutdown, seconds
GRACE_S = 5
#: how long a client may take nothing of an answer, seconds
STALL_S = 30.0
#: how long whoever has the port may take to say what it is, seconds
ASK_S = 1.0
_OURS = "Set server.host to an address of this machine"
#: file descriptors that are enough, one a connection
_DESCRIPTORS = 65_536


def run(config: Config) -> None:
    """Fetches what is missing, serves until Ctrl-C or SIGTERM.

    Raises:
        DuplexdError: the port is taken, a model is not to be had, an engine cannot be started, the
            keys or the certificate cannot be used.
    """
    host(config, fetch=lambda: fetch_needed(config, say=logger.info), make=_make_daemon)


def host(config: Config, *, fetch: Callable[[], None], make: Maker) -> None:
    """Serves an application as `config.server` has it, until Ctrl-C or SIGTERM.

    Args:
        config: of the server and the log.
        fetch: gets what the application needs, once it is certain that it can be served.
        make: builds it.

    Raises:
        DuplexdError: the port is taken, the keys or the certificate cannot be used; of `fetch` and
            `make`; why the application has ended the server.
    """
    # uvicorn takes the signal over while it serves, and gives it back once all is closed.
    signal.signal(signal.SIGTERM, _end)
    set_up_logging(config)
    _allow_connections()
    listener = listen(config.server.host, config.server.port)
    try:
        if key_required(config.server):
            key_ring(config.server)  # what is wrong with it is told before anything slow is done
        tls = tls_of(config.server)
        fetch()
        invite(config, pages(config.server, listener.getsockname()[1]), tls)
        _serve(config, listener, tls, make)
    finally:
        listener.close()


def _end(*_: object) -> None:
    """Being asked to end is no failure, and must not skip what is still to be closed."""
    raise SystemExit(0)


def _allow_connections() -> None:
    """Takes as many file descriptors as it may: the usual 1024 are soon gone if clients hold on."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = _DESCRIPTORS if most == unlimited else min(most, _DESCRIPTORS)
    if now != unlimited and now < wanted:
        with suppress(ValueError, OSError):  # some systems have a further limit, and do not tell it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def listen(host: str, port: int) -> socket.socket:
    """Takes the port before anything slow is done. Clients that come early wait to be served.

    Raises:
        DuplexdError: it is taken, or the address is not this machine's.
    """
    try:
        if host == "*":  # for some resolvers that is loopback, which nobody means by it
            raise ValueError(host)
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, *_, address = min(found, key=lambda each: each[0] != socket.AF_INET)
        _check_loopback(host, str(address[0]))
        return _listener(family, address)
    except OSError as error:
        raise _port_failure(host, port, error) from error
    except ValueError as error:  # what no resolver even looks up
        raise DuplexdError(f"{host!r} is no address", mend=_OURS) from error


def _listener(family: int, address: tuple[Any, ...]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # "::" is IPv4 as well, on every system
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(address)
        # Two sockets that reuse the address may both be bound to it; only one may listen.
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def _check_loopback(host: str, address: str) -> None:
    """Whether a key is needed goes by the name: it must not stand for what others can reach."""
    if is_loopback(plain(host)) and not is_loopback(address):
        raise DuplexdError(
            f"{host} is {address} here, which is not loopback",
            mend="Set server.host to the address; then a key is asked for",
        )


def _port_failure(host: str, port: int, error: OSError) -> DuplexdError:
    if error.errno == errno.EADDRINUSE:
        return _taken(host, port)
    if error.errno == errno.EACCES:
        return DuplexdError(
            f"Port {port} may not be used", mend="Choose one above 1023 with --set server.port=8080"
        )
    return DuplexdError(
        f"Cannot listen on {host}:{port}: {error.strerror or error}",
        mend=_OURS,
    )


def _taken(host: str, port: int) -> DuplexdError:
    from pipeline.doctor_port import running
    from pipeline.talk.daemon import address_of, command_for

    other = f"choose another port: --set server.port={port % 65_535 + 1}"
    if found := running(host, port, timeout_s=ASK_S):
        address = address_of(host, port)
        command = command_for(address, secure=found.secure, locked=found.locked)
        return DuplexdError(
            f"A duplexd is running at {address} already",
            mend=f"Talk to it with `{command}`, or {other}",
        )
    return DuplexdError(
        f"Port {port} is taken by another program, or by a duplexd that is still starting",
        mend=f"End it, or {other}",
    )


def uvicorn_config(app: FastAPI, tls: Tls | None, *, stall_s: float = STALL_S) -> uvicorn.Config:
    """How the application is served.

    Args:
        app: the application.
        tls: the certificate; None: without TLS.
        stall_s: the longest time that the application itself waits for a client to read, seconds.
    """
    import uvicorn

    from services.access.renewal import LOOK_EVERY_S, Renewal
    from services.http_protocol import FirmHttpProtocol
    from services.websocket_protocol import FaceWebSocketProtocol

    renewal = Renewal(tls) if tls else None
    return uvicorn.Config(
        app,
        http=partial(FirmHttpProtocol, stall_s=stall_s),  # type: ignore[arg-type]
        ws=FaceWebSocketProtocol,
        # Old device firmware does not answer pings; dead peers are found by sends and TCP.
        ws_ping_interval=None,
        ws_per_message_deflate=False,
        ws_max_size=MAX_MESSAGE_BYTES,
        timeout_graceful_shutdown=GRACE_S,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # what a client says about its address is not believed
        ssl_context_factory=(lambda *_: renewal.context) if renewal else None,
        callback_notify=renewal.look if renewal else None,
        timeout_notify=LOOK_EVERY_S,
    )


def _serve(config: Config, listener: socket.socket, tls: Tls | None, make: Maker) -> None:
    import uvicorn

    def end() -> None:
        server.should_exit = True

    address, port = listener.getsockname()[:2]
    app, failure = make(config, pages(config.server, port), tls and tls.authority, end)
    server = uvicorn.Server(uvicorn_config(app, tls, stall_s=config.speech.stall_s))
    scheme = "https" if tls else "http"
    logger.info("listening on {}://{}, engines are warming up", scheme, host_port(address, port))
    try:
        _until_stopped(server, listener)
    finally:
        # Also when the signal is given back, which ends this call.
        logger.info("stopped")
    if error := failure():
        raise error


def _make_daemon(
    config: Config, found: Sequence[str], authority: Path | None, end: Callable[[], None]
) -> Made:
    from pipeline.app import Daemon, create_app
    from pipeline.store import open_store

    def ready() -> None:
        socket_url = f"{found[0].replace('http', 'ws', 1)}v1/realtime"
        browse = " or ".join(found)
        logger.info("ready: point a Realtime client at {}, a browser at {}", socket_url, browse)

    daemon = Daemon(config=config, store=open_store(config))
    app = create_app(daemon, on_ready=ready, on_failure=end, ca_certificate=authority)
    return app, lambda: daemon.failure


def _until_stopped(server: uvicorn.Server, listener: socket.socket) -> None:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.serve(sockets=[listener]))
