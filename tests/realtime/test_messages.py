"""Invariants: no message holds the event loop for long, whatever it holds; only audio may be long;
audio is taken whole, however it is written.
"""

from __future__ import annotations

import base64
import json
import time

import pytest

from services.items import Message
from services.realtime.actions import Action, Add, Hear, Refuse, Update
from services.realtime.formats import PCM
from services.realtime.messages import MAX_AUDIO_MESSAGE, MAX_DEPTH, MAX_MESSAGE
from services.realtime.protocol import RealtimeCore
from services.realtime.schema import MAX_LIST, MAX_TEXT
from services.realtime.session import Session
from tests.realtime.fakes import check

APPEND = '{"type":"input_audio_buffer.append","audio":"'
UPDATE = '{"type":"session.update","session":{"type":"realtime",'
CREATE = '{"type":"conversation.item.create","item":{"type":"message","role":"user","content":['


def receive(text: str) -> list[Action]:
    return RealtimeCore(session=Session(id="s"), seed="seed").receive(text)


def refused(text: str) -> dict[str, str]:
    (action,) = receive(text)
    assert isinstance(action, Refuse)
    return check(json.loads(action.text))["error"]


def full(head: str, unit: str, tail: str, size: int = MAX_MESSAGE) -> str:
    """The message of `size` characters with the most units."""
    count = (size - len(head) - len(tail) + 1) // (len(unit) + 1)
    return head + ",".join([unit] * count) + tail


def keys(head: str, tail: str) -> str:
    return head + ",".join(f'"{number:x}":0' for number in range(25_000)) + tail


#: what costs most to read, to check or to refuse
HEAVY = {
    "unknown keys": lambda: keys('{"type":"response.cancel",', "}"),
    "unknown nested keys": lambda: keys(UPDATE, "}}"),
    "keys of an open object": lambda: keys(
        UPDATE + '"audio":{"input":{"noise_reduction":{', "}}}}}"
    ),
    "bad parts": lambda: full(CREATE, "0", "]}}"),
    "empty parts": lambda: full(CREATE, '{"type":"text","text":""}', "]}}"),
    "strange parts": lambda: full(CREATE, '{"a":0,"b":0,"c":0,"d":0}', "]}}"),
    "empty lists": lambda: full("[", "[]", "]"),
    "tools": lambda: full(UPDATE + '"tools":[', "{}", "]}}"),
    "whole tools": lambda: full(
        UPDATE + '"tools":[', '{"type":"function","name":"a","parameters":{"a":[[]]}}', "]}}"
    ),
    "inputs": lambda: full(
        '{"type":"response.create","response":{"input":[',
        '{"type":"message","role":"user","content":[{"type":"text","text":""}]}',
        "]}}",
    ),
    "metadata": lambda: keys('{"type":"response.create","response":{"metadata":{', "}}}"),
    "languages": lambda: full(
        UPDATE + '"audio":{"input":{"transcription":{"languages":[', '"zh"', "]}}}}}"
    ),
    "include": lambda: full(UPDATE + '"include":[', "0", "]}}"),
    "modalities": lambda: full(UPDATE + '"output_modalities":[', "0", "]}}"),
    "any value": lambda: full(UPDATE + '"tracing":[', "[]", "]}}"),
    "surrogates": lambda: full(UPDATE + '"tracing":[', '"\\ud83d\\ude00"', "]}}"),
    "deep": lambda: "[" * MAX_MESSAGE,
    "digits": lambda: full("[", "9" * 4000, "]"),
    "one type": lambda: '{"type":"' + "x" * (MAX_MESSAGE - 20) + '"}',
    "long, not JSON": lambda: "x" * MAX_AUDIO_MESSAGE,
    "long, lists": lambda: full("[", "[]", "]", MAX_AUDIO_MESSAGE),
    "long, lists as audio": lambda: full(APPEND[:-1] + "[", "[]", "]}", MAX_AUDIO_MESSAGE),
    "long, blanks": lambda: APPEND + 'AAAA"' + " " * 15_000_000 + "}",
    "long, blanks before audio": lambda: '{"audio"' + " " * 15_000_000 + ':""}',
    "long, audio that never ends": lambda: APPEND + "A" * 15_000_000,
    "long, not base64": lambda: APPEND + "!" * 15_000_000 + '"}',
    "long, audio": lambda: APPEND + "AAAA" * 3_750_000 + '"}',
    "long, escaped audio": lambda: APPEND + "\\u0041" * 2_600_000 + '"}',
}


@pytest.mark.parametrize("name", HEAVY)
def test_no_message_holds_the_loop(name: str):
    text = HEAVY[name]()
    assert len(text) <= MAX_AUDIO_MESSAGE
    times: list[float] = []
    actions: list[Action] = []
    for _ in range(3):  # a collection of what other tests left may fall into one
        started = time.thread_time()
        actions = receive(text)
        times.append(time.thread_time() - started)
    assert min(times) < 1.0  # on a slow machine, under coverage; 0.1 s without
    for action in actions:
        # what is shown of it is short, too
        assert not isinstance(action, Refuse) or len(action.text) < 2000


