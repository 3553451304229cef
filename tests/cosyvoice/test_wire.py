"""Every message arrives as it was sent, however the pipe cuts it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts_engine.cosyvoice.wire import (
    ORDERS,
    REPORTS,
    Audio,
    Cancel,
    Done,
    Message,
    More,
    Ready,
    Register,
    Registered,
    Remove,
    Removed,
    Settings,
    Speak,
    Started,
)
from tts_engine.errors import AtCapacity, DuplexdError, EngineFailed, UnknownVoice
from tts_engine.frames import Failed, Frames, encode, error_of, failed

MESSAGES: list[Message] = [
    Settings(model_dir="/模型", voices_dir="/v", live_s=1.5),
    Speak(id=1, text="你好 “Tom”\n", voice="安娜", speed=1.5, style="开心", seed=7),
    Speak(id=1, text="好", voice="a", carry=True, before_text="你", before_tokens=[4, 5]),
    Speak(id=1, text="好", voice="a", more=True),
    More(id=1, text="的", last=True),
    Cancel(id=1),
    Register(id=2, name="b", text="好", language="zh", consent="yes", payload=bytes(range(256))),
    Register(id=2, name="b", text="好"),
    Remove(id=3, name="b"),
    Ready(kind="cosyvoice2"),
    Started(id=1, waited_s=0.25),
    Done(id=1, tokens=3, decode_steps=4, decoded=5, said=[6, 7, 8]),
    Failed(id=1, code="error", message="m", mend="n"),
    Registered(id=2, name="b"),
    Removed(id=3, name="b"),
]


@given(st.lists(st.sampled_from(MESSAGES), max_size=6), st.integers(1, 50))
def test_messages_arrive_as_they_were_sent(sent: list[Message], cut: int) -> None:
    data = b"".join(map(encode, sent))
    frames = Frames((*ORDERS, *REPORTS))
    got: list[Any] = []
    for at in range(0, len(data), cut):
        got += frames.feed(data[at : at + cut])
    assert got == sent


def test_marks_come_as_lists() -> None:
    [got] = Frames(REPORTS).feed(encode(Audio(id=1, marks=[(5, 1), (9, 2)], payload=b"ab")))
    assert (got.marks, got.payload) == ([[5, 1], [9, 2]], b"ab")


@pytest.mark.parametrize("kind", [DuplexdError, AtCapacity, UnknownVoice, EngineFailed])
def test_failures_keep_their_class(kind: type[DuplexdError]) -> None:
    error = error_of(failed(3, kind("What", mend="How")))
    assert type(error) is kind
    assert (error.message, error.mend) == ("What", "How")


def test_an_unknown_failure_is_the_engine_s() -> None:
    assert type(error_of(Failed(id=1, code="new", message="m"))) is EngineFailed
