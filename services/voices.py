# pyright: strict
"""Which voice a client means: the engine's own names, and those that OpenAI's clients ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tts_engine.errors import UnknownVoice

#: OpenAI's voices. Their clients name one of them as a matter of course, most of them by default.
OPENAI_VOICES = frozenset(
    {
        "alloy",
        "ash",
        "ballad",
        "cedar",
        "coral",
        "echo",
        "fable",
        "marin",
        "nova",
        "onyx",
        "sage",
        "shimmer",
        "verse",
    }
)


def voice_name(value: object) -> object:
    """The name out of what a client wrote: the name, or {"id": name}; anything else as it is."""
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, object]", value)
    return fields["id"] if set(fields) == {"id"} else fields


def resolve_voice(name: str, voices: Sequence[str]) -> str:
    """The engine's voice for a name that a client gave.

    Args:
        name: a name of `voices`, or one of OpenAI's, which stands for the default.
        voices: what the engine has, the default first; not empty.

    Raises:
        UnknownVoice: neither; `mend` names the voices.
    """
    if name in voices:
        return name
    if name in OPENAI_VOICES:
        return voices[0]
    raise UnknownVoice(f"There is no voice {name!r}", mend=f"Choose among {', '.join(voices)}")
