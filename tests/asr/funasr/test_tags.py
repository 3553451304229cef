"""SenseVoice's tags: what they say, and the text without them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.asr.funasr.tags import Tagged, parse


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (
            "<|zh|><|HAPPY|><|Speech|><|withitn|>你好，一共3块。",
            Tagged(text="你好，一共3块。", language="zh", emotion="happy"),
        ),
        (
            "<|en|><|EMO_UNKNOWN|><|Laughter|><|withitn|> Well, no.",
            Tagged(text="Well, no.", language="en", events=("laughter",)),
        ),
        (
            "<|nospeech|><|EMO_UNKNOWN|><|Cough|><|woitn|>The.",
            Tagged(events=("cough",)),
        ),
        ("<|zh|><|SAD|><|BGM|><|withitn|>。", Tagged(emotion="sad", events=("music",))),
        (
            "<|zh|><|NEUTRAL|><|Cry|>一<|en|><|ANGRY|><|Sneeze|>two<|Cry|>",
            Tagged(text="一two", language="zh", emotion="neutral", events=("crying", "sneeze")),
        ),
        ("<|xx|><|Unheard_Of|><|Breath|>好", Tagged(text="好", events=("breath",))),
        ("a < b | c", Tagged(text="a < b | c")),
        ("", Tagged()),
    ],
)
def test_tags_are_read_and_taken_out(written: str, expected: Tagged) -> None:
    assert parse(written) == expected


@given(st.text(), st.lists(st.sampled_from(["zh", "HAPPY", "Applause", "nospeech", "?"])))
def test_no_tag_is_left_in_the_text(text: str, tags: list[str]) -> None:
    written = "".join(f"<|{tag}|>" for tag in tags) + text.replace("<|", "")

    tagged = parse(written)

    assert "<|" not in tagged.text
    assert tagged.text == "" or any(letter.isalnum() for letter in tagged.text)
    assert len(set(tagged.events)) == len(tagged.events)
