"""Dates, times, ranges, telephone and version numbers, percents and fractions in words.

Plain numbers are left to the voice, which reads them well.
"""

from __future__ import annotations

import re

from tts_engine.text.rule import NUM, START, rule, words

_DIGITS = "零一二三四五六七八九"
_NAMES = "January February March April May June July August September October November December"
_MONTHS = _NAMES.split()
_PARTS = ["half", "third", "quarter", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"]
_ONES = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_PART_END = re.compile(r"[，。！？；、]|[,.;!?](?!\S)")
_SEPARATORS = re.compile(r"[-. ()]+")


def spell(text: str, chinese: bool) -> str:
    """Digit by digit; what separates groups is a short pause."""
    groups = [group for group in _SEPARATORS.split(text.lstrip("+")) if group]
    if chinese:
        return "，".join("".join(_DIGITS[int(digit)] for digit in group) for group in groups)
    return ", ".join(" ".join(group) for group in groups)


def in_equation(match: re.Match[str]) -> bool:
    """True if the part of the sentence around a match has an equals sign."""
    text = match.string
    before = _PART_END.split(text[: match.start()])[-1]
    return "=" in before + match[0] + _PART_END.split(text[match.end() :], maxsplit=1)[0]


def _date(year: str, month: str, day: str, chinese: bool) -> str | None:
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return None
    if chinese:
        return f"{year}年{int(month)}月{int(day)}日"
    return f"{_MONTHS[int(month) - 1]} {int(day)}, {year}"


def _version(match: re.Match[str], chinese: bool) -> str:
    number = match["v"] or match["plain"]
    parts = number.split(".")
    name = ""
    if match["v"] and not re.search(r"(?:版本|version)\s*$", match.string[: match.start()], re.I):
        name = "版本" if chinese else "version "
    return name + ("点" if chinese else " point ").join(parts)


def _range(match: re.Match[str], chinese: bool) -> str | None:
    if in_equation(match):
        return None  # a minus
    return "到" if chinese else " to "


def _time(match: re.Match[str], chinese: bool) -> str:
    hour, minute = int(match["h"]), int(match["m"])
    second = int(match["s"]) if match["s"] else None
    half = match["half"] or ""
    if chinese:
        said = f"{hour}点"
        if minute or second is not None:
            said += f"零{minute}分" if minute < 10 else f"{minute}分"
        if second is not None:
            said += f"{second}秒"
        return {"a": "上午", "p": "下午"}.get(half[:1].lower(), "") + said
    said = str(hour)
    if minute:
        said += f" oh {minute}" if minute < 10 else f" {minute}"
    elif second is None and not half:
        said += " o'clock"
    if second is not None:
        said += f" and {second} seconds"
    return f"{said} {half}" if half else said


def _percent(match: re.Match[str], chinese: bool) -> str:
    low = match["low"] or ""
    thousandth = match["sign"] == "‰"
    if chinese:
        negative = "负" if match["minus"] else ""
        between = "到" if low else ""
        share = "千" if thousandth else "百"
        return f"{share}分之{negative}{low}{between}{match['n']}"
    negative = "minus " if match["minus"] else ""
    between = " to " if low else ""
    return f"{negative}{low}{between}{match['n']} {'per mille' if thousandth else 'percent'}"


def _fraction(match: re.Match[str], chinese: bool) -> str | None:
    above, below = int(match[1]), int(match[2])
    if above >= below or in_equation(match):
        return None
    if chinese:
        return f"{'十' if below == 10 else _DIGITS[below]}分之{_DIGITS[above]}"
    part = _PARTS[below - 2]
    return f"{_ONES[above - 1]} {part}{'' if above == 1 else 's'}"


_AFTER_RANGE = r"(?=[$¥€£]?-?[0-9]+(?:[.:：][0-9]+)*(?![0-9A-Za-z]*-[0-9]))"
_RANGE_UNIT = r"(?:\s?(?:%|℃|℉|°[CF]?|[年月日号点分元度]|[A-Za-z]{1,3}))?"
_HOUR = r"(?P<h>[01]?[0-9]|2[0-4])"

NUMBER_RULES = (
    # 1,000,000
    rule(
        r"(?<![0-9.,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])",
        lambda m, _: m[0].replace(",", ""),
    ),
    rule(
        rf"{START}((?:19|20)[0-9]{{2}})([-/.])([0-9]{{1,2}})\2([0-9]{{1,2}})(?![0-9])",
        lambda m, zh: _date(m[1], m[3], m[4], zh),
    ),
    rule(
        r"(?<![0-9A-Za-z/])([0-9]{1,2})/([0-9]{1,2})/((?:19|20)[0-9]{2})(?![0-9/])",
        lambda m, zh: _date(m[3], m[1], m[2], zh),
    ),
    # Telephones: mobile, land line, service, North American, international.
    rule(
        r"(?<![0-9A-Za-z.])(?:\+?86[- ]?)?1[3-9][0-9](?:[- ]?[0-9]{4}){2}(?![0-9])"
        r"|(?<![0-9A-Za-z.])0[0-9]{2,3}-[0-9]{7,8}(?![0-9])"
        r"|(?<![0-9A-Za-z.])[48]00-[0-9]{3,4}-[0-9]{3,4}(?![0-9])"
        r"|(?<![0-9A-Za-z.])(?:\+?1[- .])?\(?[0-9]{3}\)?[- .][0-9]{3}[-.][0-9]{4}(?![0-9])"
        r"|\+[0-9]{1,3}(?:[- ]?[0-9]{2,4}){2,4}(?![0-9])",
        lambda m, zh: spell(m[0], zh),
    ),
    rule(
        rf"{START}(?:(?:v\s?|V(?=[0-9]+\.))(?P<v>[0-9]+(?:\.[0-9]+)*)"
        rf"|(?P<plain>[0-9]+(?:\.[0-9]+){{2,}}))(?![0-9])",
        _version,
    ),
    # Digits that are a name, not an amount.
    rule(
        r"(?:验证码|密码|尾号|电话|号码|手机号?|邮编|编号|单号|代码|房间号?)[是为：: ]{0,3}"
        r"(?P<n>[0-9]{3,})(?![0-9.])"
        r"|(?i:code|PIN|password|extension|zip)(?: is|:)? (?P<e>[0-9]{3,})(?![0-9.])",
        lambda m, zh: m[0][: -len(m["n"] or m["e"])] + spell(m["n"] or m["e"], zh),
    ),
    rule(
        r"(?<![0-9A-Za-z.:：/\-])0[0-9]+(?![0-9.:：]|\s?[年月日号点分秒时%])"
        r"|(?<![0-9A-Za-z.])[0-9]{12,}(?![0-9.])",
        lambda m, zh: spell(m[0], zh),
    ),
    rule(
        rf"(?<![A-Za-z0-9.])(?<![A-Za-z0-9]-)[0-9]+(?:[.:：][0-9]+)*{_RANGE_UNIT}"
        rf"(?P<to>\s?(?:-{{1,2}}|–|—{{1,2}}|~|～)\s?){_AFTER_RANGE}",
        _range,
        "to",
    ),
    rule(
        rf"(?<![0-9A-Za-z:：.]){_HOUR}[:：](?P<m>[0-5][0-9])(?:[:：](?P<s>[0-5][0-9]))?"
        r"(?![0-9:：])(?:\s?(?P<half>[AaPp](?:[Mm]\b|\.[Mm]\.)))?",
        _time,
    ),
    rule(
        r"(?<![0-9A-Za-z:：.])([0-9]+)[:：]([0-9]+)(?![0-9:：])",
        lambda m, zh: f"{m[1]}{'比' if zh else ' to '}{m[2]}",
    ),
    rule(
        rf"(?:(?<![0-9A-Za-z)])(?P<minus>-))?(?:(?P<low>{NUM})(?:到| to ))?"
        rf"(?P<n>{NUM})\s?(?P<sign>[%‰])",
        _percent,
    ),
    rule(r"(?<![0-9A-Za-z./])([1-9])/([2-9]|10)(?![0-9A-Za-z/])", _fraction),
    # 8.5/10
    rule(
        rf"(?<![0-9A-Za-z./])(?P<n>{NUM})/(?P<of>100?)(?![0-9A-Za-z/])",
        lambda m, zh: (
            None
            if in_equation(m)
            else (f"{m['of']}分之{m['n']}" if zh else f"{m['n']} out of {m['of']}")
        ),
    ),
)

#: These come after units and money have their words.
SIGN_RULES = (
    rule(
        r"(?<=[0-9)])\s?-\s?(?=[0-9(])",
        lambda m, zh: ("减" if zh else " minus ") if in_equation(m) else None,
    ),
    rule(
        r"(?<=[0-9)])\s?/\s?(?=[0-9(])",
        lambda m, zh: ("除以" if zh else " divided by ") if in_equation(m) else None,
    ),
    words(rf"(?<![0-9A-Za-z)）])-(?={NUM}(?:到-?{NUM})?\s?(?:摄氏度|华氏度|度))", "零下", "minus "),
    words(r"(?<![0-9A-Za-z)）])-(?=[0-9])", "负", "minus "),
    words(r"[~～](?=[0-9])", "约", "about "),
)
