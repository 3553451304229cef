"""Each tag has a wording; a user's words end no prompt; CosyVoice 3 gets its system prompt."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts_engine.cosyvoice.kind import Kind
from tts_engine.cosyvoice.style import END_OF_PROMPT, Wording, without_marks, word
from tts_engine.text.emotion import EMOTIONS

VOICE = "希望你以后做得更好。"
KINDS: tuple[Kind, ...] = get_args(Kind)


def worded(style: str, *, kind: Kind = "cosyvoice2", text: str = "你好。") -> Wording:
    return word(text, style=style, voice_text=VOICE, kind=kind)


@pytest.mark.parametrize("style", ["", "  ", "中性", "neutral", "Neutral"])
def test_plain(style: str) -> None:
    assert worded(style) == Wording(prompt_text=VOICE, text="你好。", speech=True)
    system = f"You are a helpful assistant.{END_OF_PROMPT}"
    assert worded(style, kind="cosyvoice3").prompt_text == system + VOICE


@pytest.mark.parametrize(
    "style, told",
    [
        ("关心", "请用关心的语气说这句话。"),
        ("开心", "请用开心的语气说这句话。"),
        ("耳语", "请压低声音，像耳语一样说这句话。"),
        ("happy", "Please say it in a happy tone."),
        ("Excited", "Please say it in an excited tone."),
        ("whispers", "Please say it in a whisper."),
        ("用四川话说这句话", "用四川话说这句话"),
        ("Speak\n slowly. ", "Speak slowly."),
    ],
)
def test_an_instruction_takes_the_place_of_the_recording(style: str, told: str) -> None:
    made = worded(style)
    assert made == Wording(prompt_text=f"{told}{END_OF_PROMPT}", text="你好。", speech=False)


@pytest.mark.parametrize(
    "style, told",
    [
        ("关心", "请用关心的语气说这句话。"),
        ("Excited", "Please say it in an excited tone."),
        ("请用广东话表达。", "请用广东话表达。"),
        # what it was taught
        ("开心", "请非常开心地说一句话。"),
        ("Happy", "请非常开心地说一句话。"),
        ("难过", "请非常伤心地说一句话。"),
        ("angry", "请非常生气地说一句话。"),
        ("耳语", "Please say a sentence in a very soft voice."),
    ],
)
def test_an_instruction_follows_the_system_prompt(style: str, told: str) -> None:
    made = worded(style, kind="cosyvoice3")
    prompt = f"You are a helpful assistant. {told}{END_OF_PROMPT}"
    assert made == Wording(prompt_text=prompt, text="你好。", speech=False)


@pytest.mark.parametrize("kind", KINDS)
def test_a_system_prompt_that_came_with_the_recording_is_not_said_twice(kind: Kind) -> None:
    given = f"You are a helpful assistant.{END_OF_PROMPT}{VOICE}<|zh|>"
    made = word("你好。", style="", voice_text=given, kind=kind)
    assert made == word("你好。", style="", voice_text=VOICE, kind=kind)


@pytest.mark.parametrize(
    "style, token",
    [("笑", "[laughter]"), ("Laughter", "[laughter]"), ("叹气", "[sigh]"), ("breath", "[breath]")],
)
def test_a_sound_is_made_in_the_text(style: str, token: str) -> None:
    assert worded(style) == Wording(prompt_text=VOICE, text=f"{token}你好。", speech=True)
    third = worded(style, kind="cosyvoice3")
    assert third.text == f"{token}你好。"
    assert third.prompt_text.endswith(f"{END_OF_PROMPT}{VOICE}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tag", sorted(EMOTIONS))
def test_every_tag_has_a_wording(tag: str, kind: Kind) -> None:
    made = worded(tag, kind=kind)
    assert made.prompt_text.count(END_OF_PROMPT) == (not made.speech or kind == "cosyvoice3")
    if not made.speech:
        assert made.prompt_text != f"{tag}{END_OF_PROMPT}"  # a sentence, not a word
        assert made.text == "你好。"


@given(
    st.lists(st.sampled_from(["<|", "|>", "<", "|", ">", "endofprompt", "好", "\n"])).map("".join)
)
def test_no_mark_of_the_model_comes_from_outside(text: str) -> None:
    cleaned = without_marks(text)
    assert "<|" not in cleaned
    assert "|>" not in cleaned
    assert cleaned == without_marks(cleaned)
    made = word(text, style=text, voice_text=VOICE, kind="cosyvoice2")
    assert "<|" not in made.text
    assert made.prompt_text.removesuffix(END_OF_PROMPT).count("<|") == 0


@given(st.text(alphabet="你好 abc<>[]{}|", max_size=30))
def test_other_text_stays(text: str) -> None:
    if "<|" not in text and "|>" not in text:
        assert without_marks(text) == text
