"""English abbreviations in full: a voice stops at their full stops, and nobody says "e g"."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tts_engine.text.rule import Rule, rule, words

#: Before a name.
_TITLES = {
    "Dr": "Doctor",
    "Mr": "Mister",
    "Mrs": "Missus",
    "Ms": "Miz",
    "Prof": "Professor",
    "Gen": "General",
    "Gov": "Governor",
    "Sen": "Senator",
    "Capt": "Captain",
    "Sgt": "Sergeant",
    "Col": "Colonel",
    "Lt": "Lieutenant",
    "Rev": "Reverend",
}
#: Anywhere: in Chinese, in English.
_WORDS = {
    "e.g": ("比如", "for example"),
    "i.e": ("也就是", "that is"),
    "etc": ("等等", "et cetera"),
    "vs": ("对", "versus"),
    "approx": ("大约", "approximately"),
    "cf": ("参见", "compare"),
    "dept": ("部门", "department"),
    "ph.d": ("博士", "PhD"),
}
#: Before a number.
_NUMBERED = {
    "fig": "figure",
    "figs": "figures",
    "vol": "volume",
    "p": "page",
    "pp": "pages",
    "ch": "chapter",
    "sec": "section",
}
_MONTHS = {
    "Jan": "January",
    "Feb": "February",
    "Mar": "March",
    "Apr": "April",
    "Jun": "June",
    "Jul": "July",
    "Aug": "August",
    "Sep": "September",
    "Sept": "September",
    "Oct": "October",
    "Nov": "November",
    "Dec": "December",
}


def _stop(match: re.Match[str]) -> str:
    """The full stop that also ends the sentence, at the end of a clause."""
    return "" if match.string[match.end() :].strip("\"'”’)） \n") else "."


def _word(match: re.Match[str], chinese: bool) -> str:
    return _WORDS[match[1].lower()][not chinese] + _stop(match)


def _initials(match: re.Match[str], _: bool) -> str:
    return " ".join(match[0].split(".")).strip() + _stop(match)


def _either(names: Iterable[str]) -> str:
    return "|".join(names)


ABBREVIATION_RULES: tuple[Rule, ...] = (
    rule("title", rf"\b({_either(_TITLES)})\.(?=\s?[A-Z]|\sand\b)", lambda m, _: _TITLES[m[1]]),
    rule(
        "month",
        rf"\b({_either(_MONTHS)})(?:\.\s?|\s)(?=[0-9])",
        lambda m, _: f"{_MONTHS[m[1]]} ",
    ),
    rule("number", r"\b[Nn][Oo]\.\s?(?=[0-9])", lambda _, zh: "第" if zh else "number "),
    rule(
        "number",
        rf"\b(?i:({_either(_NUMBERED)}))\.(?=\s?[0-9])",
        lambda m, _: _NUMBERED[m[1].lower()],
    ),
    words("with", r"\bw/\s?(?=[A-Za-z])", "with ", "with "),
    rule("abbreviation", rf"\b(?i:({_either(_WORDS).replace('.', '[.]')}))\.", _word),
    rule(
        "half day",
        r"(?<=[0-9])\s?([AaPp])\.[Mm]\.",
        lambda m, _: f" {m[1].upper()}M{_stop(m)}",
    ),
    rule("initials", r"\b(?:[A-Z]\.){2,}", _initials),
    rule("initials", r"\b([A-HJ-Z])\.\s?(?=[A-Z](?:[a-z]|\.))", lambda m, _: f"{m[1]} "),
)
