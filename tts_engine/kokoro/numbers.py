"""Plain numbers in words: the language of what surrounds them decides how they are read.

Dates, times, units and money have their words before this runs (`tts_engine.text.words`); what is
left is integers, decimals, years and ordinals.
"""

from __future__ import annotations

import re

_DIGITS_ZH = "零一二三四五六七八九"
_SCALES_ZH = ((10**8, "亿"), (10**4, "万"), (1000, "千"), (100, "百"), (10, "十"))
#: Measure words before which two is 两, not 二.
_TWO = frozenset(
    "个位只天年次本张条件块台辆杯瓶双对种句遍分秒周间家口岁颗支部篇场份点步层斤公米元毛"
)
_UNDER_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
_FROM_TWENTY = "twenty thirty forty fifty sixty seventy eighty ninety"
_ONES = _UNDER_TWENTY.split()
_TENS = ("", "", *_FROM_TWENTY.split())
_SCALES = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"), (10**3, "thousand"))
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
#: Longer runs of digits are read one by one.
_LIMIT = 10**15

#: an integer or a decimal with its English ending: "3.5", "21st", "1990s"
NUMBER = re.compile(r"(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]+))?(?P<end>(?:st|nd|rd|th|s)\b)?", re.A)


def say_zh(match: re.Match[str]) -> str:
    """A match of NUMBER in Chinese: 十二, 二零二四 before 年, 两 before a measure word."""
    whole, part = match["whole"], match["part"]
    follows = match.string[match.end() : match.end() + 1]
    if part is not None:
        return f"{cardinal_zh(whole)}点{digits_zh(part)}"
    if follows == "年" and len(whole) == 4:
        return digits_zh(whole)
    if int(whole) == 2 and follows in _TWO and not match.string[: match.start()].endswith("第"):
        return "两"
    return cardinal_zh(whole)


def digits_zh(digits: str) -> str:
    """Digit by digit."""
    return "".join(_DIGITS_ZH[int(digit)] for digit in digits)


def cardinal_zh(digits: str) -> str:
    """An amount; a leading zero or too many digits make it a name, read digit by digit."""
    if (len(digits) > 1 and digits[0] == "0") or int(digits) >= _LIMIT:
        return digits_zh(digits)
    said = _words_zh(int(digits))
    return said[1:] if said.startswith("一十") else said


def _words_zh(number: int) -> str:
    for scale, name in _SCALES_ZH:
        if number >= scale:
            rest = number % scale
            # A gap in the places is heard as one 零.
            gap = "零" if 0 < rest < scale // 10 else ""
            return _words_zh(number // scale) + name + gap + (_words_zh(rest) if rest else "")
    return _DIGITS_ZH[number]


def say_en(match: re.Match[str]) -> str:
    """A match of NUMBER in English: twelve, nineteen ninety, twenty first, three point five."""
    whole, part, end = match["whole"], match["part"], match["end"] or ""
    if part is not None:
        return f"{cardinal_en(whole)} point {digits_en(part)}{' ' + end if end else ''}"
    if end == "s":
        return _plural(year_en(whole) if len(whole) == 4 else cardinal_en(whole))
    if end:
        return ordinal_en(cardinal_en(whole))
    before = match.string[: match.start()].rstrip()
    if len(whole) == 4 and ("1100" <= whole <= "2099") and not before.endswith(("$", "#")):
        follows = match.string[match.end() :].lstrip()[:1]
        # "1500 people" is an amount, "in 1500," and "May 5, 2024" are years.
        if not follows.isalpha() or re.search(r"(?i)\b(?:in|since|by|of|year|until)$", before):
            return year_en(whole)
        if "1900" <= whole <= "2099":
            return year_en(whole)
    return cardinal_en(whole)


def digits_en(digits: str) -> str:
    """Digit by digit."""
    return " ".join(_ONES[int(digit)] for digit in digits)


def cardinal_en(digits: str) -> str:
    """An amount; a leading zero or too many digits make it a name, read digit by digit."""
    if (len(digits) > 1 and digits[0] == "0") or int(digits) >= _LIMIT:
        return digits_en(digits)
    return _words_en(int(digits))


def _words_en(number: int) -> str:
    for scale, name in _SCALES:
        if number >= scale:
            head = f"{_words_en(number // scale)} {name}"
            return f"{head} {_words_en(number % scale)}" if number % scale else head
    if number >= 100:
        head = f"{_ONES[number // 100]} hundred"
        return f"{head} {_words_en(number % 100)}" if number % 100 else head
    if number < 20:
        return _ONES[number]
    return _TENS[number // 10] + (f" {_ONES[number % 10]}" if number % 10 else "")


def year_en(digits: str) -> str:
    """Four digits in pairs: nineteen oh five, twenty twenty four, two thousand and nine."""
    number = int(digits)
    century, rest = divmod(number, 100)
    if rest == 0:
        return _words_en(number) if century % 10 == 0 else f"{_words_en(century)} hundred"
    if 2000 < number < 2010:
        return f"two thousand and {_ONES[rest]}"
    return f"{_words_en(century)} {'oh ' if rest < 10 else ''}{_words_en(rest)}"


def ordinal_en(words: str) -> str:
    """The ordinal of an amount in words."""
    head, _, last = words.rpartition(" ")
    last = f"{last[:-1]}ieth" if last.endswith("y") else _ORDINALS.get(last, f"{last}th")
    return f"{head} {last}" if head else last


def _plural(words: str) -> str:
    """Nineties, hundreds."""
    return f"{words[:-1]}ies" if words.endswith("y") else f"{words}s"
