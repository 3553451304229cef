"""Over a real socket: what agrees or coughs lets the answer go on, what interrupts ends it."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from pipeline.bench.bargein import BargeInBench
from pipeline.bench.bargein_sounds import ANSWERS, BargeSound, Kind, marked, tagged
from pipeline.bench.bargein_trials import tag_of
from pipeline.bench.faces import Face
from pipeline.bench.speech import Clip
from services.scripted.spec import LlmSpec
from services.scripted.speech import synthetic_speech
from tts_engine.errors import EngineFailed

#: long enough for a few sounds
SHORT = tuple(answer[:70] for answer in ANSWERS)


def clip(text: str, seconds: float) -> Clip:
    samples = synthetic_speech(seconds=seconds, tail_s=0.1)
    ends = np.linspace(0, 0.8 * seconds * 16_000, len(text) + 1)[1:].astype(int)
    return Clip(
        name=text or "cough",
        text=text,
        samples=samples,
        start=0.0,
        end=seconds,
        kind="command",
        ends=tuple(ends.tolist()),
    )


MADE: list[tuple[Kind, str, float]] = [
    ("backchannel", "好的", 0.3),
    ("backchannel", "嗯", 0.2),
    ("noise", "", 0.3),
    ("noise", "", 0.2),
    ("interruption", "等一下", 0.5),
    ("interruption", "现在几点了", 0.6),
]


def bench(clips: list[Clip], texts: list[str], **changes: Any) -> BargeInBench:
    import json

    found: dict[str, Any] = {
        "options": ("--engines", "scripted:asr=20,llm=20,tts=20"),
        "llm": LlmSpec(first_token_s=0.02),
        "sets": {"scripted.marked": "true", "scripted.transcripts": json.dumps(texts)},
        "lead_ms": 200,
        "questions": (clips[0],),
        "answers": SHORT,
        "clients": 2,
    }
    return BargeInBench(**{**found, **changes})


@pytest.mark.alone
@pytest.mark.timeout(300)
async def test_a_whole_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://nobody.invalid/v1")
    clips, texts = marked(
        [clip("给我讲个故事", 0.8), *(clip(text, seconds) for _, text, seconds in MADE)]
    )
    sounds = [
        BargeSound(kind=kind, clip=each) for (kind, _, _), each in zip(MADE, clips[1:], strict=True)
    ]
    told: list[float] = []
    running = bench(clips, texts, on_progress=lambda share, _: told.append(share))
    result = await running.run(sounds)
    assert os.environ["OPENAI_BASE_URL"] == "http://nobody.invalid/v1"
    assert told[-1] == 1.0
    found = result.to_json()
    assert found["sounds"] == {
        "backchannel": {"unnoticed": 0, "resumed": 2, "interrupted": 0, "lost": 0},
        "noise": {"unnoticed": 0, "resumed": 2, "interrupted": 0, "lost": 0},
        "interruption": {"unnoticed": 0, "resumed": 0, "interrupted": 2, "lost": 0},
    }
    assert found["resume_exact_rate"] == 1.0
    assert found["context_is_prefix_rate"] == 1.0
    assert found["stop_ms"]["p50"] is not None
    assert found["stop_plain_ms"]["p50"] is not None
    assert found["truncation_chars"]["median"] is not None


@pytest.mark.alone
@pytest.mark.timeout(300)
async def test_devices() -> None:
    """They are told of nothing: what became of a sound is read from what comes."""
    questions = [tagged(clip("给我讲个故事", 0.8), tag_of(f"caller-{at}")) for at in range(2)]
    clips, texts = marked([*questions, *(clip(text, seconds) for _, text, seconds in MADE)])
    sounds = [
        BargeSound(kind=kind, clip=each) for (kind, _, _), each in zip(MADE, clips[2:], strict=True)
    ]
    face = Face(name="xiaozhi", frame_ms=60, mode="realtime", codec="pcm")
    running = bench(clips, texts, face=face, questions=tuple(clips[:2]), lead_ms=120)
    result = await running.run(sounds)
    found = result.to_json()
    assert found["sounds"]["interruption"]["interrupted"] == 2
    for kind in ("backchannel", "noise"):
        assert found["sounds"][kind]["interrupted"] == found["sounds"][kind]["lost"] == 0
    assert found["context_is_prefix_rate"] == 1.0
    assert found["truncation_chars"]["median"] <= 1
    assert found["stop_ms"]["p50"] is None
    assert found["stop_decoded_ms"]["p50"] == found["stop_plain_ms"]["p50"] + 120


@pytest.mark.timeout(300)
async def test_a_question_that_is_not_answered_ends_the_bench(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pipeline.bench.bargein_trials._ANSWER_S", 2.0)
    silent = clip("", 0.8)  # nobody can understand it
    sound = BargeSound(kind="noise", clip=clip("", 0.3))
    with pytest.raises(EngineFailed, match="was not answered"):
        await bench([silent], ["好"]).run([sound])
