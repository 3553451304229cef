"""A line is an utterance, said as the daemon would say it; what cannot be said is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.talk.say import read_lines, speak
from services.scripted.tts import ScriptedVoice, char_ends
from tts_engine.errors import BadRequest

ROOT = Path(__file__).resolve().parents[2]


def test_comments_and_empty_lines_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "q.txt"
    file.write_text("\ufeff# five\n你好\n\n  How are you? \n#no\n", encoding="utf-8")
    assert read_lines(file) == ["你好", "How are you?"]


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "Cannot read"), (b"\xff\xfe\x00", "Cannot read"), (b"# no\n\n", "no utterance")],
)
def test_files_that_say_nothing(content: bytes | None, why: str, tmp_path: Path) -> None:
    file = tmp_path / "q.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadRequest, match=why):
        read_lines(file)


def test_the_questions_of_the_bench_are_in_two_languages() -> None:
    questions = read_lines(ROOT / "configs/questions.txt")
    english = [question.isascii() for question in questions]
    assert english == [False] * 5 + [True] * 5
    assert all(question.endswith(("?", "？")) for question in questions)


async def test_texts_are_said_as_they_are_spoken() -> None:
    voice = ScriptedVoice()
    one, two = await speak(voice, ["**好**的。", "走吧😀"], voice="two")
    assert [(said.text, said.voice) for said in voice.spoken] == [
        ("好的。", "two"),
        ("走吧", "two"),
    ]
    assert (len(one), len(two)) == (char_ends("好的。")[-1], char_ends("走吧")[-1])


@pytest.mark.parametrize(
    ("text", "voice", "why"), [("好", "three", "no voice 'three'"), ("…", "one", "nothing to say")]
)
async def test_what_cannot_be_said(text: str, voice: str, why: str) -> None:
    engine = ScriptedVoice()
    with pytest.raises(BadRequest, match=why):
        await speak(engine, [text], voice=voice)
    assert engine._closed
