"""Invariant: whatever a body is, it is spoken, or refused with the field at fault."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.audio_api.request import MAX_BODY, MAX_INPUT, SpeechRequest, parse
from tts_engine.service.api_errors import ApiError

GOOD: dict[str, Any] = {"model": "tts-1", "input": "你好", "voice": "alloy"}


def refusal(body: bytes) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse(body)
    assert caught.value.status == 400
    assert caught.value.body["error"]["type"] == "invalid_request_error"
    return caught.value


def test_what_a_stock_client_sends_is_understood():
    wanted = parse(json.dumps(GOOD).encode())
    assert wanted == SpeechRequest(model="tts-1", input="你好", voice="alloy")
    assert (wanted.response_format, wanted.stream_format, wanted.speed) == ("mp3", "audio", None)


def test_a_voice_may_be_an_object_with_its_id():
    assert parse(json.dumps({**GOOD, "voice": {"id": "one"}}).encode()).voice == "one"


def test_the_longest_texts_fit_into_a_body_however_they_are_escaped():
    body = json.dumps({**GOOD, "input": "😀" * MAX_INPUT, "instructions": "😀" * MAX_INPUT})
    assert len(body) <= MAX_BODY
    assert len(parse(body.encode()).input) == MAX_INPUT


@pytest.mark.parametrize(
    "change, param, code",
    [
        ({"input": ""}, "input", "invalid_value"),
        ({"input": "x" * (MAX_INPUT + 1)}, "input", "invalid_value"),
        ({"input": 7}, "input", "invalid_type"),
        ({"input": None}, "input", "invalid_type"),
        ({"input": "\ud800"}, "input", "invalid_value"),
        ({"voice": 1}, "voice", "invalid_type"),
        ({"voice": {}}, "voice", "invalid_type"),
        ({"voice": {"id": 3}}, "voice", "invalid_type"),
        ({"voice": {"id": "one", "more": 1}}, "voice", "invalid_type"),
        ({"voice": "v" * 600}, "voice", "invalid_value"),
        ({"model": ["tts-1"]}, "model", "invalid_type"),
        ({"response_format": "ogg"}, "response_format", "invalid_value"),
        ({"response_format": 3}, "response_format", "invalid_value"),
        ({"stream_format": "ws"}, "stream_format", "invalid_value"),
        ({"speed": "fast"}, "speed", "invalid_type"),
        ({"speed": True}, "speed", "invalid_type"),
        ({"speed": 0.25}, "speed", "invalid_value"),
        ({"speed": 4.0}, "speed", "invalid_value"),
        ({"speed": float("nan")}, "speed", "invalid_value"),
        ({"speed": float("inf")}, "speed", "invalid_value"),
        ({"speed": -1}, "speed", "invalid_value"),
        ({"instructions": 1}, "instructions", "invalid_type"),
        ({"instructions": "x" * (MAX_INPUT + 1)}, "instructions", "invalid_value"),
        ({"lang_code": "z"}, "lang_code", "unknown_parameter"),
        ({"\ud800": 1}, "?", "unknown_parameter"),
        ({"input": "hi\ud800"}, "input", "invalid_value"),
        ({"instructions": "\udfff"}, "instructions", "invalid_value"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, Any], param: str, code: str):
    error = refusal(json.dumps({**GOOD, **change}).encode())
    assert (error.param, error.code) == (param, code)
    assert param in str(error)
    json.dumps(error.body, ensure_ascii=False).encode()


def test_a_character_that_is_escaped_as_two_is_one():
    body = json.dumps({**GOOD, "input": "好😀"}, ensure_ascii=True)
    assert "\\ud83d" in body
    assert parse(body.encode()).input == "好😀"


@pytest.mark.parametrize("missing", ["input", "voice"])
def test_a_missing_field_is_named(missing: str):
    body = {key: value for key, value in GOOD.items() if key != missing}
    error = refusal(json.dumps(body).encode())
    assert (error.param, error.code) == (missing, "missing_required_parameter")


def test_a_speed_that_the_voice_does_not_have_is_told_the_range():
    assert "0.5 and 2" in str(refusal(json.dumps({**GOOD, "speed": 3}).encode()))


@pytest.mark.parametrize("speed", [0.5, 1, 2.0])
def test_a_speed_that_it_has_is_taken(speed: float):
    assert parse(json.dumps({**GOOD, "speed": speed}).encode()).speed == speed


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"hello",
        b"[]",
        b'"text"',
        b"null",
        b"\xff\xfe\xfd",
        b"{" * 10_000,
        b"[" * MAX_BODY,
        b'{"a":' * 20_000,
        b'{"speed": ' + b"9" * 5_000 + b"}",
        b'{"input": "x"',
    ],
)
def test_what_is_no_json_object_is_refused(body: bytes):
    assert refusal(body).code == "invalid_json"


@given(
    st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from([*SpeechRequest.model_fields, "id", "x"]), inner, max_size=9
                )
            ),
            max_leaves=12,
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_nothing_else_ever_happens(body: bytes):
    with contextlib.suppress(ApiError):
        parse(body)
