"""Who may talk to the daemon, as the configuration has it: keys, names, TLS, addresses."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from pipeline.config_server import Server
from services.access.addresses import own_addresses
from services.access.hosts import (
    host_port,
    is_address,
    is_loopback,
    is_wildcard,
    own_names,
    plain,
    reached_at,
)
from services.access.key_file import KeyFile
from services.access.keys import KeyRing, chosen_key
from services.access.origins import origin_of
from tts_engine.errors import DuplexdError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from services.access.tls import Tls

#: a key in the environment, for containers
KEY_VARIABLE = "DUPLEXD_API_KEY"


def guard(app: FastAPI, server: Server, *, count: Callable[[DuplexdError], None]) -> None:
    """Puts the door in front of an application.

    Raises:
        DuplexdError: a key is needed, and the keys cannot be read.
    """
    # Only who serves needs these: commands look keys and addresses up without a web framework.
    from services.access.middleware import AccessMiddleware
    from services.web.pages import KEY_PAGE, KEY_PAGE_CSP

    app.add_middleware(
        AccessMiddleware,
        names=names_of(server),
        origins=frozenset(filter(None, map(origin_of, server.allowed_origins))),
        keys=key_ring(server) if key_required(server) else None,
        requests_per_minute=server.requests_per_minute,
        key_page=KEY_PAGE,
        key_page_policy=KEY_PAGE_CSP,
        on_refused=count,
    )


def names_of(server: Server) -> frozenset[str]:
    """The names that the daemon answers to, see `own_names`."""
    return own_names(hostname=socket.gethostname(), host=server.host, allowed=server.allowed_hosts)


def key_required(server: Server) -> bool:
    """Others than this machine's users can reach the daemon, or it is wanted anyway."""
    return server.require_key or not is_loopback(plain(server.host))


def key_file(server: Server) -> KeyFile:
    """The keys that `run.py keys` manages."""
    path = server.keys_file
    return KeyFile(path.expanduser() if path else data_folder() / "keys.json")


def environment_key() -> str | None:
    """The key that the environment gives.

    Raises:
        ConfigError: it is not fit to be one.
    """
    key = os.environ.get(KEY_VARIABLE)
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
    addresses = {"127.0.0.1", "::1", *own_addresses()}
    if is_address(server.host) and not is_wildcard(server.host):
        addresses.add(server.host)
    return own_tls(
        data_folder() / "tls",
        Names(
            hostname=socket.gethostname(),
            names=names_of(server) | {"localhost"},
            addresses=frozenset(addresses),
        ),
    )


def pages(server: Server, port: int) -> list[str]:
    """Addresses at which a browser finds the daemon, the best for another device first."""
    scheme = "http" if server.tls == "off" else "https"
    hosts = reached_at(server.host, own_addresses) or ("localhost",)
    return [f"{scheme}://{host_port(host, port)}/" for host in hosts]


def data_folder() -> Path:
    """Where the user's own files are kept."""
    return platformdirs.user_data_path("duplexd")
