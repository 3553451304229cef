"""Where the daemon is reached, and what it is shown: the address, the key, whom TLS trusts."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import SplitResult, urlsplit

from tts_engine.errors import BadRequest

_PATH = "/v1/realtime"
#: schemes that may be given, and the socket's
_SCHEMES = {"ws": "ws", "http": "ws", "wss": "wss", "https": "wss"}
_FORMS = "Give HOST:PORT, or an address that starts with ws://, wss://, http:// or https://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A daemon, as a client is told of it.

    Parameters:
        url: of the Realtime socket, ws:// or wss://.
        key: API key; empty for none. It is shown to nobody but the daemon.
        cacert: PEM file of the only certificates to trust; None: those that the system trusts.
    """

    url: str
    key: str = field(default="", repr=False)
    cacert: Path | None = None

    @classmethod
    def of(cls, address: str, *, key: str = "", cacert: Path | None = None) -> Self:
        """Reads what people give.

        Args:
            address: host:port, or ws://, wss://, http:// or https:// with or without a path.
            key: surrounding space is taken off.
            cacert: with a plain host:port it means TLS.

        Raises:
            BadRequest: the address is none, has no TLS to check, or the key cannot be sent.
        """
        if "://" not in address:
            address = f"{'wss' if cacert else 'ws'}://{address}"
        parts = _split(address)
        scheme = _SCHEMES[parts.scheme]
        if cacert and scheme == "ws":
            raise BadRequest(
                f"--cacert has nothing to check at {address}", mend="Write the address as https://"
            )
        path = parts.path if parts.path.strip("/") else _PATH
        parts = parts._replace(scheme=scheme, path=path, fragment="")
        return cls(url=parts.geturl(), key=_checked(key.strip()), cacert=cacert)

    @property
    def secure(self) -> bool:
        """The daemon is reached over TLS."""
        return self.url.startswith("wss:")

    @property
    def base(self) -> str:
        """The daemon's HTTP address, without a path."""
        return f"{'https' if self.secure else 'http'}://{urlsplit(self.url).netloc}"

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries."""
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def tls(self) -> ssl.SSLContext | None:
        """Whom TLS trusts; None where there is no TLS.

        Raises:
            BadRequest: `cacert` cannot be read.
        """
        if not self.secure:
            return None
        try:
            return ssl.create_default_context(cafile=self.cacert)
        except OSError as error:  # ssl.SSLError, when it is no certificate, is one of them
            why = error.strerror if not isinstance(error, ssl.SSLError) else "no PEM certificate"
            raise BadRequest(
                f"Cannot read --cacert {self.cacert}: {why}",
                mend="Give the certificate's PEM file, as `serve --tls auto` names it",
            ) from error


def _split(address: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        known = bool(parts.hostname) and parts.port != 0 and parts.scheme in _SCHEMES
    except ValueError:
        known, parts = False, urlsplit("")
    if not known or address.split() != [address]:
        # What may stand before an @ is nobody's to see.
        shown = re.sub(r"//[^/]*@", "//", address)
        raise BadRequest(f"{shown!r} is no address of a daemon", mend=_FORMS)
    if parts.username is not None:
        raise BadRequest("An address takes no user name", mend="Give the key with --key")
    return parts


def _checked(key: str) -> str:
    """Refuses what no header can hold, without showing it."""
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise BadRequest(
            "The API key has characters that no key has", mend="Copy it again, as it was shown"
        )
    return key
