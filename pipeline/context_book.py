# pyright: strict
"""The book of a conversation's context: which message is which item, and where each belongs.

The messages are pipecat's `LLMContext`, in OpenAI's chat format; the book edits that list in place
and finds a message by its identity, since the context's shortening drops messages of it as well.
What is not in the list any more is forgotten.

An answer has its place from the moment it is asked for, though its text is known only when it was
heard: what a client adds meanwhile comes after it. The function calls of an answer and its text are
one message: {"role": "assistant", "content": heard, "tool_calls": [...]}.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from services.items import ROOT, ContextItem, FunctionCall, FunctionOutput, Message, call_ref

ChatMessage = dict[str, Any]


def chat_message(item: ContextItem) -> ChatMessage:
    """An item as a message in OpenAI's chat format."""
    match item:
        case Message(role=role, text=text):
            return {"role": role, "content": text}
        case FunctionCall():
            return {"role": "assistant", "content": "", "tool_calls": [_tool_call(item)]}
        case FunctionOutput(call_id=call_id, output=output):
            return {"role": "tool", "tool_call_id": call_id, "content": output}


def _tool_call(call: FunctionCall) -> ChatMessage:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.call_id, "type": "function", "function": function}


@dataclass(slots=True)
class _Open:
    """An answer whose text is not known yet.

    Parameters:
        ref: its name.
        before: the message that it follows; None: it is the first.
    """

    ref: str
    before: ChatMessage | None


class ContextBook:
    """Edits a conversation's messages by the names of `services.items`.

    Args:
        messages: the context's own list.
    """

    def __init__(self, messages: list[Any]) -> None:
        self._messages = messages
        self._named: dict[str, ChatMessage] = {}
        #: of the named ones, those that are one of the function calls in their message
        self._call_ids: dict[str, str] = {}
        self._open: _Open | None = None

    # --- items ---------------------------------------------------------------------------------
    def name_last(self, ref: str) -> None:
        """Names the message that was written last."""
        self._named[ref] = self._messages[-1]

    def add(self, ref: str, item: ContextItem, *, after: str | None = None) -> None:
        """Adds an item, see `services.face.Conversation.add`."""
        message = chat_message(item)
        if after == ROOT:
            self._messages.insert(0, message)
        else:
            at = self._find(self._named.get(after or ""))
            self._messages.insert(len(self._messages) if at is None else at + 1, message)
        self._named[ref] = message
        if isinstance(item, FunctionCall):
            self._call_ids[ref] = item.call_id

    def remove(self, ref: str) -> None:
        """Takes an item out; of an answer that has called functions its text, not the calls."""
        if self._open is not None and self._open.ref == ref:
            self._open = None  # its text is not wanted when it becomes known
        message = self._named.pop(ref, None)
        if message is None:
            return
        call_id = self._call_ids.pop(ref, None)
        if call_id is None:
            message["content"] = ""
        else:
            calls: list[Any] = message["tool_calls"]
            calls[:] = [call for call in calls if call["id"] != call_id]
        self._tidy(message)

    def forget_dropped(self) -> None:
        """Forgets what is not in the context any more."""
        here = {id(message) for message in self._messages}
        gone = [ref for ref, message in self._named.items() if id(message) not in here]
        for ref in gone:
            del self._named[ref]
            self._call_ids.pop(ref, None)

    # --- answers -------------------------------------------------------------------------------
    def ask(self, ref: str) -> None:
        """An answer is asked for from the context as it is: its place is at the end of it."""
        self._open = _Open(ref, self._messages[-1] if self._messages else None)

    def call(self, ref: str, call: FunctionCall) -> None:
        """An answer has called a function."""
        message = self._named.get(ref)
        if message is None:
            message = self._write(ref, {"role": "assistant", "content": ""})
        message.setdefault("tool_calls", []).append(_tool_call(call))
        name = call_ref(call.call_id)
        self._named[name], self._call_ids[name] = message, call.call_id

    def heard(self, ref: str, text: str) -> None:
        """An answer is over: writes what was heard of it, unless it was removed meanwhile."""
        if self._open is None or self._open.ref != ref:
            return
        text = text.strip()
        if ref in self._named:
            self._named[ref]["content"] = text
        elif text:
            self._write(ref, {"role": "assistant", "content": text})
        self._open = None

    def amend(self, ref: str, text: str) -> None:
        """Corrects what was heard of an answer that was written; without text it goes."""
        message = self._named.get(ref)
        if message is None:
            return
        message["content"] = text.strip()
        self._tidy(message)

    def _write(self, ref: str, message: ChatMessage) -> ChatMessage:
        """Puts a message of an answer in its place."""
        at = len(self._messages)
        if self._open is not None and self._open.ref == ref:
            before = self._find(self._open.before)
            if before is not None:
                at = before + 1
            elif self._open.before is None:
                at = 0
        self._messages.insert(at, message)
        self._named[ref] = message
        return message

    # --- the list ------------------------------------------------------------------------------
    def _find(self, message: ChatMessage | None) -> int | None:
        """Where a message is; equal ones are others."""
        if message is None:
            return None
        return next((at for at, each in enumerate(self._messages) if each is message), None)

    def _tidy(self, message: ChatMessage) -> None:
        """Takes a message out of which nothing is left."""
        if message.get("tool_calls"):
            return
        message.pop("tool_calls", None)
        at = self._find(message)
        if message["content"] or at is None:
            return
        del self._messages[at]
        if self._open is not None and self._open.before is message:
            self._open.before = self._messages[at - 1] if at else None
        self.forget_dropped()
