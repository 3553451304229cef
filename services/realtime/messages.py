"""How a message becomes a JSON object, in bounded time whatever it holds.

The event loop is everybody's, and a few megabytes of small JSON values hold it for seconds. Only
audio needs long messages, and audio is one string: that string is cut out unread, and the rest must
be as short as any other event.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, cast

from services.realtime.schema import Refused

#: characters of the longest event that carries audio: the limit of the original for one piece
MAX_AUDIO_MESSAGE = 15 * 1024 * 1024
#: characters of any other event
MAX_MESSAGE = 256 * 1024
#: levels of objects and lists in each other: what is read must also be written, checked and walked
#: through with the stack that there is then
MAX_DEPTH = 64
_APPEND = "input_audio_buffer.append"
_AUDIO = re.compile(r'"audio"\s*:\s*"')


def decode(text: str) -> dict[str, Any]:
    """Reads one message as a JSON object.

    Raises:
        Refused: too long, not JSON, or not an object.
    """
    if len(text) > MAX_MESSAGE:
        return _decode_audio(text)
    message = _object(text)
    # audio has no text that goes anywhere, and is what most messages are
    if message.get("type") != _APPEND and not _is_text(text, message):
        raise Refused("The message has half of a surrogate pair", reason="invalid_json")
    return message


def _decode_audio(text: str) -> dict[str, Any]:
    """Reads a message that only audio may make so long."""
    found = _AUDIO.search(text, 0, MAX_MESSAGE) if len(text) <= MAX_AUDIO_MESSAGE else None
    end = text.find('"', found.end()) if found else -1
    if found is None or len(text) - (end - found.end()) > MAX_MESSAGE or end < 0:
        raise _too_large(text)
    message = _object(text[: found.end()] + text[end:])
    if message.get("type") != _APPEND or message.get("audio") != "":
        raise _too_large(text)
    audio = text[found.end() : end]
    # some encoders escape the slash and the plus of base64
    message["audio"] = _parse(f'"{audio}"') if "\\" in audio else audio
    return message


def _too_large(text: str) -> Refused:
    return Refused(
        f"The message has {len(text)} characters; {_APPEND} may have {MAX_AUDIO_MESSAGE}, "
        f"nearly all of them audio, and any other event {MAX_MESSAGE}",
        reason="message_too_large",
    )


def _object(text: str) -> dict[str, Any]:
    raw = _parse(text)
    if not isinstance(raw, dict):
        raise Refused("The message is not a JSON object", reason="invalid_json")
    return cast("dict[str, Any]", raw)


def _parse(text: str) -> Any:
    try:
        value = _decode(text)
    except (ValueError, RecursionError) as error:
        # RecursionError: brackets nested deeper than the interpreter goes
        raise Refused(f"The message is not JSON: {error}", reason="invalid_json") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_deep(value):
        raise Refused(f"The message has more than {MAX_DEPTH} levels", reason="invalid_json")
    return value


def _no_number(text: str) -> Any:
    """Refuses what Python reads as a number and JSON has not: nobody could read it from us."""
    raise ValueError(f"{text[:20]} is not a number")


def _number(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


_decode = json.JSONDecoder(parse_float=_number, parse_constant=_no_number).decode


def _is_deep(value: Any) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        # in one piece, and without what is empty: there may be tens of thousands
        level = [
            child
            for each in level
            for child in (each.values() if isinstance(each, dict) else each)
            if child and isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def _is_text(text: str, raw: dict[str, Any]) -> bool:
    """Whether every string can be written out again, to an LLM or a log.

    JSON can spell half of a surrogate pair, which no encoding has; only an escape can do so.
    """
    if "\\ud" not in text and "\\uD" not in text:
        return True
    try:
        json.dumps(raw, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True
