"""Numbers at the end of what was said: a telephone number is said with pauses inside."""
# pyright: strict

from __future__ import annotations

import re

from pipeline.turns.levels import DOUBTFUL, GOING_ON, LIKELY, UNLIKELY

_ZH_DIGITS = "零〇幺一二三四五六七八九"
_ZH_VALUES = str.maketrans(_ZH_DIGITS, "001123456789")
_ZH_UNITS = "十百千万亿"
_EN_DIGITS = {
    word: str(digit)
    for digit, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    )
} | {"oh": "0"}
EN_LARGE = re.compile(
    "ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen"
    "|(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundred|thousand|million|billion"
)

_ARABIC_END = re.compile(r"\d[\d .,:-]*$")
_ZH_END = re.compile(f"[{_ZH_DIGITS}两{_ZH_UNITS}]+(?:点[{_ZH_DIGITS}]*)?$")
#: words in which a numeral counts nothing, or names what it stands for
_ZH_WORD = re.compile(
    "(?:万一|唯一|统一|之一|专一|单一|第[一二三四五六七八九十]+|[周期拜][一二三四五六]|点[^点]*)$"
)

#: what is said before digits that are read out one by one
_DIALLED = re.compile(
    r"电话|号码|手机|拨|打给|验证码|密码|卡号|账号|单号|尾号|编号|微信号"
    r"|\b(?:call|dial|phone|number|code|pin|passcode|password|account|card|extension)\b"
)
_SHORT_CODE = re.compile(r"验证码|密码|尾号|编号|\b(?:code|pin|passcode|password|extension)\b")
#: lengths of whole telephone numbers: service numbers, landlines, North America, mainland China
_SERVICE = re.compile(r"1[12]\d|911|999|112|1[02]\d{3}|95\d{3}|[48]00\d{7}")
_WHOLE = frozenset({11})
_ALMOST = frozenset({7, 8, 10})
_CODES = frozenset({4, 6})
#: "调到 26", "equals four": a value is given, and it is this
_VALUE = re.compile(
    r"(?:到|为|成|于|是|第|号|=|\b(?:to|equals|is|are|i'?m|at|number|level|page|channel)) ?$"
)
#: "number two"
_RANK = re.compile(r"(?:\bnumber|号) ?$")
_YEAR = re.compile(r"(?:19|20)\d\d")
#: "a table for two" is whole; "for five": of what?
_PARTY = re.compile(r"\b(?:table|room|tickets?|reservation|dinner|lunch) for $")
_COUNTED = re.compile(r"(?:要|来|买|订|定|\b(?:for|in|after|every|about|another|want|need)) ?$")


def number_end(clause: str) -> float | None:
    """How finished a clause is that ends in a number; None: it does not.

    Args:
        clause: in NFKC and lower case, without marks at the end.
    """
    start = _number_start(clause)
    if start is None:
        return None
    before, number = clause[:start], clause[start:].strip()
    digits = _spelled(number)
    if _DIALLED.search(before) and not _RANK.search(before):
        return _dialled(digits, short=bool(_SHORT_CODE.search(before)))
    if digits is not None and len(digits) >= 2 and not re.fullmatch(r"\d[\d.,:]*", number):
        return _row(len(digits))
    if number.isdigit() and len(number) >= 7:
        return _row(len(number))
    if _PARTY.search(before) or _YEAR.fullmatch(number):
        return LIKELY
    return _value(before)


def _number_start(clause: str) -> int | None:
    for pattern in (_ARABIC_END, _ZH_END):
        match = pattern.search(clause)
        if match and not _ZH_WORD.search(clause):
            return match.start()
    words = clause.split(" ")
    count = 0
    while count < len(words) and _is_english_number(words[-1 - count]):
        count += 1
    # "this one", "which one": no number. What is counted by a single word is.
    if not count or (count == 1 and words[-1] in {"one", "oh"} and len(words) > 1):
        return None
    return len(" ".join(words[:-count])) + (count < len(words))


def _is_english_number(word: str) -> bool:
    return word in _EN_DIGITS or EN_LARGE.fullmatch(word) is not None


def _spelled(number: str) -> str | None:
    """The digits, if they were said one by one, as far as the writing tells."""
    words = number.split(" ")
    if all(word in _EN_DIGITS for word in words):
        return "".join(_EN_DIGITS[word] for word in words)
    digits = re.sub("[ .,:-]", "", number.translate(_ZH_VALUES))
    return digits if digits.isdecimal() else None


def _dialled(digits: str | None, *, short: bool) -> float:
    if digits is None:
        return UNLIKELY
    size = len(digits)
    if size in _WHOLE or _SERVICE.fullmatch(digits) or (short and size in _CODES):
        return LIKELY
    return DOUBTFUL if size in _ALMOST else GOING_ON


def _row(size: int) -> float:
    """Digits one by one, of which it is not said what they are."""
    if size in _WHOLE:
        return LIKELY
    return DOUBTFUL if size in _ALMOST or size == 4 else GOING_ON if size > 2 else UNLIKELY


def _value(before: str) -> float:
    if _COUNTED.search(before):
        return UNLIKELY
    return LIKELY if _VALUE.search(before) else DOUBTFUL
