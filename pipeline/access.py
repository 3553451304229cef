"""Who may talk to the daemon, as the configuration has it: keys, names, TLS, addresses."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from fastapi import FastAPI

from pipeline.config_schema import Server
from services.access.addresses import own_addresses
from services.access.hosts import is_address, is_loopback, is_wildcard, own_names, plain
from services.access.key_file import KeyFile
from services.access.keys import KeyRing, chosen_key
from services.access.middleware import AccessMiddleware
from services.access.origins import origin_of
from services.web.pages import KEY_PAGE_CSP, key_page
from tts_engine.errors import DuplexdError

if TYPE_CHECKING:
    from services.access.tls import Tls

#: a key in the environment, for containers
KEY_VARIABLE = "DUPLEXD_API_KEY"


def guard(
    app: FastAPI, server: Server, *, count: Callable[[DuplexdError], None] = lambda _: None
) -> None:
    """Puts the door in front of an application.

    Raises:
        DuplexdError: a key is needed, and the keys cannot be read.
    """
    app.add_middleware(
        AccessMiddleware,
        names=own_names(
            hostname=socket.gethostname(), host=server.host, allowed=server.allowed_hosts
        ),
        origins=frozenset(filter(None, map(origin_of, server.allowed_origins))),
        keys=key_ring(server) if key_required(server) else None,
        requests_per_minute=server.requests_per_minute,
        key_page=key_page,
        key_page_policy=KEY_PAGE_CSP,
        on_refused=count,
    )


def key_required(server: Server) -> bool:
    """Others than this machine's users can reach the daemon, or it is wanted anyway."""
    return server.require_key or not is_loopback(plain(server.host))


def key_file(server: Server) -> KeyFile:
    """The keys that `run.py keys` manages."""
    path = server.keys_file
    return KeyFile(path.expanduser() if path else _data_folder() / "keys.json")


def environment_key(environ: Mapping[str, str] | None = None) -> str | None:
    """The key that the environment gives.

    Raises:
        ConfigError: it is not fit to be one.
    """
    key = (os.environ if environ is None else environ).get(KEY_VARIABLE)
    return chosen_key(key, source=KEY_VARIABLE) if key else None


def key_ring(server: Server) -> KeyRing:
    """All keys that let in.

    Raises:
        DuplexdError: they cannot be read, or the environment's is not fit to be one.
    """
    key = environment_key()
    return KeyRing(file=key_file(server), chosen=[key] if key else [])


def tls_of(server: Server) -> Tls | None:
    """The certificate to serve with; None: without TLS.

    Raises:
        DuplexdError: it cannot be used.
    """
    if server.tls == "off":
        return None
    from services.access.certificate import Names
    from services.access.tls import given_tls, own_tls

    if server.tls != "auto":
        certificate, _, key = server.tls.partition(",")
        return given_tls(Path(certificate.strip()).expanduser(), Path(key.strip()).expanduser())
    hostname = socket.gethostname()
    names = own_names(hostname=hostname, host=server.host, allowed=server.allowed_hosts)
    addresses = {"127.0.0.1", "::1", *own_addresses()}
    if is_address(server.host) and not is_wildcard(server.host):
        addresses.add(server.host)
    return own_tls(
        _data_folder() / "tls",
        Names(hostname=hostname, names=names | {"localhost"}, addresses=frozenset(addresses)),
    )


def pages(server: Server, port: int, tls: Tls | None) -> list[str]:
    """Addresses at which a browser finds the daemon, the best for another device first."""
    scheme = "https" if tls else "http"
    hosts = [server.host]
    if is_wildcard(server.host):
        only_v4 = ":" not in server.host
        hosts = [each for each in own_addresses() if not (only_v4 and ":" in each)]
        hosts = hosts or ["localhost"]
    return [f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/" for host in hosts]


def _data_folder() -> Path:
    return platformdirs.user_data_path("duplexd")
