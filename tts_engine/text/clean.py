"""The last touch: one space, one mark, nothing left over of markup."""

from __future__ import annotations

import re
from collections.abc import Callable

from tts_engine.text.spans import Spans

_HANZI = r"\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_FULL = r"，。！？；：、（）“”《》「」『』…"
_MARK = r"，、；：,;:。！？…!?."


def _strongest(match: re.Match[str]) -> str:
    run = match[0]
    for kind in ("？?", "！!"):
        for char in run:
            if char in kind:
                return char
    if run in (".,", ".;"):
        return run[1]  # behind an abbreviation
    if "…" in run or run.count(".") > 1:
        return "…"
    return next((char for char in run if char in "。."), run[0])


_LINE_END = re.compile(r"\n+$")
_LEFT_OVER = re.compile(r"[\[\]{}<>^`*\\|_~～#/%‰\u200b\n•·●]+")
_EMPTY_PAIR = re.compile(r"[（(]\s*[）)]|《\s*》|“\s*”|「\s*」|『\s*』|\"\s*\"")
_APOSTROPHE = re.compile(r"(?<=[A-Za-z])’(?=[A-Za-z])")
_MARKS = re.compile(rf"[{_MARK}](?:\s*[{_MARK}])+")
_DASHES = re.compile(r"(?:[—–]|--|(?<=\s)-(?=\s))+")
_JOINT = re.compile(r"(?<=[0-9])-(?=[0-9A-Za-z])|(?<=[A-Za-z])-(?=[0-9])")
_WHITE = re.compile(r"\s+")
_TIGHT = re.compile(
    rf"(?<=[{_HANZI}{_FULL}])\s+(?=[{_HANZI}{_FULL}0-9])|(?<=[0-9])\s+(?=[{_HANZI}])"
    rf"|(?<=[{_FULL}(])\s+|\s+(?=[{_FULL}{_MARK})])"
)
#: A clause begins with a word or with what opens a quotation; a mark in front of that belonged to
#: the clause before.
_HEAD = re.compile(r"^[^\w“‘\"'「『（(《]+")
_TAIL = re.compile(r"[\s（(“‘「『《—-]+$")


_STEPS: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    ("line end", _LINE_END, lambda _: ""),
    ("left-over markup", _LEFT_OVER, lambda _: " "),
    ("empty brackets", _EMPTY_PAIR, lambda _: " "),
    ("apostrophe", _APOSTROPHE, lambda _: "'"),
    ("repeated mark", _MARKS, _strongest),
    ("hyphen", _JOINT, lambda _: " "),
    ("dash", _DASHES, lambda _: "—"),
    ("space", _WHITE, lambda _: " "),
    ("space", _TIGHT, lambda _: ""),
    ("stray mark", _HEAD, lambda _: ""),
    ("stray mark", _TAIL, lambda _: ""),
)


def clean(spans: Spans) -> Spans:
    """Removes left-over markup, repeated marks and needless space."""
    for name, pattern, repl in _STEPS:
        spans = spans.sub(pattern, repl, rule=name)
    return spans
