"""The tags that SenseVoice writes into its text: language, emotion, what else was heard.

`<|zh|><|HAPPY|><|Laughter|><|withitn|>你好。` is what the model says.
"""
# pyright: strict

from __future__ import annotations

import re
from dataclasses import dataclass

_TAG = re.compile(r"<\|([^<>|]*)\|>")
#: of these tags a text may say several, one a segment; the first that names one counts
_LANGUAGES = frozenset({"zh", "en", "yue", "ja", "ko"})
_NOTHING_SAID = "nospeech"
#: what the model is not sure of has a tag as well (EMO_UNKNOWN), which names no emotion
_EMOTIONS = {
    "HAPPY": "happy",
    "SAD": "sad",
    "ANGRY": "angry",
    "NEUTRAL": "neutral",
    "FEARFUL": "fearful",
    "DISGUSTED": "disgusted",
    "SURPRISED": "surprised",
}
#: Speech, Speech_Noise, GBG and Event_UNK are no events
_EVENTS = {
    "BGM": "music",
    "Sing": "singing",
    "Applause": "applause",
    "Laughter": "laughter",
    "Cry": "crying",
    "Sneeze": "sneeze",
    "Breath": "breath",
    "Cough": "cough",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """A text without its tags, and what they said.

    Parameters:
        text: empty when the model heard nobody speak, or wrote nothing but punctuation.
        language: "zh", "en", "yue", "ja", "ko", or empty.
        emotion: "happy", "sad", "angry", "neutral", "fearful", "disgusted", "surprised", or empty.
        events: "laughter", "cough", "music", "singing", "applause", "crying", "sneeze", "breath";
            each once, in the order they were written.
    """

    text: str = ""
    language: str = ""
    emotion: str = ""
    events: tuple[str, ...] = ()


def parse(written: str) -> Tagged:
    """Takes the tags out of what SenseVoice wrote; tags that are not known are dropped."""
    tags: list[str] = _TAG.findall(written)
    languages = [tag for tag in tags if tag in _LANGUAGES or tag == _NOTHING_SAID]
    language = languages[0] if languages else ""
    text = _TAG.sub("", written).strip()
    if language == _NOTHING_SAID or not any(letter.isalnum() for letter in text):
        language = text = ""
    return Tagged(
        text=text,
        language=language,
        emotion=next((_EMOTIONS[tag] for tag in tags if tag in _EMOTIONS), ""),
        events=tuple(dict.fromkeys(_EVENTS[tag] for tag in tags if tag in _EVENTS)),
    )
