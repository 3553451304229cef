# pyright: strict
"""What was recognised in a recording, in the forms that OpenAI's API has. Pure."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection
from typing import Any, Literal

from services.asr.recording import Recording, Segment
from services.asr.subtitles import srt, vtt

Form = Literal["json", "text", "srt", "verbose_json", "vtt"]
Granularity = Literal["word", "segment"]

CONTENT_TYPES: dict[Form, str] = {
    "json": "application/json",
    "verbose_json": "application/json",
    "text": "text/plain; charset=utf-8",
    "srt": "text/plain; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
}
#: OpenAI tells the language by its name
_NAMES = {"zh": "chinese", "en": "english", "ja": "japanese", "ko": "korean", "yue": "cantonese"}


def render(
    recording: Recording, form: Form, *, granularities: Collection[Granularity] = ("segment",)
) -> str:
    """A recording as text.

    Args:
        recording: what was recognised.
        form: of the text.
        granularities: what `verbose_json` shows.
    """
    match form:
        case "text":
            return recording.text + "\n"
        case "srt":
            return srt(recording.segments)
        case "vtt":
            return vtt(recording.segments)
        case "json":
            shown = {"text": recording.text, "usage": _usage(recording)}
        case _:
            shown = _verbose(recording, granularities)
    return json.dumps(shown, ensure_ascii=False)


def _usage(recording: Recording) -> dict[str, Any]:
    return {"type": "duration", "seconds": round(recording.audio_s)}


def _verbose(recording: Recording, granularities: Collection[Granularity]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "task": "transcribe",
        "language": _NAMES.get(recording.language, recording.language),
        "duration": round(recording.audio_s, 3),
        "text": recording.text,
    }
    if "segment" in granularities:
        shown["segments"] = [_segment(n, each) for n, each in enumerate(recording.segments)]
    if "word" in granularities:
        shown["words"] = [
            {"word": word.text, "start": round(word.start_s, 3), "end": round(word.end_s, 3)}
            for segment in recording.segments
            for word in segment.words
        ]
    return {**shown, "usage": _usage(recording)}


def _segment(number: int, segment: Segment) -> dict[str, Any]:
    data = segment.text.encode()
    shown: dict[str, Any] = {
        "id": number,
        "seek": 0,
        "start": round(segment.start_s, 3),
        "end": round(segment.end_s, 3),
        "text": segment.text,
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": segment.log_prob or 0.0,
        "compression_ratio": round(len(data) / len(zlib.compress(data)), 3),
        "no_speech_prob": 0.0,
    }
    # ours, where the engine hears them
    if segment.emotion:
        shown["emotion"] = segment.emotion
    if segment.events:
        shown["events"] = list(segment.events)
    return shown
