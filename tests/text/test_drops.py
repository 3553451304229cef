"""Every character of an answer is spoken once, or listed as dropped with the rule that says so."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.text.cases import clauses, hidden, markup, numbers, styles
from tts_engine.text.clause import Clause
from tts_engine.text.dropped import Dropped
from tts_engine.text.stream import ClauseStream

#: Nothing of these is put into other words, so that letters can be compared one by one.
PLAIN = [
    *"你好我们今天，。！？…、；：“”（）《》「」\n -*_~`#|[]{}!$·—😊",
    "ab ",
    "weather and ",
    "**粗**",
    "`code`",
    "\n```\ncode\n```\n",
    "\n| 甲 | 乙 |\n|---|---|\n",
    "\n# 题\n",
    "\n- 项\n",
    "\n> 引\n",
    "[链接](https://a.com/b)",
    "![图](a.png)",
    "https://a.com/b?c ",
    "<b>",
    "<br>",
    "</p>",
    "<think>想 a</think>",
    '{"name": "f", "arguments": {}}',
    '```json\n{"name": "f", "arguments": {}}\n```',
    "[开心]",
    "【关心】",
    "👨‍👩‍👧🇨🇳",
    "(≧▽≦)",
    "[^a]",
    "&nbsp;",
    "\\(",
    "因为",
]
#: Awkward ones, one by one: nearly every rule waits for what comes after them.
AWKWARD = "你好的是ab1 2.,:;!?-~～*_`#|[](){}<>/\\&@+=^$¥%°'\"“”‘’「」（）《》。，…\n\t😊🇨①²—×→"
FRAGMENTS = [
    *(row[0] for table in (clauses, hidden, markup, numbers, styles) for row in table.CASES),
    *PLAIN,
    *AWKWARD,
]
plain_answers = st.lists(st.sampled_from(PLAIN), max_size=16).map("".join)
answers = st.one_of(
    st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join),
    st.text(alphabet=AWKWARD, max_size=120),
    plain_answers,
)


def stream_of(
    tokens: list[str], *, max_chars: int = 60, first_min_hanzi: int = 4
) -> tuple[list[Clause], ClauseStream]:
    stream = ClauseStream(max_chars=max_chars, first_min_hanzi=first_min_hanzi)
    found = [clause for token in tokens for clause in stream.push(token)]
    return found + stream.flush(), stream


def left(text: str, drops: tuple[Dropped, ...]) -> str:
    """The text without what was dropped."""
    edges = [0, *(edge for drop in drops for edge in (drop.start, drop.end)), len(text)]
    return "".join(text[edges[i] : edges[i + 1]] for i in range(0, len(edges), 2))


def letters(text: str) -> str:
    return "".join(char for char in text if char.isalpha())


@given(answers, st.lists(st.integers(0, 500), max_size=20))
@settings(max_examples=200, deadline=None)
def test_all_that_is_told_depends_on_the_text_alone(text: str, places: list[int]) -> None:
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    whole, stream = stream_of([text])
    for tokens in (list(text), [text[a:b] for a, b in pairwise(edges)]):
        found, other = stream_of(tokens)
        assert found == whole
        assert (other.raw, other.tail) == (stream.raw, stream.tail)
        assert (other.dropped, other.hidden) == (stream.dropped, stream.hidden)


@given(answers)
@settings(max_examples=200, deadline=None)
def test_what_is_dropped_is_listed_once_and_has_a_rule(text: str) -> None:
    _, stream = stream_of([text])
    for source, drops in ((text, stream.hidden), (stream.raw, stream.dropped)):
        assert all(drop.rule and drop.start < drop.end for drop in drops)
        assert all(a.end <= b.start for a, b in pairwise(drops))
        assert not drops or (drops[0].start >= 0 and drops[-1].end <= len(source))
    assert left(text, stream.hidden) == stream.raw
    # These are never said.
    assert not set(left(stream.raw, stream.dropped)) & set("`[]|【】😊🇨\n")


@given(answers)
@settings(max_examples=150, deadline=None)
def test_nothing_is_spoken_behind_the_last_clause(text: str) -> None:
    _, stream = stream_of([text])
    done = len(stream.raw) - len(stream.tail)
    spoken = set(range(len(stream.raw))).difference(
        *(range(drop.start, drop.end) for drop in stream.dropped)
    )
    assert all(at < done for at in spoken)


@given(plain_answers, st.integers(6, 60), st.integers(2, 12))
@settings(max_examples=200, deadline=None)
def test_every_letter_is_spoken_once_or_dropped(text: str, limit: int, first: int) -> None:
    found, stream = stream_of([text], max_chars=limit, first_min_hanzi=first)
    spoken = letters("".join(clause.text for clause in found))
    assert spoken == letters(left(stream.raw, stream.dropped))


@given(plain_answers)
@settings(max_examples=150, deadline=None)
def test_a_spoken_letter_maps_to_its_place(text: str) -> None:
    found, stream = stream_of([text])
    start = 0
    for clause in found:
        for at, char in enumerate(clause.text):
            if char.isalpha():
                assert stream.raw[start + clause.ends[at] - 1] == char or at + 1 == len(clause.text)
        start += len(clause.raw)


@given(answers)
@settings(max_examples=150, deadline=None)
def test_what_was_heard_is_a_prefix_without_what_is_hidden(text: str) -> None:
    found, stream = stream_of([text])
    before = ""
    for clause in found:
        heard = [clause.heard(chars) for chars in range(len(clause.text) + 1)]
        assert all(stream.raw.startswith(before + part) for part in heard)
        assert [len(part) for part in heard] == sorted(len(part) for part in heard)
        before += clause.raw
    assert before + stream.tail == stream.raw
    assert "<think>" not in stream.raw.lower()


@pytest.mark.parametrize(
    "text, expected",
    [
        ("**好**的", ["**=emphasis", "**=emphasis"]),
        ("# 题\n- 项", ["# =line mark", "\n=line end", "- =line mark"]),
        ("看`x`吧", ["`=code mark", "`=code mark"]),
        ("看\n```py\nx\n```\n吧", ["\n=line end", "```py\nx\n```=code block", "\n=space"]),
        ("|甲|乙|", ["|=table", "|=table", "|=table"]),
        ("看[文](http://a.com/b)吧", ["[=bracket", "](http://a.com/b)=link"]),
        ("看![图](a.png)吧", ["![图](a.png)=image"]),
        ("看http://a.com/b吧", ["http://a.com/b=address"]),
        ("看https://a.com/吧", ["https://=address", "/=address"]),
        ("看<b>粗</b>吧", ["<b>=tag", "</b>=tag"]),
        ("看😊吧(^_^)", ["😊=emoji", "(^_^)=emoji"]),
        ("[开心]好", ["[开心]=emotion"]),
        ("好[1]。", ["[1=reference", "]=bracket"]),
        ("人口1,234", []),
        ("零\u200b宽", ["\u200b=invisible"]),
        ("好 的", [" =space"]),
        ("a  b", [" =space"]),
        ("GPT-4", ["-=hyphen"]),
        ("！好（）的", ["！=stray mark", "（）=empty brackets"]),
        ("好，<，吧", ["<=sign"]),
        ("，**，好", ["，=stray mark", "**=emphasis", "，=stray mark"]),
        ("$x$加", ["$=mathematics", "$=mathematics"]),
        ("3 + 5", []),
        ("25℃和5%", []),
        ("好。😊\n", ["😊=emoji", "\n=space"]),
        ("……", ["……=stray mark"]),
        ("", []),
    ],
)
def test_the_rules_have_names(text: str, expected: list[str]) -> None:
    _, stream = stream_of([text])
    assert [f"{text[d.start : d.end]}={d.rule}" for d in stream.dropped] == expected


def test_what_is_hidden_is_listed_in_what_was_pushed() -> None:
    call = '```json\n{"name": "f", "arguments": {}}\n```'
    text = f"<think>嗯</think>好。{call}查到了</think>。<tool_call>x"
    _, stream = stream_of([text])
    assert stream.raw == "好。查到了。"
    assert [(text[d.start : d.end], d.rule) for d in stream.hidden] == [
        ("<think>嗯</think>", "think"),
        (call, "tool call"),
        ("</think>", "think"),
        ("<tool_call>x", "tool call"),
    ]
