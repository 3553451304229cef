"""How finished a text is: whether the user, who is silent now, can have meant to say just this.

Only signs of going on count. An ordinary utterance needs no mark to be as good as finished, for
streaming recognisers write none; those that do put a full stop behind anything, so it raises what
is in doubt and does not save what cannot end (然后。).
"""
# pyright: strict

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from pipeline.turns.digits import number_end
from pipeline.turns.endings_en import english
from pipeline.turns.endings_zh import mandarin
from pipeline.turns.expressions import is_hanzi
from pipeline.turns.levels import DOUBTFUL, FINISHED, GOING_ON, LIKELY, UNLIKELY

#: marks at the end, as NFKC writes them, with what closes them
_MARKS_END = re.compile(r"[^\w%$€£¥°#@&+=]*$|_+$")
_INNER_MARKS = re.compile(r"[,;:!?。、…]|(?<!\d)\.|\.(?!\d)|[-–—]{2,}")
_TRAILING_OFF = re.compile(r"\.\.|。。|…|[-–—~]\W*$")
_QUOTES = re.compile(r"[()\[\]{}<>《》「」『』【】“”\"]")
_PAIRS = ("()", "[]", "{}", "<>", "《》", "「」", "『』", "【】", "“”")
_LIST = re.compile(r"[^、,]+(?:、[^、]+){2,}|[^,]+(?:, ?\w+(?: \w+)?){2,}")
_LIST_ENDS = re.compile(r"和|以及|或|还有|等|\b(?:and|or|etc)\b")

#: characters that are looked at: the end tells, and this runs on the event loop
_LONGEST = 400
#: how much of the doubt a full stop takes
_STOP_SETTLES = 0.6


@lru_cache(maxsize=1024)
def completeness(text: str) -> float:
    """How finished what the user said is, by its words and marks, in Mandarin and English.

    Args:
        text: as a recogniser wrote it, with punctuation or without; any text.

    Returns:
        1: finished; 0: the user must go on. Nothing said is finished. Space at the end means
        nothing.
    """
    said = unicodedata.normalize("NFKC", text.rstrip()[-_LONGEST:]).casefold()
    end = _MARKS_END.search(said)
    body, marks = (said[: end.start()], end.group()) if end else (said, "")
    if not any(c.isalnum() for c in body):
        return FINISHED
    return _marked(min(_words(body), _enclosed(said), _listed(body)), "".join(marks.split()))


def _words(body: str) -> float:
    """By the last words alone."""
    clause = _INNER_MARKS.split(body)[-1]
    level = number_end(clause.strip())
    if level is not None:
        return level
    last = next(c for c in reversed(body) if c.isalnum())
    if is_hanzi(last):
        return mandarin(re.sub(r"[^\w]|_", "", clause))
    words = re.sub(r"['’`]", "", clause)
    return english(" ".join(re.sub(r"[^a-z0-9]+", " ", words).split()) or "?")


def _enclosed(said: str) -> float:
    """Whether a bracket or quote is still open."""
    found = _QUOTES.findall(said)
    opened = any(found.count(left) > found.count(right) for left, right in _PAIRS)
    return UNLIKELY if opened or found.count('"') % 2 else FINISHED


def _listed(body: str) -> float:
    """Things in a row, of which none is joined to the last by "and", may get one more."""
    return DOUBTFUL if _LIST.fullmatch(body) and not _LIST_ENDS.search(body) else FINISHED


def _marked(level: float, marks: str) -> float:
    """By the marks at the end, and what the words say."""
    if _TRAILING_OFF.search(marks):
        return min(level, GOING_ON)
    last = marks.rstrip("\"'’”)]}>》」』】")[-1:]
    if last in ("、", ":"):
        return GOING_ON
    if last in (",", ";"):
        return min(level, UNLIKELY)
    if last == "?":
        return FINISHED if level > UNLIKELY else DOUBTFUL
    if last in (".", "。", "!") and level > UNLIKELY:
        return level + (FINISHED - level) * _STOP_SETTLES
    return min(level, LIKELY) if not last and level < FINISHED else level
