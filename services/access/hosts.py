# pyright: strict
"""Which names this daemon answers to: see docs/security.md.

A page of evil.example may have its own name point at this machine (DNS rebinding). For the browser
the daemon is then that page's own server, and only the `Host` header still tells. It takes a name
to do that, so that any IP address is welcome as a host, and of names only those that are ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address

_HOST = re.compile(r"(?:\[([0-9A-Za-z:.%]+)\]|([0-9A-Za-z._-]+))(?::[0-9]{0,5})?", re.ASCII)


def host_of(header: str) -> str | None:
    """The host that a `Host` header names, in lower case and without its port.

    Returns:
        None: the header is malformed.
    """
    match = _HOST.fullmatch(header)
    if match is None:
        return None
    if match[1] is not None:
        return match[1].lower() if is_address(match[1]) else None
    return plain(match[2]) or None


def plain(name: str) -> str:
    """A host name as it is compared: in lower case, without the root's dot."""
    return name.lower().removesuffix(".")


def is_address(host: str) -> bool:
    """It is an IP address, not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whoever is reached by this host is on the same machine.

    Other names than localhost are not looked up: what they mean may change.
    """
    if host == "localhost" or host.endswith(".localhost"):
        return True
    return is_address(host) and ip_address(host).is_loopback


def is_wildcard(host: str) -> bool:
    """It stands for all addresses of this machine."""
    return is_address(host) and ip_address(host).is_unspecified


def reached_at(host: str, addresses: Callable[[], Iterable[str]]) -> tuple[str, ...]:
    """The hosts by which others reach a daemon that listens on `host`; none without a network.

    Args:
        host: that it listens on. All IPv6 addresses are the IPv4 ones as well.
        addresses: gives this machine's; asked only where the host stands for all of them.
    """
    if not is_wildcard(host):
        return (host,)
    return tuple(each for each in addresses() if ":" in host or ":" not in each)


def host_port(host: str, port: int | str) -> str:
    """host:port, with brackets where they are needed."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def own_names(*, hostname: str, host: str, allowed: Iterable[str] = ()) -> frozenset[str]:
    """The names that the daemon answers to, beside localhost and addresses.

    Args:
        hostname: this machine's, short or whole.
        host: that it listens on.
        allowed: further ones.
    """
    whole = _sent(hostname)
    short = whole.partition(".")[0]
    names = {whole, short, f"{short}.local" if short else "", _sent(host), *map(_sent, allowed)}
    return frozenset(name for name in names if name and not is_address(name))


def _sent(name: str) -> str:
    """A name as clients send it: in ASCII. Empty for what none can send, as one with a space."""
    try:
        ascii_name = plain(name).encode("idna").decode("ascii")
    except UnicodeError:
        return ""
    return host_of(ascii_name) or ""


def welcome(headers: Sequence[str], names: frozenset[str]) -> bool:
    """Whether the `Host` headers of a request, one if it is well-formed, name this daemon."""
    host = host_of(headers[0]) if len(headers) == 1 else None
    return host is not None and (is_address(host) or is_loopback(host) or host in names)
