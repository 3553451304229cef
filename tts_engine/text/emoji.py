"""Pictures in text: emoji and pictographs, which a voice leaves out."""

from __future__ import annotations

from bisect import bisect_right

#: First and last code point. Letters, digits and the signs that are read aloud (→ ° × ÷) are not
#: here. The joiners are, so every sequence (families, flags, skin tones, keycaps) vanishes whole.
_RANGES = (
    (0x00A9, 0x00A9),  # copyright
    (0x00AE, 0x00AE),  # registered
    (0x20E3, 0x20E3),  # the box of a keycap
    (0x2100, 0x2102),
    (0x2104, 0x2108),
    (0x2117, 0x2117),
    (0x2120, 0x2122),  # service mark, telephone, trade mark
    (0x2139, 0x2139),
    (0x2190, 0x2191),
    (0x2193, 0x21FF),  # arrows other than →
    (0x2300, 0x23FF),  # technical
    (0x2500, 0x25FF),  # boxes, blocks, shapes
    (0x2600, 0x27BF),  # symbols, dingbats
    (0x27F0, 0x27FF),
    (0x2900, 0x297F),
    (0x2B00, 0x2BFF),
    (0x3012, 0x3013),
    (0x3020, 0x3020),
    (0x3030, 0x3030),
    (0x303D, 0x303D),
    (0x3297, 0x3297),
    (0x3299, 0x3299),
    (0xFE00, 0xFE0F),  # variation selectors
    (0x1F000, 0x1FAFF),  # emoji, flags, skin tones
    (0xE0000, 0xE01EF),  # tags, variation selectors
)
_FIRSTS = [first for first, _ in _RANGES]


def is_pictograph(char: str) -> bool:
    """True for a character that is part of a picture."""
    code = ord(char)
    at = bisect_right(_FIRSTS, code) - 1
    return at >= 0 and code <= _RANGES[at][1]
