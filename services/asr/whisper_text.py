"""Guards over what Whisper wrote. Pure.

Whisper always says something: of silence it makes the closing words of video subtitles, and in a
short window it may say a sentence twice.
"""

from __future__ import annotations

import re

#: a character of Chinese, or a word of anything else
_UNIT = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+(?:'[^\W_]+)?")

_SUBTITLES = re.compile(
    r"字幕|谢谢(观看|收看|大家)|感谢(观看|收看|聆听)|请不吝|点赞|订阅|转发|打赏|明镜|优优独播|中文版权"
    r"|thank(s| you)( so much| very much)? for (watching|listening)|subtitles? by|subscribe"
    r"|sponsored by|amara\.org|^\W*(you|bye|thank you|so|oh|okay)\W*$",
    re.IGNORECASE,
)

#: shortest run of units whose repetition is suspicious: people do say 对对 and "no, no"
_SHORTEST_PERIOD = 3


def units(text: str) -> list[str]:
    """Characters of Chinese and words of other scripts, lower case, without punctuation."""
    return _UNIT.findall(text.lower())


def tidy(text: str) -> str:
    """One line, without the halves of characters that the length bound may leave."""
    return " ".join(text.replace("\ufffd", "").split())


def repeat_period(text: str) -> int:
    """Length of the phrase that `text` repeats, in units; 0 when nothing looks repeated.

    Suspicious is a text that is one phrase twice or more, as a whole, or that ends with a phrase
    three times; the last time may be cut short.
    """
    said = units(text)
    total = len(said)
    for period in range(_SHORTEST_PERIOD, total // 2 + 1):
        same = 0
        while same < total - period and said[-1 - same] == said[-1 - same - period]:
            same += 1
        covered = same + period
        if covered == total or covered >= 3 * period:
            return period
    return 0


def without_repeats(text: str, period: int) -> str:
    """`text` up to the end of the first of the repetitions that `repeat_period` found."""
    found = list(_UNIT.finditer(text))
    said = [match.group().lower() for match in found]
    same = 0
    while same < len(said) - period and said[-1 - same] == said[-1 - same - period]:
        same += 1
    return text[: found[len(said) - same - 1].end()]


def is_subtitle(text: str) -> bool:
    """True when the text is what Whisper is known to write where nothing was said."""
    return bool(_SUBTITLES.search(text))


def join_pieces(texts: list[str]) -> str:
    """Joins the texts of neighbouring pieces: a space, except beside Chinese."""
    joined = ""
    for text in texts:
        beside_chinese = joined[-1:] > "\u2e7f" or text[:1] > "\u2e7f"
        joined += text if not joined or beside_chinese else " " + text
    return joined
