"""Who knocks: what a device tells of itself before the WebSocket is open."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

#: where devices send photos
VISION_PATH = "/xiaozhi/vision/explain"
#: longest id or token that is looked at, characters
_LONGEST = 256
#: what an id may consist of: it stands in logs, files, messages and paths
_ID = re.compile(r"(?=.*[A-Za-z0-9])[A-Za-z0-9:._-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a device says of itself.

    Parameters:
        device_id: its MAC address, in lower case; empty: it did not say, or nothing that is one.
        client_id: a UUID that lasts until its flash is erased; may be empty.
        token: empty: none.
        version: of its framing.
    """

    device_id: str
    client_id: str = ""
    token: str = ""
    version: int = 1


class Doors(Protocol):
    """Which devices may come in, and what is known of them."""

    def admits(self, device_id: str, token: str) -> bool:
        """Whether a device shows the right token; takes as long for every token."""
        ...

    def board(self, device_id: str) -> str:
        """Name of its board; empty where it never told."""
        ...

    def vision(self, device_id: str) -> tuple[str, str]:
        """Where it sends its photos, and with which token."""
        ...


def vision_address(*, secure: bool, host: str, port: int) -> str:
    """Where a device sends photos that has reached us at a socket.

    Args:
        secure: over TLS.
        host: its `Host` header, in which devices leave the port out.
        port: of the socket.
    """
    where = host if ":" in host else f"{host}:{port}"
    return f"{'https' if secure else 'http'}://{where}{VISION_PATH}"


def identity(headers: Mapping[str, str], query: Mapping[str, str]) -> Identity:
    """Reads a handshake: headers first, then the query, as web pages cannot set headers.

    Args:
        headers: with names in any case.
        query: parameters of the address.
    """

    def said(name: str) -> str:
        return (headers.get(name) or query.get(name) or "").strip()[:_LONGEST]

    device_id = said("device-id").lower()
    client_id = said("client-id")
    scheme, _, token = said("authorization").rpartition(" ")
    version = said("protocol-version")
    return Identity(
        device_id=device_id if _ID.fullmatch(device_id) else "",
        client_id=client_id if _ID.fullmatch(client_id) else "",
        token=token if scheme.lower() in ("", "bearer") else "",
        version=int(version) if version in ("1", "2", "3") else 1,
    )
