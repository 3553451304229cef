"""A voice: what is known of it, and what the model needs of it. Needs no torch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from tts_engine.cosyvoice.kind import Kind
from tts_engine.cosyvoice.prompt import trim_prompt
from tts_engine.errors import BadRequest

Language = Literal["zh", "en", "ja", "yue", "ko"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

NAME_LENGTH = 64
#: mel frames of a speech token
MEL_RATIO = 2

_HANZI = "\u3400-\u4dbf\u4e00-\u9fff"
_NAME = re.compile(rf"[A-Za-z0-9_{_HANZI}][A-Za-z0-9_{_HANZI}-]*")
_KANA = re.compile(r"[\u3040-\u30ff]")
_HANGUL = re.compile(r"[\uac00-\ud7af]")


class VoiceInfo(BaseModel):
    """What is known of a voice.

    Parameters:
        name: letters, digits, Hanzi, - and _; at most 64.
        kind: of the model that measured it; another one cannot speak it.
        text: what the recording says, as it is spoken.
        language: of the text.
        created: when it was registered, ISO 8601 in UTC.
        consent: who agreed to the cloning of their voice, and how; free text.
        duration_s: of the recording's speech.
        sha256: of the recording; empty where that was never here.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    kind: Kind
    text: str
    language: Language
    created: str
    consent: str = ""
    duration_s: float
    sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VoiceFeatures:
    """What the model needs of a voice.

    Parameters:
        llm_tokens: speech tokens of the whole recording, int32 [P].
        flow_tokens: the same without the first few, int32 [F]; see `trim_prompt`.
        mel: log mel of `flow_tokens`, float32 [2 F, 80].
        embedding: of the speaker, float32 [192].
    """

    llm_tokens: NDArray[np.int32]
    flow_tokens: NDArray[np.int32]
    mel: NDArray[np.float32]
    embedding: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Voice:
    """A voice that can be spoken with."""

    info: VoiceInfo
    features: VoiceFeatures


def trimmed(
    tokens: NDArray[np.int32], mel: NDArray[np.float32], embedding: NDArray[np.float32]
) -> VoiceFeatures:
    """Features of a whole recording, with the flow's part brought to a good length.

    Args:
        tokens: int32 [P].
        mel: [n, 80]; a little more or less than 2 P frames.
        embedding: [192].
    """
    count = min(len(tokens), len(mel) // MEL_RATIO)
    cut = trim_prompt(count)
    return VoiceFeatures(
        llm_tokens=tokens[:count].astype(np.int32),
        flow_tokens=tokens[cut:count].astype(np.int32),
        mel=np.ascontiguousarray(mel[MEL_RATIO * cut : MEL_RATIO * count], np.float32),
        embedding=embedding.astype(np.float32),
    )


def is_name(name: str) -> bool:
    """It can be the name of a voice, and so of files."""
    return len(name) <= NAME_LENGTH and _NAME.fullmatch(name) is not None


def check_name(name: str) -> None:
    """Refuses what is no name of a voice.

    Raises:
        BadRequest
    """
    if not is_name(name):
        raise BadRequest(
            f"{name[:NAME_LENGTH]!r} cannot be the name of a voice",
            mend=f"Use letters, digits, Hanzi, - and _, at most {NAME_LENGTH}, no - at the start",
        )


def now() -> str:
    """The time as it is kept."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def language_of(text: str) -> Language:
    """The language of a text by its script; Cantonese looks like Mandarin."""
    if _KANA.search(text):
        return "ja"
    if _HANGUL.search(text):
        return "ko"
    return "zh" if re.search(f"[{_HANZI}]", text) else "en"
