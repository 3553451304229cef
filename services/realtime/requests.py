# pyright: strict
"""Answers that the client asked for and that have not begun."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from services.face import AnswerOptions
from services.items import ContextItem, FunctionCall, FunctionOutput
from services.realtime.items import Items, context_item, unknown_call
from services.realtime.schema import MAX_TOKENS, Refused, token_limit
from services.realtime.schema_items import CallItem, CallOutputItem, ItemReference, MessageItem
from services.realtime.schema_response import ResponseOptions
from services.realtime.session import Session
from services.realtime.tools import check_choice

#: requests that may wait; those in the conversation replace one another at once
MAX_REQUESTS = 128


@dataclass(slots=True, kw_only=True)
class Request:
    """What the client wants of one answer.

    Parameters:
        ask: names it, see AnswerOptions.
        stopped: the client has asked for its end.
    """

    ask: int
    options: ResponseOptions
    stopped: bool = False

    @property
    def remembered(self) -> bool:
        """The answer becomes part of the conversation."""
        return self.options.conversation != "none"


class Requests:
    """The requests that wait, by their number."""

    def __init__(self) -> None:
        self._waiting: dict[int, Request] = {}
        self._last = 0
        self._begun: Request | None = None  # the last one in the conversation

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def new(self, options: ResponseOptions | None, *, untold: int) -> Request:
        """A request that does not wait yet.

        Args:
            untold: requests that have ended, which the client has yet to be told.

        Raises:
            Refused: too many wait.
        """
        if len(self._waiting) + untold >= MAX_REQUESTS:
            raise Refused(
                f"{MAX_REQUESTS} responses are waiting already",
                reason="too_many_responses",
                mend="Wait for one to begin",
            )
        self._last += 1
        return Request(ask=self._last, options=options or ResponseOptions())

    def asked(self, request: Request) -> None:
        """The conversation has taken it."""
        if request.remembered:
            self.stop(lambda other: other.remembered)
        self._waiting[request.ask] = request

    def begin(self, ask: int | None) -> Request | None:
        """The request that begins; None: no request of the client's. One whose answer called
        functions of the daemon begins again with what follows.
        """
        request = self.take(ask)
        if request is not None and request.remembered:
            self._begun = request
        if request is None and self._begun is not None and self._begun.ask == ask:
            request = self._begun
        return request

    def take(self, ask: int | None) -> Request | None:
        """The request that waits no more; None: no request of the client's that waited."""
        return self._waiting.pop(ask, None) if ask is not None else None

    def stop(self, which: Callable[[Request], bool] = lambda _: True) -> None:
        """The client has asked for their end."""
        for request in self._waiting.values():
            if which(request):
                request.stopped = True


def answer_options(request: Request, session: Session, items: Items) -> AnswerOptions:
    """The request for the conversation.

    Raises:
        Refused: its parts do not go together, or it refers to what is not there.
    """
    given = request.options
    tools = tuple(tool.tool() for tool in given.tools) if given.tools is not None else None
    if given.tool_choice is not None:
        known = session.tools if tools is None else tools
        check_choice(given.tool_choice, known, param="response.tool_choice")
    speech = given.audio.output if given.audio else None
    limit = given.max_output_tokens
    unlimited = limit == "inf" and session.max_tokens is not None
    return AnswerOptions(
        ask=request.ask,
        instructions=given.instructions,
        voice=speech.voice if speech else None,
        speak=None if given.output_modalities is None else given.output_modalities == ["audio"],
        max_tokens=MAX_TOKENS if unlimited else token_limit(limit),
        tools=tools,
        tool_choice=given.tool_choice,
        context=_context(given, items) if given.input is not None else None,
        remember=request.remembered,
    )


def _context(given: ResponseOptions, items: Items) -> tuple[ContextItem, ...]:
    """The input of an answer, which must make sense by itself: an output comes after its call."""
    context: list[ContextItem] = []
    calls: set[str] = set()
    for place, entry in enumerate(given.input or ()):
        param = f"response.input[{place}]"
        item = _resolved(entry, items, param, place)
        if isinstance(item, FunctionCall):
            calls.add(item.call_id)
        elif isinstance(item, FunctionOutput) and item.call_id not in calls:
            raise unknown_call(item.call_id, param=param)
        context.append(item)
    return tuple(context)


def _resolved(
    entry: MessageItem | CallItem | CallOutputItem | ItemReference,
    items: Items,
    param: str,
    place: int,
) -> ContextItem:
    if isinstance(entry, ItemReference):
        shown = items.get(entry.id, param=f"{param}.id").shown
        known = context_item(shown) if shown is not None else None
        if known is None:
            raise Refused(
                f"The text of item '{entry.id[:100]}' is not known",
                reason="item_content_not_known",
                param=f"{param}.id",
            )
        return known
    return entry.context(call_id=f"call_input_{place}")
