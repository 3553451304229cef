# pyright: strict
"""The items of a conversation: their order, what is known of them, and their names in its context.

What is kept is bounded: of the oldest items first the contents go, then the items themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from services.items import ROOT, ContextItem, FunctionCall, FunctionOutput, Message
from services.realtime.schema import Refused, Role

#: items that are known by their id
MAX_ITEMS = 4096
#: characters of contents that are kept
MAX_CONTENT = 1 << 20
#: what a client may add without asking for an answer: items, and characters of them
MAX_UNASKED_ITEMS, MAX_UNASKED = 1000, 1 << 20


@dataclass(slots=True, kw_only=True, eq=False)
class Item:
    """An item of the conversation.

    Parameters:
        id: the protocol's name.
        shown: the item as the client sees it; None: its contents are no longer kept.
        ref: its name in the context, see `services.items`; None: the context does not have it.
        done: nothing of it is still to come.
    """

    id: str
    shown: dict[str, Any] | None
    ref: str | None = None
    done: bool = True

    @property
    def size(self) -> int:
        """Characters of its contents, roughly."""
        return len(str(self.shown)) if self.shown is not None else 0


class Items:
    """Items in the order of the conversation."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._by_id: dict[str, Item] = {}
        # by age: the contents that are kept, and what was added since an answer was begun
        self._kept: dict[str, int] = {}
        self._unasked: dict[str, int] = {}

    @property
    def last(self) -> str | None:
        """Id of the item that the others precede."""
        return self._items[-1].id if self._items else None

    def __contains__(self, item_id: str) -> bool:
        return item_id in self._by_id

    def get(self, item_id: str, *, param: str = "item_id") -> Item:
        """An item by its id.

        Raises:
            Refused: there is none.
        """
        item = self._by_id.get(item_id)
        if item is None:
            raise Refused(
                f"There is no item with id '{item_id[:100]}'", reason="item_not_found", param=param
            )
        return item

    def add(self, item: Item, *, after: str | None = None) -> str | None:
        """Adds an item.

        Args:
            after: id of the item that it follows, or ROOT; None: the last.

        Returns:
            The id of the item before it.
        """
        place = len(self._items)
        if after is not None:
            place = 0 if after == ROOT else self._items.index(self._by_id[after]) + 1
        self._items.insert(place, item)
        self._by_id[item.id] = item
        self.keep(item)
        if len(self._items) > MAX_ITEMS:
            self.remove(next(iter(self._by_id)))
        place = self._items.index(item)
        return self._items[place - 1].id if place else None

    def remove(self, item_id: str) -> None:
        """Takes an item out."""
        self._items.remove(self._by_id.pop(item_id))
        self._kept.pop(item_id, None)
        self._unasked.pop(item_id, None)

    def keep(self, item: Item) -> None:
        """Counts the contents of an item, which may have changed; the oldest may go for it."""
        if self._by_id.get(item.id) is not item:
            return
        self._kept[item.id] = item.size
        total = sum(self._kept.values())
        while total > MAX_CONTENT and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            total -= self._kept.pop(oldest)
            self._by_id[oldest].shown = None

    def admit(self, size: int) -> None:
        """Checks that a client may add so many characters more.

        Raises:
            Refused: it adds and adds, and never asks for an answer.
        """
        total = sum(self._unasked.values())
        if len(self._unasked) >= MAX_UNASKED_ITEMS or total + size > MAX_UNASKED:
            raise Refused(
                f"{len(self._unasked)} items with {total} characters wait for an answer, and there "
                f"may be {MAX_UNASKED_ITEMS} with {MAX_UNASKED}",
                reason="too_many_items",
                mend="Send response.create, or delete some",
            )

    def unasked(self, item: Item) -> None:
        """The client added it."""
        self._unasked[item.id] = item.size

    def asked(self) -> None:
        """An answer follows what was added."""
        self._unasked.clear()

    def context_place(self, after: str | None) -> str | None:
        """Where an item comes in the context when it follows another one: see Conversation.add."""
        if after is None or after == self.last:
            return None
        if after == ROOT:
            return ROOT
        before = self._items[: self._items.index(self._by_id[after]) + 1]
        return next((item.ref for item in reversed(before) if item.ref), ROOT)

    def check_output(self, call_id: str) -> None:
        """A function's output needs its call, and has not come before.

        Raises:
            Refused: otherwise.
        """
        called = False
        for item in self._items:
            shown = item.shown
            if shown is None or shown.get("call_id") != call_id or not item.ref:
                continue
            if shown["type"] == "function_call_output":
                raise Refused(
                    f"The call '{call_id[:100]}' has its output already",
                    reason="call_has_output",
                    param="item.call_id",
                )
            called = True
        if not called:
            raise unknown_call(call_id, param="item.call_id")

    def has_call(self, call_id: str) -> bool:
        """A call has this id."""
        return any(
            item.shown is not None
            and item.shown["type"] == "function_call"
            and item.shown["call_id"] == call_id
            for item in self._items
        )


def unknown_call(call_id: str, *, param: str) -> Refused:
    """The refusal of an output that no call asked for."""
    return Refused(
        f"There is no function call with call_id '{call_id[:100]}'",
        reason="call_not_found",
        param=param,
    )


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


def function_call(
    *, item_id: str, call_id: str, name: str, arguments: str, status: str = "completed"
) -> dict[str, Any]:
    """A function call of the protocol."""
    return {
        "id": item_id,
        "object": "realtime.item",
        "type": "function_call",
        "status": status,
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    }


def function_output(*, item_id: str, call_id: str, output: str) -> dict[str, Any]:
    """A function's output of the protocol."""
    return {
        "id": item_id,
        "object": "realtime.item",
        "type": "function_call_output",
        "status": "completed",
        "call_id": call_id,
        "output": output,
    }


def context_item(shown: dict[str, Any]) -> ContextItem | None:
    """What a language model gets of an item; None: its text is not known."""
    if shown["type"] == "function_call":
        return FunctionCall(
            call_id=shown["call_id"], name=shown["name"], arguments=shown["arguments"]
        )
    if shown["type"] == "function_call_output":
        return FunctionOutput(call_id=shown["call_id"], output=shown["output"])
    pieces: list[str] = []
    for part in cast("list[dict[str, str | None]]", shown["content"]):
        piece = part.get("text", part.get("transcript"))
        if piece is None:
            return None
        pieces.append(piece)
    return Message(role=shown["role"], text="".join(pieces))
