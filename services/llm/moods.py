"""How the user sounded, as a request says it: pure functions.

A recogniser may tell the emotion of a turn, see `services.asr.base.Transcript`. Neutral ones and
those that have no name here are not spoken of.
"""
# pyright: strict

from __future__ import annotations

from collections.abc import Mapping

#: where a sentence names the emotion
PLACEHOLDER = "{emotion}"

_NAMES: Mapping[str, Mapping[str, str]] = {
    "happy": {"zh": "开心", "en": "happy"},
    "sad": {"zh": "难过", "en": "sad"},
    "angry": {"zh": "生气", "en": "angry"},
    "fearful": {"zh": "害怕", "en": "afraid"},
    "disgusted": {"zh": "反感", "en": "disgusted"},
    "surprised": {"zh": "惊讶", "en": "surprised"},
}


def mood(emotion: str, language: str, sentences: Mapping[str, str]) -> str:
    """What is said of an emotion, empty for nothing.

    Args:
        emotion: as a recogniser names it.
        language: of the prompt; the first of the sentences' where it is unknown.
        sentences: by language, with a `PLACEHOLDER` each; none: nothing is ever said.
    """
    if language not in sentences:
        language = next(iter(sentences), "")
    name = _NAMES.get(emotion, {}).get(language, "")
    return sentences[language].replace(PLACEHOLDER, name) if name else ""
