# pyright: strict
"""The order of a conversation's items, and which of them were spoken by which answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from services.realtime.events import Role

#: items remembered, for truncation and for refusing an id that is taken
_REMEMBERED = 512


@dataclass(slots=True, kw_only=True)
class Spoken:
    """An assistant item that was spoken.

    Parameters:
        revision: the answer, as the conversation numbers it.
        samples: how much of its audio was sent, at 24 kHz.
    """

    revision: int
    response_id: str
    item_id: str
    samples: int = 0

    @property
    def sent_ms(self) -> int:
        """How much audio was sent, milliseconds, rounded up."""
        return -(-self.samples // 24)


class Items:
    """Items in the order in which they were added."""

    def __init__(self) -> None:
        #: id of the item added last
        self.last: str | None = None
        self._items: dict[str, Spoken | None] = {}

    def add(self, item_id: str, spoken: Spoken | None = None) -> str | None:
        """Adds an item at the end.

        Returns:
            The id of the item before it.
        """
        previous, self.last = self.last, item_id
        self._items[item_id] = spoken
        if len(self._items) > _REMEMBERED:
            del self._items[next(iter(self._items))]
        return previous

    def __contains__(self, item_id: str) -> bool:
        return item_id in self._items

    def spoken(self, item_id: str) -> Spoken | None:
        """What is known of a spoken item; None for any other."""
        return self._items.get(item_id)

    def by_revision(self, revision: object) -> Spoken | None:
        """The item of an answer, the newest first."""
        for spoken in reversed(self._items.values()):
            if spoken is not None and spoken.revision == revision:
                return spoken
        return None


def message(
    *, item_id: str, role: Role, content: list[dict[str, Any]], status: str = "completed"
) -> dict[str, Any]:
    """A message item of the protocol."""
    return {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "status": status,
        "role": role,
        "content": content,
    }
