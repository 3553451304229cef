"""What a second pass gives for one piece of audio."""
# pyright: strict

from __future__ import annotations

from dataclasses import dataclass

from services.asr.base import Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """Text, and what else the model tells.

    Parameters:
        text: punctuated where the model, or the one beside it, can; empty when nothing was said.
        language: "zh", "en", "yue", "ja", "ko"; empty when nothing was said.
        emotion: such as "happy"; empty where the model cannot tell.
        events: what was heard beside words, such as "laughter", each once.
        words: seconds from the start of the audio; empty where the model knows no times.
        log_prob: mean log probability of the tokens, where the model gives it.
    """

    text: str = ""
    language: str = ""
    emotion: str = ""
    events: tuple[str, ...] = ()
    words: tuple[Word, ...] = ()
    log_prob: float | None = None
