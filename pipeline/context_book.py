# pyright: strict
"""The book of a conversation's context: which message is which item, and where each belongs.

The messages are pipecat's `LLMContext`, in OpenAI's chat format; the book edits that list in place
and finds a message by its identity, since the context's shortening drops messages of it as well.
What is not in the list any more is forgotten.

An answer has its place from the moment it is asked for, though its text is known only when it was
heard: what a client adds meanwhile comes after it. One that was made before its turn had ended has
its place once that turn is written; what is told of it before that waits. The function calls of an
answer and its text are one message: {"role": "assistant", "content": heard, "tool_calls": [...]}.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
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


@dataclass(slots=True)
class _Expected:
    """An answer whose turn is not written yet.

    Parameters:
        ref: its name.
        waiting: what was told of it.
    """

    ref: str
    waiting: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])


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
        self._expected: _Expected | None = None

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

    def drop(self, messages: Sequence[Any]) -> None:
        """Takes messages out that no request is to hold any more, as far as they are there."""
        gone = {id(message) for message in messages}
        self._messages[:] = [each for each in self._messages if id(each) not in gone]
        self._forget_dropped()

    def _forget_dropped(self) -> None:
        """Forgets what is not in the context any more."""
        here = {id(message) for message in self._messages}
        gone = [ref for ref, message in self._named.items() if id(message) not in here]
        for ref in gone:
            del self._named[ref]
            self._call_ids.pop(ref, None)

    # --- answers -------------------------------------------------------------------------------
    def expect(self, ref: str) -> None:
        """An answer that was made already gets its place by the next `ask` that names it."""
        self._expected = _Expected(ref)

    def ask(self, ref: str) -> None:
        """An answer is asked for from the context as it is: its place is at the end of it."""
        self._open = _Open(ref, self._messages[-1] if self._messages else None)
        expected, self._expected = self._expected, None
        if expected is not None and expected.ref == ref:
            for told in expected.waiting:
                told()

    def call(self, ref: str, call: FunctionCall) -> None:
        """An answer has called a function."""
        if self._waits(ref, partial(self.call, ref, call)):
            return
        message = self._named.get(ref)
        if message is None:
            message = self._write(ref, {"role": "assistant", "content": ""})
        message.setdefault("tool_calls", []).append(_tool_call(call))
        name = call_ref(call.call_id)
        self._named[name], self._call_ids[name] = message, call.call_id

    def heard(self, ref: str, text: str) -> None:
        """An answer is over: writes what was heard of it, unless it was removed meanwhile."""
        if self._waits(ref, partial(self.heard, ref, text)):
            return
        if self._open is None or self._open.ref != ref:
            return
        text = text.strip()
        if ref in self._named:
            self._named[ref]["content"] = text
        elif text:
            self._write(ref, {"role": "assistant", "content": text})
        self._open = None

    def amend(self, ref: str, text: str) -> bool:
        """Corrects what was heard of an answer that was written; without text it goes.

        Returns:
            Whether that changed the context, as it is now.
        """
        text, message = text.strip(), self._named.get(ref)
        if self._waits(ref, partial(self.amend, ref, text)):
            return False
        if message is None or message["content"] == text:
            return False
        message["content"] = text
        self._tidy(message)
        return True

    def _waits(self, ref: str, told: Callable[[], object]) -> bool:
        """Keeps what is told of an answer that has no place yet."""
        if self._expected is None or self._expected.ref != ref:
            return False
        self._expected.waiting.append(told)
        return True

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
        self._forget_dropped()