@pytest.mark.parametrize(
    "text",
    [
        "x" * (MAX_MESSAGE + 1),
        APPEND + "A" * MAX_AUDIO_MESSAGE + '"}',
        full(UPDATE + '"tools":[', "{}", "]}}", MAX_MESSAGE + 10),
        '{"type":"response.create","audio":"' + "A" * MAX_MESSAGE + '"}',
        '{"type":"input_audio_buffer.append","x":{"audio":"' + "A" * MAX_MESSAGE + '"}}',
        '{"type":"input_audio_buffer.append","audio":"AAAA","x":"' + "A" * MAX_MESSAGE + '"}',
        APPEND + "A" * MAX_MESSAGE,
    ],
    ids=lambda text: text[:55],
)
def test_only_audio_may_be_long(text: str):
    error = refused(text)
    assert error["code"] == "message_too_large"
    assert f"has {len(text)} characters" in error["message"]
    assert f"any other event {MAX_MESSAGE}" in error["message"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_what_no_other_program_reads_as_a_number_is_refused(number: str):
    tool = f'{{"type":"function","name":"f","parameters":{{"maximum":{number}}}}}'
    assert refused(UPDATE + f'"tools":[{tool}]}}}}')["code"] == "invalid_json"
    assert isinstance(receive(UPDATE + '"temperature":0.1e1}}')[0], Update)


def test_what_is_read_is_shallow_enough_for_all_that_is_done_with_it():
    def tool(levels: int) -> str:
        schema = '{"a":' * levels + "1" + "}" * levels
        return UPDATE + f'"tools":[{{"type":"function","name":"f","parameters":{schema}}}]}}}}'

    # the message, the session, the list and the tool are levels as well
    assert isinstance(receive(tool(MAX_DEPTH - 4))[0], Update)
    error = refused(tool(MAX_DEPTH - 3))
    assert (error["code"], error["message"]) == (
        "invalid_json",
        "The message has more than 64 levels",
    )
    # many brackets are not deep
    assert isinstance(receive(UPDATE + '"tracing":[' + ",".join(["[]"] * 100) + "]}}")[0], Update)


@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize(
    "form",
    ['{{"type":{type},"audio":{audio}}}', '{{"audio" : {audio}, "event_id":"e","type":{type}}}'],
)
def test_long_audio_is_taken_whole(form: str, escaped: bool):
    pcm = bytes(range(256)) * 2000
    audio = json.dumps(base64.b64encode(pcm).decode())
    if escaped:
        audio = audio.replace("/", "\\/").replace("+", "\\u002B")
    text = form.format(type='"input_audio_buffer.append"', audio=audio)
    assert len(text) > MAX_MESSAGE
    assert receive(text) == [Hear(pcm, PCM)]


@pytest.mark.parametrize(
    ("audio", "tail", "code"),
    [
        ("A" * MAX_MESSAGE, '",}', "invalid_json"),
        ("A" * MAX_MESSAGE + '\\"AAAA', '"}', "invalid_json"),
        ("\\x" + "A" * MAX_MESSAGE, '"}', "invalid_json"),
        ("A" * MAX_MESSAGE + "\n", '"}', "bad_audio"),
        ("A" * MAX_MESSAGE, '","more":1}', "unknown_parameter"),
    ],
    ids=range(5),
)
def test_long_audio_that_is_wrong_is_refused(audio: str, tail: str, code: str):
    assert refused(APPEND + audio + tail)["code"] == code


def test_what_is_allowed_fits():
    part = {"type": "input_text", "text": "x" * 500}
    item = {"type": "message", "role": "user", "content": [part] * MAX_LIST}
    text = json.dumps({"type": "conversation.item.create", "item": item})
    action = receive(text)[0]
    assert isinstance(action, Add)
    assert action.item == Message(role="user", text="x" * 500 * MAX_LIST)
    item["content"] = [{"type": "input_text", "text": "x" * MAX_TEXT}]
    assert isinstance(
        receive(json.dumps({"type": "conversation.item.create", "item": item}))[0], Add
    )


@pytest.mark.parametrize(
    ("session", "param"),
    [
        ({"instructions": "x" * (MAX_TEXT + 1)}, "session.instructions"),
        ({"model": "x" * 513}, "session.model"),
        ({"include": ["x" * 513]}, "session.include[0]"),
        ({"include": ["x"] * (MAX_LIST + 1)}, "session.include"),
        ({"tools": [{"type": "function", "name": "a"}] * (MAX_LIST + 1)}, "session.tools"),
        ({"audio": {"output": {"voice": "x" * 513}}}, "session.audio.output.voice"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_too_long_is_named(session: dict[str, object], param: str):
    update = {"type": "session.update", "session": {"type": "realtime", **session}}
    error = refused(json.dumps(update))
    assert (error["code"], error["param"]) == ("invalid_value", param)


def test_the_first_of_many_unknown_keys_is_named():
    error = refused(keys('{"type":"response.cancel",', "}"))
    assert (error["code"], error["param"]) == ("unknown_parameter", "0")
    # a fault of a known key is told before them, as when they are few
    error = refused(keys('{"type":"response.cancel","response_id":7,', "}"))
    assert error["param"] == "response_id"
