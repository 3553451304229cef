# pyright: strict
"""Items that the client adds to the conversation."""

from __future__ import annotations

from typing import Any

from services.items import ROOT, item_ref
from services.realtime.actions import Action, Add, Send
from services.realtime.events import ItemCreate
from services.realtime.items import Item, Items, function_call, function_output, message
from services.realtime.schema import Refused
from services.realtime.schema_items import CallItem, CallOutputItem, MessageItem
from services.realtime.wire import Wire


def create_item(event: ItemCreate, *, items: Items, wire: Wire) -> list[Action]:
    """Adds an item.

    Raises:
        Refused: its id or call_id is taken, what it refers to is not there, or too many wait.
    """
    given = event.item
    after = event.previous_item_id
    if after is not None and after != ROOT:
        items.get(after, param="previous_item_id")
    if given.id is not None and (given.id in items or given.id == ROOT or wire.owns(given.id)):
        raise Refused(
            f"The id '{given.id[:100]}' is taken", reason="item_id_taken", param="item.id"
        )
    call_id = _checked_call(given, items, wire)
    item_id = given.id or wire.new_id("item")
    item = Item(id=item_id, shown=_shown(given, item_id, call_id), ref=item_ref(item_id))
    items.admit(item.size)
    place = items.context_place(after)
    previous = items.add(item, after=after)
    items.unasked(item)
    return [
        Add(item_ref(item_id), given.context(call_id=call_id), after=place),
        *(
            Send(
                wire.event(f"conversation.item.{what}", previous_item_id=previous, item=item.shown)
            )
            for what in ("added", "done")
        ),
    ]


def _checked_call(given: MessageItem | CallItem | CallOutputItem, items: Items, wire: Wire) -> str:
    """The call that the item is, or answers; empty for a message."""
    match given:
        case CallItem():
            if given.call_id is not None and items.has_call(given.call_id):
                raise Refused(
                    f"There is a call with call_id '{given.call_id[:100]}' already",
                    reason="call_id_taken",
                    param="item.call_id",
                )
            return given.call_id or wire.new_id("call")
        case CallOutputItem():
            items.check_output(given.call_id)
            return given.call_id
        case MessageItem():
            return ""


def _shown(
    given: MessageItem | CallItem | CallOutputItem, item_id: str, call_id: str
) -> dict[str, Any]:
    match given:
        case CallItem():
            return function_call(
                item_id=item_id, call_id=call_id, name=given.name, arguments=given.arguments
            )
        case CallOutputItem():
            return function_output(item_id=item_id, call_id=call_id, output=given.output)
        case MessageItem():
            kind = "output_text" if given.role == "assistant" else "input_text"
            content = [{"type": kind, "text": given.text}]
            return message(item_id=item_id, role=given.role, content=content)
