"""API keys: made, recognised, and read anew while the daemon runs."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Iterable

from loguru import logger

from services.access.key_file import KeyFile
from tts_engine.errors import ConfigError, DuplexdError
from tts_engine.files import Stamp

#: a key that is set by hand has at least so many characters
MIN_LENGTH = 16
#: how often the file is looked at, at most, seconds
_LOOK_EVERY_S = 1.0
#: RFC 6750: what a bearer token may consist of; none of it is special in a cookie
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)


def new_key() -> str:
    """`dx-` and 32 characters that hold 192 random bits."""
    return f"dx-{secrets.token_urlsafe(24)}"


def digest_of(key: str) -> str:
    """What is kept of a key: SHA-256, in hex.

    A slow or salted hash protects passwords, which people choose from few. Of 192 random bits
    nobody can try a noticeable part, with or without salt, and this one costs the event loop
    nothing.
    """
    return hashlib.sha256(key.encode()).hexdigest()


def chosen_key(key: str, *, source: str) -> str:
    """Checks a key that somebody has set by hand.

    Args:
        key: what was set; surrounding space is taken off.
        source: where, for the message. The key itself is not shown.

    Raises:
        ConfigError: it is too short to be safe, or cannot be sent as a key.
    """
    key = key.strip()
    if len(key) < MIN_LENGTH:
        raise ConfigError(
            f"{source} is too short for an API key",
            mend=f"Give it {MIN_LENGTH} characters or more, as from `openssl rand -hex 24`",
        )
    if not _TOKEN.fullmatch(key):
        raise ConfigError(
            f"{source} has characters that an API key cannot have",
            mend="Use letters, digits and -._~+/ only, as `openssl rand -hex 24` does",
        )
    return key


class KeyRing:
    """Recognises keys.

    Parameters:
        file: keys that may come and go while the daemon runs.
        chosen: further keys, which stay.
        clock: seconds.

    Raises:
        DuplexdError: the file cannot be used.
    """

    def __init__(
        self,
        *,
        file: KeyFile,
        chosen: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = file
        self._clock = clock
        self._chosen = tuple(digest_of(key) for key in chosen)
        self._look_at = clock() + _LOOK_EVERY_S
        self._stamp: Stamp | None = file.stamp()
        self._stored = self._read()

    def admits(self, key: str) -> bool:
        """Whether this is one of the keys; takes as long for every key."""
        self._look()
        digest = digest_of(key)
        found = False
        for known in (*self._chosen, *self._stored):
            found |= hmac.compare_digest(known, digest)
        return found

    def _look(self) -> None:
        """Reads the file if it has changed: a few hundred bytes, once."""
        now = self._clock()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_EVERY_S
        stamp = self._file.stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._stored = self._read()
        except DuplexdError as error:
            # Nobody knows which keys were revoked, so that none is good.
            self._stored = ()
            logger.error("the API keys cannot be read, and nobody gets in with one: {}", error)

    def _read(self) -> tuple[str, ...]:
        return tuple(key.sha256 for key in self._file.read())
