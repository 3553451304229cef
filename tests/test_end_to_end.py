"""A spoken question in Mandarin and one in English get spoken answers, with the embedded models.

The question is understood, the answer is heard as it is written, nothing stutters, v2v is measured.
Somebody who speaks up stops an answer, and is answered; the conversation holds what was heard.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import pytest
import soundfile
import soxr
from numpy.typing import NDArray

from pipeline.talk.client import TalkClient
from pipeline.talk.daemon import own_daemon
from pipeline.talk.stereo import RATE
from services.asr.whisper import WhisperEngine
from tests.conftest import Speech, elsewhere
from tests.daemon.client import STARTED, talking

pytestmark = [pytest.mark.models, pytest.mark.timeout(300)]

QUESTIONS = ("中国的首都是哪里？", "What is the capital of France?")
PROMPTS = {
    "zh": "你是语音助手。用一句完整的话回答问题。",
    "en": "You are a voice assistant. Answer in one complete sentence.",
}

# --- comparing what was said with what was written --------------------------------------------

_ZH = "零一二三四五六七八九"
_EN = re.split(
    " ",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen",
)
_TENS = re.split(" ", "twenty thirty forty fifty sixty seventy eighty ninety")


def chinese(number: int) -> str:
    """A number below 10,000 in words."""
    if number < 10:
        return _ZH[number]
    for size, unit in ((1000, "千"), (100, "百"), (10, "十")):
        if number >= size:
            head, rest = divmod(number, size)
            lead = "" if (head, size) == (1, 10) else _ZH[head]
            gap = "零" if 0 < rest < size // 10 else ""
            return lead + unit + gap + (chinese(rest) if rest else "")
    raise AssertionError(number)


def english(number: int) -> str:
    """A number below a million in words."""
    if number < 20:
        return _EN[number]
    if number < 100:
        tens, rest = divmod(number, 10)
        return " ".join((_TENS[tens - 2], *([_EN[rest]] if rest else ())))
    size, unit = (1000, "thousand") if number >= 1000 else (100, "hundred")
    head, rest = divmod(number, size)
    return " ".join((english(head), unit, *([english(rest)] if rest else ())))


def normalised(text: str) -> str:
    """Digits as words, lower case, nothing but letters and characters."""
    words = chinese if re.search(r"[\u4e00-\u9fff]", text) else english
    text = re.sub(r"\d{1,4}", lambda match: f" {words(int(match[0]))} ", text)
    return re.sub(r"[\W_]+", "", text.lower())


def cer(reference: str, heard: str) -> float:
    return float(jiwer.cer(normalised(reference), normalised(heard)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("一共 25 个。", "一共二十五个"),
        ("1080 块", "一千零八十块"),
        ("105 个，10 个", "一百零五个十个"),
        ("3000 米", "三千米"),
        ("It's 42.", "its forty two"),
        ("In 1999", "in one thousand nine hundred ninety nine"),
        ("13 apples, 20", "Thirteen apples twenty"),
    ],
)
def test_numbers_are_compared_as_words(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


# --- the talk ---------------------------------------------------------------------------------


def settings(folder: Path) -> list[str]:
    """A daemon with every embedded model, whose answers do not change from run to run."""
    sets = ["llm.provider=local", "llm.local.model=0.5b", "llm.temperature=0", "tts.speed=1.0"]
    for language, text in PROMPTS.items():
        file = folder / f"{language}.md"
        file.write_text(text, encoding="utf-8")
        sets.append(f"prompts.{language}={file}")
    return [part for each in sets for part in ("--set", each)]


def at_client_rate(samples: NDArray[np.float32]) -> NDArray[np.int16]:
    return np.rint(soxr.resample(samples, 16_000, RATE).clip(-1, 1) * 32767).astype(np.int16)


async def recognise(models_dir: Path, answers: list[NDArray[np.int16]]) -> list[str]:
    engine = WhisperEngine(model_dir=models_dir / "whisper-base", threads=1)
    await engine.start()
    texts: list[str] = []
    try:
        for answer in answers:
            recogniser = engine.open(session="test")
            recogniser.feed(soxr.resample(answer.astype(np.float32) / 32768, RATE, 16_000))
            texts.append((await recogniser.finalise()).text)
            recogniser.close()
    finally:
        await engine.close()
    return texts


def test_questions_are_answered(speech: Speech, models_dir: Path, tmp_path: Path) -> None:
    said = [at_client_rate(speech(question, voice="zf_xiaoxiao")) for question in QUESTIONS]
    with own_daemon(settings(tmp_path), log=tmp_path / "log") as address:
        client = TalkClient(f"ws://{address}/v1/realtime")
        turns: list[dict[str, Any]] = asyncio.run(client.talk(said))
    client.recording.write(tmp_path / "talk.wav")
    assert [turn["status"] for turn in turns] == ["completed"] * 2, turns
    for question, turn in zip(QUESTIONS, turns, strict=True):
        assert cer(question, turn["transcript"]) <= 0.20
        assert normalised(turn["answer"])
        assert turn["underruns"] == 0
        assert turn["v2v_ms"] > 200
        assert sum(turn["parts_ms"].values()) == pytest.approx(turn["v2v_ms"], abs=1)
    both, _ = soundfile.read(tmp_path / "talk.wav", dtype="int16")
    pieces = [client.recording.heard.of(turn) for turn in client.turns]
    answers = [both[piece[0].start : piece[-1].end, 1] for piece in pieces]
    heard = elsewhere(recognise(models_dir, answers))
    for turn, text in zip(turns, heard, strict=True):
        assert cer(turn["answer"], text) <= 0.25, (turn["answer"], text)


# --- and an interruption ----------------------------------------------------------------------

LONG = "北京是中国的首都，有三千多年的历史，故宫、长城和天坛都是著名的景点，每年都有很多游客。"


async def converse(url: str, said: list[NDArray[np.int16]]) -> list[dict[str, Any]]:
    """Three questions, the second over the answer to the first; returns the answers."""
    async with talking(url, microphone=True) as client:
        await client.say(said[0])
        interrupted = await client.playing(1200)
        await client.say(said[1])
        first = await client.done()
        assert first["id"] == interrupted
        second = await client.done(2)
        await client.say(said[2])
        third = await client.done(3)
        assert client.kinds.count(STARTED) == 3
        assert not client.of("error")
        for number, response in enumerate((first, second, third), 1):
            [item] = response["output"]
            await client.send("conversation.item.retrieve", item_id=item["id"])
            kept = (await client.wait("conversation.item.retrieved", number))["item"]
            assert kept["content"][0]["transcript"] == item["content"][0]["transcript"]
    return [first, second, third]


def transcript(response: dict[str, Any]) -> str:
    return response["output"][0]["content"][0]["transcript"]


def test_somebody_who_speaks_up_is_answered(speech: Speech, tmp_path: Path) -> None:
    questions = (
        f"请跟我说：{LONG}",
        "等一下，请问法国的首都是哪里？",
        "What is the capital of China?",
    )
    said = [at_client_rate(speech(question, voice="zf_xiaoxiao")) for question in questions]
    with own_daemon(settings(tmp_path), log=tmp_path / "log") as address:
        answers = asyncio.run(converse(f"ws://{address}/v1/realtime", said))
    assert [each["status"] for each in answers] == ["cancelled", "completed", "completed"]
    assert "法国" in transcript(answers[1]) or "巴黎" in transcript(answers[1])
    assert "Beijing" in transcript(answers[2])
