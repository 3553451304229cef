"""Is a mark the end of something? Full-width marks are; ASCII ones only by what surrounds them."""

from __future__ import annotations

from enum import Enum

from tts_engine.text.chars import is_ascii_alnum, is_hanzi

#: These end a sentence wherever they stand.
FULL_ENDS = frozenset("。！？…")
#: At these a clause may end.
FULL_COMMAS = frozenset("，、；：")
#: These need a look at what follows: numbers, abbreviations and addresses are full of them.
ASCII_ENDS = frozenset(".!?")
ASCII_COMMAS = frozenset(",;:")

#: Never at the end of a sentence.
_TITLES = """
mr mrs ms dr prof st jr sr gen gov rev hon capt sgt col lt mt vs e.g i.e eg ie cf viz approx dept
est ave blvd rd jan feb mar apr jun jul aug sep sept oct nov dec
"""
_NEVER_LAST = frozenset(_TITLES.split())
#: At the end of a sentence if a capital follows; so are numbers ("1. open it 2. close it").
_OFTEN_LAST = frozenset(["a.m", "p.m", "am", "pm", "etc", "inc", "ltd", "co", "corp"])
#: At the end of a sentence unless a number follows.
_BEFORE_NUMBERS = frozenset(["no", "nos", "fig", "figs", "vol", "pp", "ch", "sec", "art"])
#: "Mrs", "approx", and nothing much longer.
_LONGEST = 12


class Verdict(Enum):
    """What a mark turned out to be."""

    END = "end"
    PART = "part"  # of a number, an abbreviation, an address
    LATER = "later"  # depends on the character after the space


def judge(before: str, mark: str, after: str, *, spaced: bool) -> Verdict:
    """Judges an ASCII mark.

    Args:
        before: the clause up to the mark.
        mark: the mark.
        after: the first character behind the mark; with `spaced` the first one that is no space.
        spaced: there was a space between.
    """
    last = before[-1:]
    if mark in "!?;":
        return Verdict.PART if after == "=" else Verdict.END
    if mark == ",":
        return Verdict.PART if last.isdigit() and after.isdigit() and not spaced else Verdict.END
    if mark in ":：":
        joined = is_ascii_alnum(after) or after == "/"
        return Verdict.PART if joined and not spaced else Verdict.END
    return _judge_stop(before, after, spaced=spaced)


def _judge_stop(before: str, after: str, *, spaced: bool) -> Verdict:
    if before.endswith("."):
        return Verdict.END  # an ellipsis
    if not spaced and (is_ascii_alnum(after) or (after and after in "/\\@_-,;")):
        return Verdict.PART
    word = _last_word(before)
    lower = word.lower()
    if lower in _NEVER_LAST or _is_initials(word) or _numbers_an_item(before, word, after):
        return Verdict.PART
    if lower in _BEFORE_NUMBERS:
        goes_on = after.isdigit()
    elif lower in _OFTEN_LAST or word.isdigit():
        goes_on = (after.isascii() and after.islower()) or after in _INSIDE
    else:
        return Verdict.END
    if after == " ":
        return Verdict.LATER
    return Verdict.PART if goes_on else Verdict.END


#: After an abbreviation these go on with the sentence.
_INSIDE = frozenset(",;:，；：、)")


def _last_word(before: str) -> str:
    """The letters, digits and inner stops directly before a mark."""
    tail = before[-_LONGEST:]
    at = len(tail)
    while at and (is_ascii_alnum(tail[at - 1]) or tail[at - 1] == "."):
        at -= 1
    return tail[at:].lstrip(".")


def _is_initials(word: str) -> bool:
    """True for "J" of "J. Smith", "U.S" of "U.S."; not the pronoun."""
    if word.lower() in _OFTEN_LAST or word == "I":
        return False
    parts = word.split(".")
    return all(len(part) == 1 and part.isalpha() for part in parts) and word[:1].isupper()


def _numbers_an_item(before: str, word: str, after: str) -> bool:
    """True for "1" of "1. Open the box": a short number with nothing of its sentence before it."""
    if not (word.isdigit() and len(word) <= 2):
        return False
    rest = before[: len(before) - len(word)]
    said = rest.rstrip()
    if not said or said[-1] in ":：。！？.!?;；":
        return True
    # "打开 2. 关闭", "打开2.关闭"
    return is_hanzi(said[-1]) and (said != rest or is_hanzi(after))
