"""Dates, times, ranges, percents and fractions in words.

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
    if hour in range(13, 24) and not half and second is None:
        hour, half = hour - 12, "PM"
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
    if above >= below or below == 100 or in_equation(match):
        return None
    if below > 10:
        if above <= 12 and below <= 31:
            return None  # or is it a date?
        return f"{below}分之{above}" if chinese else f"{above} over {below}"
    if chinese:
        return f"{'十' if below == 10 else _DIGITS[below]}分之{_DIGITS[above]}"
    part = _PARTS[below - 2]
    return f"{_ONES[above - 1]} {part}{'' if above == 1 else 's'}"


_AFTER_RANGE = r"(?=[$¥€£]?-?[0-9]+(?:[.:：][0-9]+)*(?![0-9A-Za-z]*-[0-9]))"
_RANGE_UNIT = (
    r"(?:\s?(?:%|℃|℉|°[CF]?|[年月日号点分元度万亿千百个块岁天周米人次倍折毛角斤]|[A-Za-z]{1,3}))?"
)
_HOUR = r"(?P<h>[01]?[0-9]|2[0-4])"

DATE_RULES = (
    # 1,000,000
    rule(
        "thousands",
        r"(?<![0-9.,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])",
        lambda m, _: m[0].replace(",", ""),
    ),
    rule(
        "date",
        rf"{START}((?:19|20)[0-9]{{2}})([-/.])([0-9]{{1,2}})\2([0-9]{{1,2}})(?![0-9])",
        lambda m, zh: _date(m[1], m[3], m[4], zh),
    ),
    rule(
        "date",
        r"(?<![0-9A-Za-z/])([0-9]{1,2})/([0-9]{1,2})/((?:19|20)[0-9]{2})(?![0-9/])",
        lambda m, zh: _date(m[3], m[1], m[2], zh),
    ),
    # 2024-05; after a dash 10 to 12 may be years as well
    rule(
        "date",
        rf"{START}((?:19|20)[0-9]{{2}})[-/]0([1-9])(?![0-9/\-])",
        lambda m, zh: f"{m[1]}年{m[2]}月" if zh else f"{_MONTHS[int(m[2]) - 1]} {m[1]}",
    ),
    words("date", r"(?<![0-9])0(?=[1-9][月日])", "", ""),
    # Mon-Fri, 周一-周五
    words(
        "range",
        r"(?<=\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun))[-–](?=(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b)",
        "到",
        " to ",
    ),
    words("range", r"(?<=[周期拜][一二三四五六日天])\s?[-–—~～]\s?(?=周|星期|礼拜)", "到", "到"),
)

NUMBER_RULES = (
    rule(
        "range",
        rf"(?<![A-Za-z0-9.])(?<![A-Za-z0-9]-)[0-9]+(?:[.:：][0-9]+)*{_RANGE_UNIT}"
        rf"(?P<to>\s?(?:-{{1,2}}|–|—{{1,2}}|~|～)\s?){_AFTER_RANGE}",
        _range,
        "to",
    ),
    rule(
        "time",
        rf"(?<![0-9A-Za-z:：.]){_HOUR}[:：](?P<m>[0-5][0-9])(?:[:：](?P<s>[0-5][0-9]))?"
        r"(?![0-9:：])(?:\s?(?P<half>[AaPp](?:[Mm]\b|\.[Mm]\.)))?",
        _time,
    ),
    rule(
        "ratio",
        r"(?<![0-9A-Za-z:：.])([0-9]+)[:：]([0-9]+)(?![0-9:：])",
        lambda m, zh: f"{m[1]}{'比' if zh else ' to '}{m[2]}",
    ),
    rule(
        "percent",
        rf"(?:(?<![0-9A-Za-z)])(?P<minus>-))?(?:(?P<low>{NUM})(?:到| to ))?"
        rf"(?P<n>{NUM})\s?(?P<sign>[%‰])",
        _percent,
    ),
    rule(
        "page",
        r"第([0-9]+)/([0-9]+)(页|章|集|步|题)",
        lambda m, _: f"第{m[1]}{m[3]}，共{m[2]}{m[3]}",
    ),
    # 1 1/2, 1½
    words("fraction", r"(?<=[0-9])\s(?=[1-9]/(?:[2-9]|10)(?![0-9A-Za-z/]))", "又", " and "),
    words("fraction", r"(?<=[0-9])\s?(?=[½⅓⅔¼¾])", "又", " and "),
    rule(
        "fraction",
        r"(?<![0-9A-Za-z./])([1-9][0-9]{0,2})/([1-9][0-9]{0,2})(?![0-9A-Za-z/])",
        _fraction,
    ),
    # 8.5/10
    rule(
        "score",
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
        "minus",
        r"(?<=[0-9)])\s?-\s?(?=[0-9(])",
        lambda m, zh: ("减" if zh else " minus ") if in_equation(m) else None,
    ),
    rule(
        "division",
        r"(?<=[0-9)])\s?/\s?(?=[0-9(])",
        lambda m, zh: ("除以" if zh else " divided by ") if in_equation(m) else None,
    ),
    words(
        "below zero",
        rf"(?<![0-9A-Za-z)）])-(?={NUM}(?:到-?{NUM})?\s?(?:摄氏度|华氏度|度))",
        "零下",
        "minus ",
    ),
    words("minus", r"(?<![0-9A-Za-z)）])-(?=[0-9])", "负", "minus "),
    words("plus", r"(?<![0-9A-Za-z)）])\+(?=[0-9百])", "正", "plus "),
    words("more than", r"(?<=[0-9])\+(?=[\u4e00-\u9fff])", "多", " plus "),
    # 步骤：1.打开 2.关闭
    rule(
        "list number",
        r"(?P<joined>(?<=[\u4e00-\u9fff])\s?)?(?<![0-9.A-Za-z])(?P<n>[0-9]{1,2})\.\s?"
        r"(?=[\u4e00-\u9fff])",
        lambda m, _: f"{'' if m['joined'] is None else '，'}{m['n']}，",
    ),
    words("about", r"[~～](?=[0-9])", "约", "about "),
)
