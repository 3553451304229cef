"""What desks have in common: whether they are open, and what becomes of failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from loguru import logger

from tts_engine.errors import DuplexdError, NotReady
from tts_engine.service.api_errors import ApiError

#: what we have to see to: something broke, or there is no room on the disk
_OURS = (500, 507)


class Accounts(Protocol):
    """Where failures are counted."""

    def count(self, error: DuplexdError) -> None:
        """A failure, by its class."""
        ...


class Front:
    """The part of a desk that every request meets.

    Parameters:
        ready: whether its engine is warm, and takes jobs now.
        accounts: counts failures.
    """

    def __init__(self, *, ready: Callable[[], bool], accounts: Accounts) -> None:
        self._ready = ready
        self._failures = accounts

    def check_ready(self) -> None:
        """Raises NotReady while the engine warms up, or is being started again."""
        if not self._ready():
            raise NotReady("The engine is not ready", mend="Wait for /readyz")

    def note(self, error: ApiError, what: str) -> None:
        """Counts and logs an error; only those that are ours to mend are warnings.

        Args:
            error: that is told the client.
            what: it is about.
        """
        self._failures.count(error.failure)
        level = "WARNING" if error.status in _OURS else "DEBUG"
        logger.log(level, "{}: {}: {}", what, error.code, error.failure)
