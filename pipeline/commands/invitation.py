"""What `serve` shows to whoever is to use the daemon from another device: addresses, a key, trust.

It goes to standard output: a key that is shown once has no place in the log. Where that is no
terminal, something keeps it: then the key is shown once, and in no link.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING
from urllib.parse import quote

from loguru import logger

from pipeline.access import environment_key, key_file, key_required
from pipeline.access import pages as pages_of
from services.access.hosts import is_loopback, plain
from services.access.keys import digest_of, new_key
from services.access.public import CA_PATH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.config import Config
    from pipeline.config_server import Server
    from services.access.tls import Tls

_FURTHER = "run.py keys add, same --host and --tls"


def invite(config: Config, pages: Sequence[str], tls: Tls | None) -> None:
    """Makes the first key where one is needed, and shows how the daemon is reached.

    On loopback without a key there is nothing to say.

    Raises:
        DuplexdError: the keys cannot be read or written.
    """
    server = config.server
    key = _first_key(config) if key_required(server) else None
    beyond = not is_loopback(plain(server.host))
    if beyond and tls is None:
        logger.warning(
            "without TLS browsers on other devices give no microphone, and keys travel in the "
            "clear: add --tls auto"
        )
    if not (beyond or key or tls):
        return
    seen = sys.stdout.isatty()
    lines = _addresses(pages, key if seen else None)
    if key:
        lines += ["", *_shown(key, seen=seen), f"  Further ones: {_FURTHER}"]
    elif key_required(server):
        lines += ["", f"  It asks for an API key; a new one: {_FURTHER}"]
    if beyond and config.xiaozhi.enabled:
        lines += _devices(pages[0], own=bool(tls and tls.authority))
    if tls and tls.authority:
        lines += _trust(tls, pages[0])
    if config.log.format == "text" and seen:
        lines += ["", _qr(_with_key(pages[0], key))]
    print("", *lines, "", sep="\n", flush=True)


def introduce(server: Server, key: str, *, code: bool) -> list[str]:
    """How a further key gets into a browser; nothing where the daemon is not reached by others.

    Args:
        server: the daemon's.
        key: the new key.
        code: with the first address as a QR code, for a terminal.

    Returns:
        Lines.
    """
    if is_loopback(plain(server.host)) or not server.port:
        return []
    found = pages_of(server, server.port)
    lines = _addresses(found, key)
    if server.tls == "auto":
        trust = f"its authority is at {found[0]}{CA_PATH}, see docs/security.md"
        lines.append(f"  Browsers warn until the certificate is trusted: {trust}")
    return [*lines, "", _qr(_with_key(found[0], key))] if code else lines


def _shown(key: str, *, seen: bool) -> list[str]:
    if seen:
        return [f"  API key, shown only now: {key}"]
    return [
        f"  API key, shown only now: {key}",
        "  It is a secret, and is now in what takes this output. Keep that as one, or revoke it:",
        "  run.py keys list, run.py keys revoke ID",
    ]


def _first_key(config: Config) -> str | None:
    """A new key if there is none; it is good from now on."""
    if environment_key():
        return None
    key = new_key()
    return key if key_file(config.server).add_first(digest_of(key), name="first") else None


def _addresses(pages: Sequence[str], key: str | None) -> list[str]:
    first, *others = [_with_key(page, key) for page in pages]
    return ["  Open in a browser:", f"    {first}", *(f"    or {page}" for page in others)]


def _with_key(page: str, key: str | None) -> str:
    return f"{page}?key={quote(key, safe='')}" if key else page


def _devices(page: str, *, own: bool) -> list[str]:
    ota = f"  OTA address for Xiaozhi devices: {page}xiaozhi/ota/"
    untrusted = "  They trust public certificates only, and not this one: see docs/xiaozhi.md"
    return ["", ota, *([untrusted] if own else [])]


def _trust(tls: Tls, page: str) -> list[str]:
    return [
        "",
        f"  The certificate is made by an authority of this machine's own: {tls.authority}",
        f"    SHA-256 {tls.fingerprint}",
        "  Browsers warn until it is trusted. On a phone: go on past the warning, open",
        f"    {page}{CA_PATH}",
        "  compare the SHA-256, install it, and trust it (iOS: Settings > General > About >",
        "  Certificate Trust Settings; Android: Settings > Security > Install a CA certificate).",
        "  Desktops and programs: docs/security.md",
    ]


def _qr(address: str) -> str:
    """Half a character a dot, so that it fits an 80 by 24 terminal."""
    import segno

    drawn = io.StringIO()
    segno.make(address, error="l", micro=False).terminal(drawn, compact=True)
    return drawn.getvalue().rstrip("\n")
