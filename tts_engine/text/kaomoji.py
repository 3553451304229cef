"""Faces made of signs: `:)`, `^_^`, `(≧▽≦)`, which a voice leaves out."""

from __future__ import annotations

import re

#: In parentheses one of these makes a face, if there are no words beside it.
_FEATURES = "ω▽∀□△≧≦´`°•◕‿⊙♥♡ツДд益╯╰╥﹏皿ㅂ゜ﾟಠ"
_LETTERS = "TtoOQqxXvVuUづ๑งツДд益皿口ωㅂзεﾟಠ"
_SIGN = r"[^\w\s()（）,!?，。；：！？、\"“”+%$¥/&@#]"
_PART = rf"(?:{_SIGN}|[{_LETTERS}_。])"
#: What may be held up behind it.
_ARMS = "[╯╭╮ノﾉ︵づงっو]{0,3}"

FACE = re.compile(
    rf"""[ヽヾΣ٩]?[(（](?:
        (?=[^()（）]{{0,14}}[{_FEATURES}]){_PART}{{2,14}}
        | \*?(?:([TtoOQXx;=-])[_.]{{1,3}}\1|\^[_.ow-]?\^|>[_.]{{1,3}}<)\*?
    )[)）]{_ARMS}
    | \^[_.w-]?\^ | >_{{1,3}}< | >\.< | -_{{1,3}}-(?!\w)
    | ¯\\_\(ツ\)_/¯ | [:;]-?\)(?![A-Za-z0-9]) | [:;]'?-?\((?!\w)
    """,
    re.VERBOSE,
)
#: A whole buffer that may still become one.
FACE_OPEN = re.compile(
    rf"""[ヽヾΣ٩]?(?:[(（]{_PART}{{0,14}}[)）]?{_ARMS})? | \^[_.w-]?\^? | >[_.]{{0,3}}<?
    | -_{{0,3}}-? | [:;]'?-?[()]? | ¯(?:\\(?:_(?:\((?:ツ(?:\)(?:_(?:/¯?)?)?)?)?)?)?)?
    """,
    re.VERBOSE,
)
#: What faces begin with.
FACE_STARTS = "(（ヽヾΣ٩¯^>-:;"
#: Faces that look like words.
FACE_WORDS = frozenset(
    ["T_T", "T.T", "QAQ", "QwQ", "QvQ", "OvO", "owo", "uwu", "O_O", "o_o", "XD", "xD", "orz", "Orz"]
)
