"""What is a name and not an amount: telephone numbers, codes, versions, addresses.

Their digits are said one by one; a Chinese 1 is then 幺, which nobody mishears for 七.
"""

from __future__ import annotations

import re

from tts_engine.text.rule import START, rule, words

_DIGITS = "零幺二三四五六七八九"
_SEPARATORS = re.compile(r"[-. ()]+")
_RUN = re.compile(r"[0-9]+")
_SIGNS = {
    ".": ("点", " dot "),
    "@": ("艾特", " at "),
    "_": ("下划线", " underscore "),
    "-": ("杠", " dash "),
    "+": ("加", " plus "),
}
_DOMAINS = "com|org|net|cn|io|ai|dev|app|edu|gov|info|me|co|top|xyz|tv|uk|jp|de"
#: Before these the digits are said one by one.
_NAMES_ZH = (
    "验证码|密码|尾号|电话|号码|手机号?|邮编|编号|单号|代码|房间号?|拨打|致电|热线|客服|急救|报警|火警"
    "|QQ号?|账号|卡号|工号|学号"
)
_NAMES_EN = "code|PIN|password|extension|zip|call|dial|room|flight"
_ENDS = r"(?![0-9]|\.[0-9])"


def spell(text: str, chinese: bool) -> str:
    """Digit by digit; what separates groups is a short pause."""
    groups = [group for group in _SEPARATORS.split(text.lstrip("+")) if group]
    said = [_digits(group, chinese) for group in groups]
    return ("，" if chinese else ", ").join(said)


def _digits(text: str, chinese: bool) -> str:
    return "".join(_DIGITS[int(digit)] for digit in text) if chinese else " ".join(text)


def _spell_runs(text: str, chinese: bool) -> str:
    """The digits one by one, and what is between them as it is."""
    return _RUN.sub(lambda run: _digits(run[0], chinese), text)


def _version(match: re.Match[str], chinese: bool) -> str:
    number = match["v"] or match["plain"]
    parts = number.split(".")
    if match["plain"] and len(parts) == 4:  # an address in a network
        return ("点" if chinese else " dot ").join(_digits(part, chinese) for part in parts)
    name = ""
    if match["v"] and not re.search(r"(?:版本|version)\s*$", match.string[: match.start()], re.I):
        name = "版本" if chinese else "version "
    return name + ("点" if chinese else " point ").join(parts)


def _email(match: re.Match[str], chinese: bool) -> str:
    return "".join(_SIGNS[char][not chinese] if char in _SIGNS else char for char in match[0])


SPELLED_RULES = (
    rule("e-mail", r"[A-Za-z0-9._+-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}", _email),
    words("dot", rf"(?<=[0-9A-Za-z])\.(?=(?:{_DOMAINS})(?![0-9A-Za-z]))", "点", " dot "),
    # Telephones: mobile, land line, service, North American, international.
    rule(
        "telephone",
        r"(?<![0-9A-Za-z.])(?:\+?86[- ]?)?1[3-9][0-9](?:[- ]?[0-9]{4}){2}(?![0-9])"
        r"|(?<![0-9A-Za-z.])0[0-9]{2,3}-[0-9]{7,8}(?![0-9])"
        r"|(?<![0-9A-Za-z.])[48]00-[0-9]{3,4}-[0-9]{3,4}(?![0-9])"
        r"|(?<![0-9A-Za-z.])(?:\+?1[- .])?\(?[0-9]{3}\)?[- .][0-9]{3}[-.][0-9]{4}(?![0-9])"
        r"|\+[0-9]{1,3}(?:[- ]?[0-9]{2,4}){2,4}(?![0-9])",
        lambda m, zh: spell(m[0], zh),
    ),
    rule(
        "telephone",
        r"(?:电话|拨打|(?i:\b(?:phone|call|number|tel|dial)\b))[^0-9.!?。！？]{0,12}"
        r"(?P<n>[0-9]{3,4}-[0-9]{4})(?![0-9])",
        lambda m, zh: spell(m["n"], zh),
        "n",
    ),
    rule("telephone", r"打(?P<n>1(?:10|19|20|22))(?![0-9])", lambda m, zh: spell(m["n"], zh), "n"),
    rule(
        "version",
        rf"{START}(?:(?:v\s?|V(?=[0-9]+\.))(?P<v>[0-9]+(?:\.[0-9]+)*)"
        rf"|(?P<plain>[0-9]+(?:\.[0-9]+){{2,}}))(?![0-9])",
        _version,
    ),
    rule(
        "code",
        rf"(?:{_NAMES_ZH})[是为：: ]{{0,3}}(?P<n>[0-9]{{3,}}(?:[或、/和][0-9]{{3,}})*){_ENDS}",
        lambda m, zh: _spell_runs(m["n"], zh),
        "n",
    ),
    rule(
        "code",
        rf"(?i:\b(?:{_NAMES_EN}))(?: is|:)? (?P<n>[0-9]{{3,}}(?: or [0-9]{{3,}})*){_ENDS}",
        lambda m, zh: _spell_runs(m["n"], zh),
        "n",
    ),
    # 航班CA1234, RTX4090; A100 is a hundred.
    rule(
        "code",
        r"(?<![A-Za-z0-9])(?!USD|RMB|CNY|HKD|EUR|GBP|JPY)[A-Z]{1,4}-?"
        r"(?P<n>(?![0-9]{1,2}00(?![0-9]))[0-9]{3,20})(?![0-9A-Za-z.,%])",
        lambda m, zh: _digits(m["n"], zh) if zh else None,
        "n",
    ),
    rule(
        "code",
        r"(?<![0-9A-Za-z.])(?P<n>[0-9]{3})(?=路(?![程口]))",
        lambda m, _: _digits(m["n"], True),
        "n",
    ),
    rule(
        "code",
        r"(?<![0-9A-Za-z.:：/\-])0[0-9]+(?![0-9.:：]|\s?[年月日号点分秒时%])"
        r"|(?<![0-9A-Za-z.])[0-9]{12,}(?![0-9.])",
        lambda m, zh: spell(m[0], zh),
    ),
)
