"""A conversation that outgrows the server's context loses its oldest exchanges: pure functions.

About half goes at a time. Dropping one exchange a turn would change the beginning of every request,
and the server would compute the whole conversation anew each time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import openai

#: tokens of a message besides its text: role and template, and the words that name a language
_OVERHEAD = 12
_DIGITS = re.compile(rb"[0-9]")
_TOO_LONG = re.compile(
    r"context.{0,20}(length|size|window)|(maximum|max|available) context|too (long|many tokens)"
    r"|exceeds?.{0,40}(context|tokens)",
    re.IGNORECASE | re.DOTALL,
)


def tokens_of(text: str) -> int:
    """An upper estimate of a text's tokens, for any usual tokeniser.

    A Hanzi counts for one, three Latin letters for one, a digit for one and a third: tokenisers do
    better than that with ordinary text.
    """
    data = text.encode("utf-8", "replace")
    return len(data) // 3 + len(_DIGITS.findall(data)) + 1


def message_tokens(message: Any) -> int:
    """An upper estimate of a message's tokens."""
    content = message.get("content")
    if isinstance(content, str) and len(message) == 2:
        return tokens_of(content) + _OVERHEAD
    return tokens_of(json.dumps(message, ensure_ascii=False, default=str)) + _OVERHEAD


def drop_oldest(messages: Sequence[Any], limit: int) -> list[Any]:
    """The latest exchanges of a conversation that fit.

    An exchange begins with a message of the user, so a tool's call and result stay together. The
    last exchange is always kept, and so are system messages at the very beginning, unless they
    take more than half of the room.

    Args:
        messages: the conversation, without the system prompt of ours.
        limit: tokens that the result should have at most.
    """
    sizes = [message_tokens(message) for message in messages]
    roles = [message.get("role") for message in messages]
    head = next((at for at, role in enumerate(roles) if role != "system"), len(roles))
    if sum(sizes[:head]) > limit / 2:
        head = 0
    left = limit - sum(sizes[:head])
    rest = range(head, len(roles))
    starts = [at for at in rest if roles[at] == "user"] or [
        at for at in rest if roles[at] != "tool"
    ]
    cut = starts[-1] if starts else head
    total = sum(sizes[cut:])
    for earlier, later in zip(reversed(starts[:-1]), reversed(starts), strict=False):
        total += sum(sizes[earlier:later])
        if total > left:
            break
        cut = earlier
    return [*messages[:head], *messages[cut:]]


def fit(messages: Sequence[Any], room: int) -> list[Any] | None:
    """Half a room's worth of the latest exchanges, or None while everything fits in it."""
    if sum(map(message_tokens, messages)) <= room:
        return None
    return drop_oldest(messages, room // 2)


def halve(messages: Sequence[Any]) -> list[Any]:
    """The latest exchanges, about half of the conversation."""
    return drop_oldest(messages, sum(map(message_tokens, messages)) // 2)


def is_too_long(error: Exception) -> bool:
    """Whether a server refused a request because it does not fit in its context."""
    if not isinstance(error, openai.APIStatusError) or error.status_code not in (400, 413, 422):
        return False
    if error.code == "context_length_exceeded":
        return True
    return bool(_TOO_LONG.search(f"{error.message} {error.body}"))
