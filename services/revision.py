"""The revision board: which answer of a conversation is live, and whether it may be heard.

Every answer, speculated or committed, has a revision number. One board per conversation says which
is live and whether it is open. It is written where answers begin and end, in the same step as the
decision (a kept speculation opens as soon as the client was told of it); frames merely wake people
up. Everything that carries text or audio of an answer carries its
revision, and asks here before it goes on, so there is nothing an order of events can overtake, and
no "aborted" flag anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class Verdict(Enum):
    """What to do with a piece of an answer."""

    PASS = "pass"
    HOLD = "hold"
    DROP = "drop"


class RevisionBoard:
    """The live revision of one conversation. Not thread-safe: it belongs to the event loop."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self._last = 0
        self._live = 0
        self._open = False
        #: called after every change, so that a gate that holds something looks again
        self.on_change = on_change

    @property
    def live(self) -> int:
        """The live revision, 0 for none."""
        return self._live

    @property
    def is_open(self) -> bool:
        """The live revision is committed: it may be heard."""
        return self._open

    def speculate(self) -> int:
        """Makes a new revision live whose output is held until `commit`."""
        return self._renew(opened=False)

    def open(self) -> int:
        """Makes a new revision live that may be heard at once."""
        return self._renew(opened=True)

    def commit(self, revision: int) -> None:
        """Opens a speculated revision.

        Raises:
            ValueError: it is not the live one.
        """
        if revision != self._live or not revision:
            raise ValueError(f"revision {revision} is not live (live: {self._live})")
        self._open = True
        self.on_change()

    def revoke(self, revision: int | None = None) -> int:
        """Ends the live revision: nothing of it may be heard from now on.

        Args:
            revision: revoke only if this one is live.

        Returns:
            The revoked revision, 0 if there was none.
        """
        if revision is not None and revision != self._live:
            return 0
        revoked, self._live, self._open = self._live, 0, False
        if revoked:
            self.on_change()
        return revoked

    def alive(self, revision: int) -> bool:
        """Work on this revision is still wanted."""
        return bool(revision) and revision == self._live

    def verdict(self, revision: int) -> Verdict:
        """May a piece of this revision be heard now?"""
        if not self.alive(revision):
            return Verdict.DROP
        return Verdict.PASS if self._open else Verdict.HOLD

    def _renew(self, *, opened: bool) -> int:
        self._last += 1
        self._live, self._open = self._last, opened
        self.on_change()
        return self._last
