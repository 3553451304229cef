"""Invariants: whatever a server sends for function calls, nothing is raised; what is told of a call
is in order, its pieces are its arguments, and it is done at most once, whole, by an offered name.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from services.llm.calls import CallArguments, CallBegun, CallDeltas, CallDone, CallEvent

OFFERED = ("get_weather", "lamp", "fan")


def deltas(**limits: int) -> CallDeltas:
    count = itertools.count(1)
    return CallDeltas(lambda: f"ours-{next(count)}", OFFERED, **limits)


def entry(
    name: Any = None, arguments: Any = None, *, index: Any = 0, id: Any = None
) -> dict[str, Any]:
    return {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}


def calls_of(events: Iterable[CallEvent]) -> list[tuple[str, str]]:
    """Checks what every sequence of events keeps to; the calls that are done, in order."""
    told: dict[str, str] = {}
    names: dict[str, str] = {}
    done: list[tuple[str, str]] = []
    over: set[str] = set()
    for event in events:
        match event:
            case CallBegun(call_id, name):
                assert call_id not in told
                assert name in OFFERED
                told[call_id], names[call_id] = "", name
            case CallArguments(call_id, delta):
                assert call_id not in over
                assert delta
                delta.encode()
                told[call_id] += delta
            case CallDone(call):
                assert call.call_id not in over
                assert (call.name, call.arguments) == (names[call.call_id], told[call.call_id])
                over.add(call.call_id)
                done.append((call.name, call.arguments))
    return done


def read(*chunks: Any, cut: bool = False, **limits: int) -> list[tuple[str, str]]:
    joined = deltas(**limits)
    events = [event for chunk in chunks for event in joined.push(chunk)]
    return calls_of([*events, *joined.finish(cut=cut)])


WEATHER = ("get_weather", '{"city": "北京"}')
LAMP = ("lamp", '{"on": true}')


@pytest.mark.parametrize(
    ("chunks", "calls"),
    [
        pytest.param(
            [
                [entry("get_weather", "", id="a")],
                [entry(None, '{"city"')],
                [entry(None, ': "北京"}')],
            ],
            [WEATHER],
            id="as OpenAI streams",
        ),
        pytest.param([[entry(*WEATHER, id="a")]], [WEATHER], id="in one piece"),
        pytest.param([[entry("lamp", "", id="a")]], [("lamp", "{}")], id="empty arguments"),
        pytest.param([[entry("lamp", None)]], [("lamp", "{}")], id="no arguments"),
        pytest.param([[entry("lamp", " \n")]], [("lamp", " \n{}")], id="blank arguments"),
        pytest.param([[entry("lamp", {"on": True})]], [LAMP], id="an object as arguments"),
        pytest.param([[entry("lamp", {})]], [("lamp", "{}")], id="an empty object"),
        pytest.param([[entry("lamp", [1])]], [("lamp", "[1]")], id="a list as arguments"),
        pytest.param([[entry("lamp", 5)]], [("lamp", "{}")], id="a number as arguments"),
        pytest.param([[entry("lamp", {"a": {1, 2}})]], [("lamp", "{}")], id="no JSON at all"),
        pytest.param([[entry("lamp", "{oops")]], [("lamp", "{oops")], id="broken arguments"),
        pytest.param(
            [[entry("get_")], [entry("weather")], [entry(None, "{}")]],
            [("get_weather", "{}")],
            id="a name in pieces",
        ),
        pytest.param(
            [[entry("lamp", '{"on"')], [entry("lamp", ": true")], [entry("lamp", "}")]],
            [LAMP],
            id="a name in every piece",
        ),
        pytest.param(
            [[entry(None, '{"on": ', id="a")], [entry("lamp", "true}")]],
            [LAMP],
            id="a name after the first arguments",
        ),
        pytest.param(
            [[entry(*WEATHER)], [entry(*LAMP, index=1)]], [WEATHER, LAMP], id="one after another"
        ),
        pytest.param(
            [
                [entry("get_weather", '{"city"'), entry("lamp", '{"on"', index=1)],
                [entry(None, ': "北京"}'), entry(None, ": true}", index=1)],
            ],
            [WEATHER, LAMP],
            id="interleaved",
        ),
        pytest.param(
            [
                [entry("get_weather", "", id="a"), entry("lamp", "", id="b", index=1)],
                [entry(None, '{"on": true}', index=1)],
                [entry(None, '{"city": "北京"}')],
            ],
            [LAMP, WEATHER],
            id="the second first",
        ),
        pytest.param(
            [[entry(*WEATHER, id="a")], [entry(*LAMP, id="b")], [entry("fan", "", id="c")]],
            [WEATHER, LAMP, ("fan", "{}")],
            id="every index the same, other ids",
        ),
        pytest.param(
            [[entry("fan", "", id="a")], [entry("fan", "", id="b")]],
            [("fan", "{}")] * 2,
            id="the same function twice at one index",
        ),
        pytest.param(
            [[entry(*WEATHER)], [entry(*LAMP)]], [WEATHER, LAMP], id="every index the same, no ids"
        ),
        pytest.param(
            [[entry("lamp", '{"on"', id="a")], [entry(None, ": true}", id="b")]],
            [LAMP],
            id="a new id with every piece",
        ),
        pytest.param(
            [[entry("lamp", '{"on"', id="a")], [entry(None, ": true}", id="a", index=7)]],
            [LAMP],
            id="an index that jumps",
        ),
        pytest.param(
            [[entry(*WEATHER, index=None), entry(*LAMP, index="1")]],
            [WEATHER, LAMP],
            id="no index, one chunk",
        ),
        pytest.param(
            [[entry(*LAMP, index=None)], [entry(*LAMP, index=None)]],
            [LAMP, LAMP],
            id="no index, no id, whole calls",
        ),
        pytest.param(
            [
                [entry("get_weather", '{"city"', index=None, id="a")],
                [entry("lamp", '{"on"', index=None, id="b")],
                [entry(None, ': "北京"}', index=None, id="a")],
                [entry(None, ": true}", index=None, id="b")],
            ],
            [WEATHER, LAMP],
            id="no index, by id",
        ),
        pytest.param(
            [[entry(*WEATHER, index=None, id="x")], [entry(*LAMP, index=None, id="x")]],
            [WEATHER, LAMP],
            id="one id for all",
        ),
        pytest.param([entry(*LAMP)], [LAMP], id="no list"),
        pytest.param([[entry(None, '{"on": true}', id="a")]], [], id="no name"),
        pytest.param([[entry("rm", '{"path": "/"}')], [entry(None, "{}")]], [], id="not offered"),
        pytest.param([[entry("rm", "")], [entry(*LAMP, index=1)]], [LAMP], id="one not offered"),
        pytest.param([[entry("lamp" * 100, "{}")]], [], id="a long name"),
        pytest.param(
            [[entry("lamp", '{"a": "\ud83d')], [entry(None, '\ude00"}')]],
            [("lamp", '{"a": "😀"}')],
            id="a pair cut in two",
        ),
        pytest.param([[entry("lamp", '{"\ud83d')]], [("lamp", '{"\ufffd')], id="half a pair"),
        pytest.param([[entry("lamp", "\ud83d")]], [("lamp", "\ufffd")], id="only half a pair"),
    ],
)  # fmt: skip
def test_servers_differ_and_the_calls_are_the_same(
    chunks: list[Any], calls: list[tuple[str, str]]
) -> None:
    assert read(*chunks) == calls


def test_a_call_is_told_as_it_is_written_and_done_when_the_next_one_begins() -> None:
    joined = deltas()
    assert joined.push([entry("get_weather", "", id="theirs")]) == []
    first = joined.push([entry(None, '{"city": "北京"}')])
    assert first[0] == CallBegun("ours-1", "get_weather")
    assert first[1:] == [CallArguments("ours-1", '{"city": "北京"}')]
    second = joined.push([entry("lamp", '{"on"', index=1)])
    assert isinstance(second[0], CallDone)
    assert second[1:] == [CallBegun("ours-2", "lamp"), CallArguments("ours-2", '{"on"')]
    assert joined.push([entry(None, "!")]) == []  # what follows a call that is done is nothing
    rest = joined.finish()
    assert calls_of([*first, *second, *rest]) == [WEATHER, ("lamp", '{"on"')]
    assert joined.finish() == []


def test_an_answer_that_was_cut_off_has_only_its_whole_calls() -> None:
    chunks = [[entry(*WEATHER)], [entry("lamp", '{"on"', index=1)], [entry("fan", index=2)]]
    assert read(*chunks, cut=True) == [WEATHER]
    assert read([entry("lamp", "[" * 5000)], [entry("fan", "{}", index=1)], cut=True) == [
        ("fan", "{}")
    ]


def test_a_call_that_is_too_long_is_dropped_and_the_next_one_is_not() -> None:
    long = [[entry("lamp", '{"a": "')], *[[entry(None, "x" * 10)]] * 5]
    assert read(*long, [entry(*WEATHER, index=1)], max_arguments=40) == [WEATHER]
    million = [entry("lamp", "x" * 1_000_000)]
    assert read(million) == []


@pytest.mark.parametrize("index", [lambda k: k, lambda _: 0, lambda _: None])
def test_of_thousands_of_calls_the_first_are_made(index: Any) -> None:
    chunks = [[entry(*LAMP, index=index(k), id=f"id{k}")] for k in range(3000)]
    assert read(*chunks, max_calls=3) == [LAMP] * 3
    # What belongs to a call that was dropped goes to none of the others.
    chunks = [chunk for k in range(5) for chunk in (
        [entry("lamp", '{"on"', index=index(k), id=f"id{k}")],
        [entry(None, ": true}", index=index(k), id=f"id{k}")],
    )]  # fmt: skip
    assert read(*chunks, max_calls=3) == [LAMP] * 3


def test_everything_that_comes_is_counted() -> None:
    joined = deltas()
    joined.push([entry("rm", "12345"), None, 7])
    assert joined.chars == (1 + 5) + 1 + 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
FRAGMENT = st.text(st.sampled_from('{}":a好\ud83d\ude00 '), max_size=6)
ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "index": st.integers(-1, 20) | st.none() | JSON,
        "id": st.sampled_from(["a", "b", ""]) | st.none() | JSON,
        "function": JSON
        | st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from([*OFFERED, "get_", "weather", "rm", ""]) | JSON,
                "arguments": FRAGMENT | JSON,
            },
        ),
    },
)
CHUNK = JSON | st.lists(ENTRY | JSON, max_size=4)


@given(st.lists(CHUNK, max_size=30), st.booleans())
@example([[{"index": 2**70, "function": {"name": "lamp", "arguments": "\udc00"}}]], False)
def test_nothing_is_ever_raised_and_every_call_is_well_told(chunks: list[Any], cut: bool) -> None:
    done = read(*chunks, cut=cut, max_calls=4, max_arguments=20)
    assert len(done) <= 4
    if cut:
        assert all(isinstance(json.loads(arguments), dict) for _, arguments in done)


@given(st.data(), st.lists(st.sampled_from([WEATHER, LAMP, ("fan", "{}")]), min_size=1, max_size=5))
def test_calls_survive_any_cutting_and_interleaving(
    data: st.DataObject, calls: list[tuple[str, str]]
) -> None:
    """Servers that give each call its index may write them in any order, in any pieces."""
    waiting: dict[int, list[dict[str, Any]]] = {}
    for index, (name, arguments) in enumerate(calls):
        size = data.draw(st.integers(1, len(arguments)))
        waiting[index] = [entry(name, "", index=index, id=f"id{index}")] + [
            entry(None, arguments[at : at + size], index=index)
            for at in range(0, len(arguments), size)
        ]
    chunks: list[Any] = []
    while waiting:
        index = data.draw(st.sampled_from(sorted(waiting)))
        chunks.append([waiting[index].pop(0)])
        if not waiting[index]:
            del waiting[index]
    assert sorted(read(*chunks)) == sorted(calls)
