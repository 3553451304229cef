"""Character entities of HTML: `&amp;`, `&#65;`."""

from __future__ import annotations

import html
import re

from tts_engine.text.chars import fold
from tts_engine.text.emoji import is_pictograph

_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
#: A whole buffer that may still become one.
ENTITY_OPEN = re.compile(r"&(?:#?[0-9A-Za-z]{0,12})?")
_SILENT = ("\u200b", "\n")


def entity(text: str) -> tuple[str, int]:
    """What the entity that `text` begins with stands for, and its length; 0 if there is none.

    A picture is a space, and so is what is not visible.
    """
    match = _ENTITY.match(text)
    plain = html.unescape(match.group()) if match else ""
    if not match or plain == match.group():
        return "", 0
    chars = [" " if is_pictograph(c) or fold(c) in _SILENT else fold(c) for c in plain]
    return "".join(chars), match.end()
