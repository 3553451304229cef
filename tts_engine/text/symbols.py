"""Mathematical and other signs in words, where they stand between what they join."""

from __future__ import annotations

import re

from tts_engine.text.chars import is_ascii_alnum
from tts_engine.text.rule import rule, words

_SIGNS = {
    "+": ("加", " plus "),
    "×": ("乘", " times "),
    "*": ("乘", " times "),
    "÷": ("除以", " divided by "),
    "=": ("等于", " equals "),
    "≈": ("约等于", " is about "),
    "≠": ("不等于", " is not equal to "),
    "≤": ("小于等于", " is at most "),
    "≥": ("大于等于", " is at least "),
    "<": ("小于", " is less than "),
    ">": ("大于", " is greater than "),
    "±": ("正负", " plus or minus "),
    "→": ("到", " to "),
}
#: Between two things only: elsewhere they are decoration.
_BETWEEN = "<>→*="
_POWERS = {"2": ("的平方", " squared"), "3": ("的立方", " cubed")}
_FRACTIONS = {
    "½": ("二分之一", " one half"),
    "⅓": ("三分之一", " one third"),
    "⅔": ("三分之二", " two thirds"),
    "¼": ("四分之一", " one quarter"),
    "¾": ("四分之三", " three quarters"),
}


def _sign(match: re.Match[str], chinese: bool) -> str:
    sign = {"->": "→", "=>": "→", "<=": "≤", ">=": "≥", "!=": "≠"}.get(match["sign"])
    sign = sign or match["sign"][0]
    left = match.string[match.start() - 1 : match.start()]
    right = match.string[match.end() : match.end() + 1]
    joined = [bool(side) and (side.isalnum() or side in ")(（）√π") for side in (left, right)]
    comparable = sign not in "<>" or is_ascii_alnum(left) or is_ascii_alnum(right)
    if not (comparable and (all(joined) if sign in _BETWEEN else any(joined))):
        return " "
    return _SIGNS[sign][0 if chinese else 1]


def _ampersand(match: re.Match[str], chinese: bool) -> str:
    left, right = match.string[: match.start()][-1:], match.string[match.end() :][:1]
    if is_ascii_alnum(left) and is_ascii_alnum(right):
        return " and "  # R&D, in any language
    return "和" if chinese else " and "


def _power(match: re.Match[str], chinese: bool) -> str:
    digits = match[0].lstrip("^").translate({ord("²"): "2", ord("³"): "3"})
    if digits in _POWERS:
        return _POWERS[digits][0 if chinese else 1]
    return f"的{digits}次方" if chinese else f" to the power of {digits}"


def _circled(char: str) -> int:
    return ord(char) - ord("①") + 1


def _list_number(match: re.Match[str], chinese: bool) -> str:
    return f"{_circled(match[0])}{'，' if chinese else ', '}"


SYMBOL_RULES = (
    words("plus plus", r"(?<![A-Za-z])C(?P<plus>\+\+)", "加加", " plus plus", "plus"),
    words("sharp", r"(?<![A-Za-z])[CF](?P<sharp>#)", " sharp", " sharp", "sharp"),
    words("minutes", r"(?<=[0-9])′", "分", " minutes "),
    words("seconds", r"(?<=[0-9])″", "秒", " seconds "),
    words("root", r"√(?=[0-9A-Za-z(（])", "根号", " the square root of "),
    words("pi", r"π", "派", " pi "),
    rule("list number", r"[①-⑳](?!\s*$)", _list_number),
    rule("list number", r"[①-⑳]", lambda m, _: str(_circled(m[0]))),
    rule("numeral", r"[Ⅰ-Ⅻ]", lambda m, _: str(ord(m[0]) - 0x215F)),
    rule("power", r"(?<=[0-9A-Za-z)])(?:[²³]|\^[0-9]+)", _power),
    rule("fraction", r"[½⅓⅔¼¾]", lambda m, zh: _FRACTIONS[m[0]][0 if zh else 1]),
    words("times", r"(?<=[0-9])\s?[xX]\s?(?=[0-9])", "乘", " by "),
    rule("sign", r"[ ]?(?P<sign>->|=>|<=|>=|!=|=+|[+×*÷≈≠≤≥<>±→])[ ]?", _sign),
    rule("ampersand", r"[ ]?&[ ]?", _ampersand),
    words("at", r"@", "艾特", " at "),
    words("number sign", r"#[ ]?(?=[0-9])", "第", "number "),
    words("dot", r"(?<=[0-9A-Za-z]{2})\.(?=[A-Za-z]{2})", "点", " dot "),
    words("slash", r"(?<=[\u4e00-\u9fff])[ ]?/[ ]?(?=[\u4e00-\u9fff])", "、", " "),
)
