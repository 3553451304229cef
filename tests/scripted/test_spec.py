"""Invariant: a scripted spec means exactly what it says, or is refused by name of the bad part."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from services.scripted.spec import (
    INSTANT,
    AsrSpec,
    LlmSpec,
    ScriptedSpec,
    ScriptedTexts,
    TtsSpec,
    parse_spec,
)
from tts_engine.errors import ConfigError


@pytest.mark.parametrize(
    "text, expected",
    [
        ("scripted:instant", INSTANT),
        (
            "scripted:asr=60,llm=150@50,tts=150",
            ScriptedSpec(
                asr=AsrSpec(final_s=0.06),
                llm=LlmSpec(first_token_s=0.15, tokens_per_s=50),
                tts=TtsSpec(first_chunk_s=0.15, rate=math.inf),
            ),
        ),
        ("scripted:tts=150@4", ScriptedSpec(tts=TtsSpec(first_chunk_s=0.15, rate=4))),
        ("scripted:llm=0", ScriptedSpec(llm=LlmSpec(first_token_s=0, tokens_per_s=math.inf))),
        ("scripted:asr=1.5, tts=0", ScriptedSpec(asr=AsrSpec(final_s=0.0015), tts=TtsSpec())),
    ],
)
def test_reads(text, expected):
    assert parse_spec(text) == expected


@pytest.mark.parametrize(
    "text, named",
    [
        ("asr=60", "'asr=60' does not start"),
        ("scripted:", "'' is not name=milliseconds"),
        ("scripted:asr=60,", "'' is not"),
        ("scripted:asr=-1", "'asr=-1' is not"),
        ("scripted:asr=60,mic=3", "'mic=3' names no engine"),
        ("scripted:asr=60@2", "'asr=60@2' has a rate"),
        ("scripted:llm=150@0", "'llm=150@0' has a rate of zero"),
        ("scripted:tts=1,tts=2", "'tts=2' is there twice"),
        ("scripted:llm=fast", "'llm=fast' is not"),
    ],
)
def test_refuses_with_the_bad_part_and_an_example(text, named):
    with pytest.raises(ConfigError) as caught:
        parse_spec(text)
    assert named in caught.value.message
    assert "scripted:asr=60,llm=150@50,tts=150" in caught.value.mend


@given(
    st.integers(0, 100_000), st.integers(0, 100_000), st.integers(1, 5000), st.integers(0, 100_000)
)
def test_any_numbers_survive(asr, first, rate, tts):
    spec = parse_spec(f"scripted:asr={asr},llm={first}@{rate},tts={tts}")
    assert spec.asr == AsrSpec(final_s=asr / 1e3)
    assert spec.llm == LlmSpec(first_token_s=first / 1e3, tokens_per_s=rate)
    assert spec.tts == TtsSpec(first_chunk_s=tts / 1e3)


def test_texts_go_round():
    texts = ScriptedTexts(transcripts=["a", "b"], replies=["x", "y", "z"])
    assert [texts.transcript(session="s", turn=turn) for turn in (1, 2, 3)] == ["a", "b", "a"]
    replies = [texts.reply(session="s", turn=turn, user="") for turn in (1, 2, 3, 4)]
    assert replies == [("x",), ("y",), ("z",), ("x",)]


def test_a_greeting_takes_the_first_reply():
    assert ScriptedTexts(replies=["x", "y"]).reply(session="s", turn=0, user="") == ("x",)


def test_echo_is_the_default_and_placeholders_are_filled():
    assert ScriptedTexts().reply(session="s", turn=1, user="你好") == ("你说的是：你好",)
    texts = ScriptedTexts(transcripts=["{session} {turn} {user}"], echo="{turn}:{user}:{other}")
    assert texts.transcript(session="s7", turn=3) == "s7 3 "
    assert texts.reply(session="s7", turn=3, user="u") == ("3:u:{other}",)


def test_what_the_user_says_is_no_template():
    for said in ("{turn}{", '@call f {"a": 1}', "@then", "@@call"):
        assert ScriptedTexts(echo="{user}").reply(session="s", turn=1, user=said) == (said,)


@pytest.mark.parametrize(
    "bad",
    [
        {"transcripts": []},
        {"chars_per_second": 0},
        {"transcript": ["typo"]},
        {"replies": ["好", "@call"]},
        {"echo": "@call f {"},
    ],
)
def test_texts_that_make_no_sense_are_refused(bad):
    with pytest.raises(ValidationError):
        ScriptedTexts(**bad)
