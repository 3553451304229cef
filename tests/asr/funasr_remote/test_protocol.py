"""What is sent, and what the replies of the several servers mean."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from services.asr.funasr_remote.protocol import (
    FRAME,
    Mode,
    ProtocolError,
    TimedWord,
    Utterance,
    Wishes,
    begin,
    end,
    parse,
    pcm,
    utterance_name,
    weights,
)

NAME = utterance_name(7)
LAST = json.loads(end(NAME))["wav_name"]


def reply(utterance: Utterance, **body: Any) -> bool:
    return utterance.take(parse(json.dumps(body)))


def ended(mode: Mode = "2pass") -> Utterance:
    utterance = Utterance(NAME, mode)
    utterance.ended = True
    return utterance


def test_the_first_message() -> None:
    wishes = Wishes(mode="2pass", itn=True, hotwords={"阿里巴巴": 20}, language="zh")
    message = json.loads(begin(NAME, wishes))
    assert message == {
        "mode": "2pass",
        "wav_name": NAME,
        "wav_format": "pcm",
        "audio_fs": 16000,
        "is_speaking": True,
        "chunk_size": [5, 10, 5],
        "chunk_interval": 10,
        "hotwords": '{"阿里巴巴": 20}',
        "itn": True,
        "svs_itn": True,
        "svs_lang": "zh",
    }
    assert json.loads(begin(NAME, Wishes()))["hotwords"] == ""
    assert json.loads(end(NAME)) == {"is_speaking": False, "is_end": True, "wav_name": LAST}
    assert LAST != NAME
    # What a message of audio lasts: 60 ms, of which ten are a chunk of the streaming model.
    assert FRAME == 960


def test_hotwords_as_people_write_them() -> None:
    lines = ["阿里巴巴 30", "通义实验室", " machine learning  50 ", "route 66", "42", "a ²"]
    assert weights(lines) == {
        "阿里巴巴": 30,
        "通义实验室": 20,
        "machine learning": 50,
        "route": 66,
        "42": 20,
        "a ²": 20,
    }


def test_samples_are_sent_as_they_came() -> None:
    samples = np.arange(-32768, 32768, dtype=np.int16)
    sent = pcm(samples.astype(np.float32) * np.float32(1 / 32768))
    assert np.array_equal(np.frombuffer(sent, "<i2"), samples)
    assert np.frombuffer(pcm(np.array([-2.0, 2.0], np.float32)), "<i2").tolist() == [-32768, 32767]


def test_a_second_pass_replaces_the_first() -> None:
    utterance = Utterance(NAME, "2pass")
    assert reply(utterance, mode="2pass-online", text="今天", wav_name=NAME, is_final=False)
    assert reply(utterance, mode="2pass-online", text="天汽", wav_name=NAME)
    assert utterance.increments == ["今天", "天汽"]
    assert reply(utterance, mode="2pass-offline", text="今天天气，", wav_name=NAME, is_final=True)
    assert (utterance.stretches, utterance.increments) == (["今天天气，"], [])
    # It hears less than the first, or nothing.
    reply(utterance, mode="2pass-online", text="嗯", wav_name=NAME)
    assert reply(utterance, mode="2pass-offline", text="", wav_name=NAME)
    assert (utterance.stretches, utterance.increments) == (["今天天气，"], [])
    assert not utterance.done


@pytest.mark.parametrize(
    "body",
    [
        {"mode": "2pass-offline", "text": "好。", "is_final": True, "slice_type": 2},
        {"text": "", "is_final": True},
        {"mode": "2pass-online", "text": "嗯", "is_final": True},
        {"mode": "2pass-offline", "text": "好。", "is_final": False},
        {"mode": "offline", "text": "好。", "is_final": False},
        {"mode": "2pass", "is_final": True, "is_end": True},
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_the_last_reply(body: dict[str, Any], named: bool) -> None:
    utterance = ended()
    # One that was on its way when the end was sent.
    if named:
        reply(utterance, **body | {"wav_name": NAME})
        assert not utterance.done
    assert reply(utterance, **body | ({"wav_name": LAST} if named else {}))
    assert utterance.done
    assert not utterance.error
    # What the second pass did not confirm was nothing.
    assert not utterance.increments


def test_names_of_others_are_none() -> None:
    utterance = ended()
    assert reply(utterance, mode="2pass-offline", text="好", wav_name="microphone")
    assert utterance.done


def test_replies_to_other_utterances() -> None:
    utterance = ended()
    assert not reply(utterance, text="早", mode="2pass-offline", wav_name=utterance_name(6))
    assert not reply(
        utterance, text="早", mode="2pass-offline", wav_name=utterance_name(6) + "-end"
    )
    assert not utterance.stretches
    # An acknowledgement of no end that was sent.
    utterance.ended = False
    assert not reply(utterance, is_end=True, is_final=True)
    reply(utterance, mode="2pass-offline", text="", wav_name=LAST)
    assert not utterance.done


def test_the_end_of_one_pass() -> None:
    utterance = ended("online")
    assert reply(utterance, mode="online", text="好", is_final=True, wav_name=LAST)
    assert utterance.done
    assert utterance.increments == ["好"]


@pytest.mark.parametrize(
    ("body", "said"),
    [({"error": "no memory"}, "no memory"), ({}, "it could not finish the utterance")],
)
def test_an_end_that_failed(body: dict[str, Any], said: str) -> None:
    utterance = ended()
    assert reply(utterance, is_end=True, is_final=False, wav_name=LAST, **body)
    assert utterance.done
    assert utterance.error == said


def test_times_of_words() -> None:
    sentences = [
        {"text_seg": "正 是", "punc": ",", "ts_list": [[430, 670], [670, 810]]},
        {"text_seg": "hello", "punc": ".", "ts_list": [[900, 1200]]},
    ]
    utterance = Utterance(NAME, "2pass")
    reply(utterance, mode="2pass-offline", text="正是，hello.", stamp_sents=sentences)
    assert utterance.words == [
        TimedWord("正", 430, 670),
        TimedWord("是", 670, 810),
        TimedWord("hello", 900, 1200),
    ]


@pytest.mark.parametrize(
    "sentences",
    [
        "",
        None,
        5,
        [5],
        [{}],
        [{"text_seg": "a b", "ts_list": [[1, 2]]}],
        [{"text_seg": "a", "ts_list": [["x", "y"]]}],
        [{"text_seg": "a", "ts_list": [[10**400, 1]]}],
        [{"text_seg": 5, "ts_list": []}],
    ],
)
def test_times_that_are_none(sentences: Any) -> None:
    assert parse(json.dumps({"text": "好", "stamp_sents": sentences})).words == ()


@given(st.text() | st.binary() | st.lists(st.integers()).map(json.dumps))
@example("[" * 100_000)
def test_whatever_comes(message: str | bytes) -> None:
    with pytest.raises(ProtocolError):
        parse(message)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "text",
                "mode",
                "is_final",
                "is_end",
                "error",
                "wav_name",
                "stamp_sents",
                "is_speaking",
            ]
        ),
        st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers()),
    )
)
def test_whatever_is_in_it(body: dict[str, Any]) -> None:
    utterance = ended()
    try:
        found = parse(json.dumps(body))
    except ProtocolError:
        return
    utterance.take(found)
    assert all(isinstance(text, str) for text in (*utterance.stretches, *utterance.increments))
