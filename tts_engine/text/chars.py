"""What kind of character is it?"""

from __future__ import annotations

import unicodedata

#: Full-width letters, digits and signs become ASCII. Not the punctuation: at a full-width mark a
#: clause may end without look-ahead, and a voice pauses there.
_FULL_WIDTH = {
    chr(c): chr(c - 0xFEE0) for c in range(0xFF01, 0xFF5F) if chr(c) not in "！，：；？（）～"
}
_FOLDED = _FULL_WIDTH | {
    "\u3000": " ",
    "〜": "～",
    "｡": "。",
    "､": "、",
    "−": "-",
    "∶": ":",
    **dict.fromkeys("❗❕‼", "！"),
    **dict.fromkeys("❓❔⁉", "？"),
    "‐": "-",
    "‑": "-",
    "‒": "-",
    "￥": "¥",
    "\r": "\u200b",  # half of a line end; the other half does the work
    "\v": "\n",
    "\f": "\n",
    "\x85": "\n",
    "\u2028": "\n",
    "\u2029": "\n",
}

#: Written without spaces between words; a character takes about as long to say as three Latin ones.
_WIDE = ((0x3400, 0x9FFF), (0x3005, 0x3007), (0x3040, 0x30FF), (0xAC00, 0xD7AF), (0xF900, 0xFAFF))


def fold(char: str) -> str:
    """One character for one character: ASCII for full-width, one kind of space and line end."""
    if char < "\x7f" and char >= " ":
        return char
    if char in _FOLDED:
        return _FOLDED[char]
    category = unicodedata.category(char)
    if category == "Zs" or char == "\t":
        return " "
    # Controls, surrogates, unassigned: nothing that a voice could say.
    if category[0] == "C" and char != "\n":
        return "\u200b"
    return char


def is_hanzi(char: str) -> bool:
    """Hanzi, the extension planes included."""
    return "\u4e00" <= char <= "\u9fff" or "\u3400" <= char <= "\u4dbf" or char >= "\U00020000"


def is_wide(char: str) -> bool:
    """Hanzi, kana and hangul."""
    if char < "\u3000":
        return False
    if "\u4e00" <= char <= "\u9fff":
        return True
    code = ord(char)
    return any(low <= code <= high for low, high in _WIDE) or 0x20000 <= code <= 0x3FFFF


def is_ascii_alnum(char: str) -> bool:
    """A letter or digit of ASCII; False for the empty string."""
    return char.isascii() and char.isalnum()


def is_speakable(char: str) -> bool:
    """Letters, digits and Hanzi: what is read aloud even when it stands alone."""
    return char.isalnum()
