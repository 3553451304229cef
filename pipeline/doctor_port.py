"""Who has the port that a daemon would listen on; if a daemon has it, how it is reached."""

from __future__ import annotations

import errno
import socket

import httpx

from pipeline.doctor_types import PortFact, Running
from pipeline.talk.daemon import address_of
from services.access.addresses import own_addresses
from services.access.hosts import reached_at
from services.access.public import CHALLENGE

#: of a step, as a connection or an answer
_TIMEOUT_S = 5.0


def port_fact(host: str, port: int) -> PortFact:
    """Whether a daemon could listen there, and if one does, where it answers and how."""
    try:
        if host == "*":  # for some resolvers that is loopback, which nobody means by it
            raise ValueError("no address")
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            # Two sockets may be bound to a port with SO_REUSEADDR; only one may listen.
            probe.listen(1)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return _owner(host, port)
        state = "forbidden" if error.errno == errno.EACCES else "foreign"
        return PortFact(state=state, error=error.strerror or str(error))
    except ValueError as error:  # what no resolver even looks up
        return PortFact(state="foreign", error=str(error))
    return PortFact(state="free")


def _owner(host: str, port: int) -> PortFact:
    """Asks at every address that the daemon would have."""
    hosts = dict.fromkeys((host, *reached_at(host, own_addresses)))  # each once
    answers = {each: running(each, port) for each in hosts}
    deaf = tuple(each for each, answer in answers.items() if answer is None)
    for each, answer in answers.items():
        if answer is not None:
            at = address_of(each, port)
            return PortFact(state="duplexd", daemon=answer, at=at, deaf=deaf)
    return PortFact(state="taken")


def running(host: str, port: int, *, timeout_s: float = _TIMEOUT_S) -> Running | None:
    """The daemon that a process which listens there says to be; None: it is none.

    Args:
        host: an address of this machine; one that stands for all is asked at loopback.
        port: of it.
        timeout_s: longest wait for a connection, and for an answer.
    """
    # Its certificate is not checked: nothing secret is sent. Proxies are for the world outside.
    with httpx.Client(timeout=timeout_s, trust_env=False, verify=False) as client:
        for secure in (False, True):
            scheme = "https" if secure else "http"
            try:
                answer = client.get(f"{scheme}://{address_of(host, port)}/healthz")
            except (httpx.HTTPError, httpx.InvalidURL):
                continue
            # One that wants a key says whose.
            locked = answer.headers.get("WWW-Authenticate") == CHALLENGE
            if locked or (answer.status_code == 200 and "duplexd" in answer.text):
                return Running(secure=secure, locked=locked)
    return None
