"""The delays of scripted engines, written as `asr=60,llm=150@50,tts=150`."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: the engines that can be scripted
PARTS = ("asr", "llm", "tts")

_NUMBER = r"[0-9]{1,6}(?:\.[0-9]{1,3})?"
_ITEM = re.compile(rf"(?P<part>\w+)=(?P<ms>{_NUMBER})(?:@(?P<rate>{_NUMBER}))?")


@dataclass(frozen=True, slots=True)
class ScriptedDelay:
    """When a scripted engine delivers.

    Parameters:
        first_ms: to the final text, the first token, or the first chunk, milliseconds.
        per_s: what follows, a second: tokens of an LLM; None: all at once.
    """

    first_ms: float
    per_s: float | None = None


def parse_spec(spec: str) -> dict[str, ScriptedDelay]:
    """Reads a spec; the empty one names no part.

    Raises:
        ValueError: not a spec; the text says which piece and why.
    """
    delays: dict[str, ScriptedDelay] = {}
    for piece in filter(None, (item.strip() for item in spec.split(","))):
        match = _ITEM.fullmatch(piece)
        if match is None:
            raise ValueError(f'"{piece}" is not of the form part=ms or part=ms@rate')
        part, rate = match["part"], match["rate"]
        if part not in PARTS:
            raise ValueError(f'"{part}" is none of the parts {", ".join(PARTS)}')
        if part in delays:
            raise ValueError(f'"{part}" stands twice')
        if rate is not None and float(rate) == 0:
            raise ValueError(f'the rate of "{piece}" must be above 0')
        delays[part] = ScriptedDelay(float(match["ms"]), float(rate) if rate else None)
    return delays
