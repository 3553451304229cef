"""Real recordings as test speech: a folder of sound files, each with what is known of it beside it.

NAME.wav    what was recorded (or .flac)
NAME.txt    what is said in it, for scripted recognisers
NAME.json   {"end_s": 3.42}: where the speech truly ends, "start_s" and "text" likewise;
            without it the energy rule of `pipeline.latency` finds the ends
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import soxr
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.bench.speech import Clip, plain
from pipeline.bench.wire import MICROPHONE_RATE
from pipeline.latency import first_sound, last_sound
from pipeline.talk.stereo import RATE, read_mono
from tts_engine.errors import BadAudio, BadRequest

_SUFFIXES = (".wav", ".flac")


class _Marked(BaseModel):
    """What somebody wrote down about a recording."""

    model_config = ConfigDict(extra="forbid")

    start_s: float | None = Field(default=None, ge=0)
    end_s: float | None = Field(default=None, gt=0)
    text: str = ""


def read_clips(folder: Path) -> list[Clip]:
    """Reads all recordings of a folder, in the order of their names.

    Raises:
        BadRequest: there are none, or what stands beside one cannot be read.
        BadAudio: one cannot be read, or holds no sound.
    """
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)
    except OSError as error:
        raise BadRequest(f"Cannot read {folder}: {error.strerror or error}") from error
    if not files:
        raise BadRequest(
            f"There is no recording in {folder}", mend="Put .wav or .flac files into it"
        )
    return [_clip(path) for path in files]


def _clip(path: Path) -> Clip:
    recorded = soxr.resample(read_mono(path), RATE, MICROPHONE_RATE)
    samples = np.asarray(recorded, np.int16)
    known = _known(path)
    first, last = first_sound(samples, MICROPHONE_RATE), last_sound(samples, MICROPHONE_RATE)
    if first is None or last is None:
        raise BadAudio(f"{path} holds no sound above -45 dBFS")
    start = known.start_s if known.start_s is not None else first / MICROPHONE_RATE
    end = known.end_s if known.end_s is not None else last / MICROPHONE_RATE
    if not start < end <= len(samples) / MICROPHONE_RATE:
        raise BadRequest(f"{path.with_suffix('.json')}: the speech ends before it begins, or after")
    text = plain(known.text)
    # Nobody wrote down when each character is spoken: evenly.
    ends = np.linspace(start, end, len(text) + 1)[1:] * MICROPHONE_RATE
    return Clip(
        name=path.name,
        text=text,
        samples=samples,
        start=start,
        end=end,
        kind="real",
        ends=tuple(int(each) for each in ends),
    )


def _known(path: Path) -> _Marked:
    told: dict[str, Any] = {}
    beside = path.with_suffix(".json")
    try:
        if beside.exists():
            told = json.loads(beside.read_text(encoding="utf-8"))
        written = path.with_suffix(".txt")
        if written.exists():
            told = {"text": written.read_text(encoding="utf-8-sig").strip(), **told}
        return _Marked.model_validate(told)
    except (OSError, ValueError, TypeError) as error:  # ValidationError is a ValueError
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise BadRequest(f"Cannot read what stands beside {path}: {why}") from error
