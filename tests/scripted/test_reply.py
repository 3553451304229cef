"""Invariant: a scripted reply means exactly what it says, or is refused with what is wrong."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scripted.reply import ScriptedCall, calls_of, fill_parts, parse_reply, step_of


def call(name, arguments=None):
    return ScriptedCall(name=name, arguments={} if arguments is None else arguments)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("", [()]),
        ("好的。", [("好的。",)]),
        ('看一下。 @call f {"a": "北京"}', [("看一下。", call("f", {"a": "北京"}))]),
        ("@call f", [(call("f"),)]),
        ("@call f 好。", [(call("f"), "好。")]),
        ("@call f @call g-1_2", [(call("f"), call("g-1_2"))]),
        ('@call f "{oops"', [(call("f", "{oops"),)]),
        ('@call f {"a": "@then"}', [(call("f", {"a": "@then"}),)]),
        ("@call f@then北京{tool}。", [(call("f"),), ("北京{tool}。",)]),
        ("@call f @then @call g @then 好", [(call("f"),), (call("g"),), ("好",)]),
        ("@call f@then", [(call("f"),), ()]),
        ("写 @@call 和 @@then。", [("写 @call 和 @then。",)]),
        ("@@@call", [("@@call",)]),
        ("a@b @@ @calls @theney", [("a@b @@ @calls @theney",)]),
    ],
)
def test_reads(text, steps):
    assert parse_reply(text) == tuple(steps)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("@call", "@call names no function; write @@call"),
        ("me@call.com", "@call names no function"),
        ("@call 天气", "@call names no function"),
        (f"@call {'f' * 65}", "@call names no function"),
        ('@call f {"a"', "the arguments of @call f are not JSON"),
        ("@call f " + '{"a":' * 100_000, "the arguments of @call f are not JSON"),
        ("好@then 好", "@then follows nothing"),
        ("@call f@then 好@then 好", "@then follows nothing"),
    ],
)
def test_refuses_and_says_why(text, wrong):
    with pytest.raises(ValueError, match=wrong):
        parse_reply(text)


@given(st.text(st.sampled_from('@calthen f{}":1好 '), max_size=30))
def test_any_text_is_read_or_refused(text):
    try:
        steps = parse_reply(text)
    except ValueError:
        return
    assert all(calls_of(step) for step in steps[:-1])


@given(st.text(max_size=40))
def test_the_words_themselves_can_be_said(text):
    said = text.replace("@", "") + "@call@then"
    assert parse_reply(said.replace("@", "@@")) == ((said,),)


def test_a_step_is_due_when_the_calls_before_it_have_outputs():
    text = "一@call f @call g@then 二@call h@then 三"
    due = [step_of(text, outputs)[0] for outputs in range(5)]
    assert due == ["一", "一", "二", "三", "三"]


def test_the_last_output_is_said_where_nothing_follows():
    assert [step_of("一@call f", outputs) for outputs in (0, 1)] == [("一", call("f")), ("{tool}",)]


def test_placeholders_are_filled_in_texts_but_not_in_keys():
    arguments = {"x": ["x", {"x": "x"}, 1, None]}
    filled = fill_parts(("x", call("x", arguments), call("f", "x")), lambda text: text + "!")
    assert filled == ("x!", call("x", {"x": ["x!", {"x": "x!"}, 1, None]}), call("f", "x!"))


def test_arguments_are_sent_as_json_or_as_they_stand():
    assert json.loads(call("f", {"a": "北"}).text) == {"a": "北"}
    assert "北" in call("f", {"a": "北"}).text
    assert call("f", "{oops").text == "{oops"
