"""What scripted engines are told to do: their delays, in one line of text, and their texts.

    scripted:instant                          every engine scripted, no delays
    scripted:asr=60,llm=150@50,tts=150        delays in milliseconds, 50 tokens per second
    scripted:llm=150@50                       only the LLM is scripted, the others are real
    scripted:tts=150@4                        after its first chunk the voice makes 4 s per second

Turns are counted from 1, as everywhere; turn k takes item k of a list of texts, round and round.
Replies may call functions, see `services.scripted.reply`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, field_validator

from services.scripted.reply import Parts, fill_parts, parse_reply, step_of
from tts_engine.errors import ConfigError

PREFIX = "scripted:"
EXAMPLE = "scripted:asr=60,llm=150@50,tts=150"

_PART = re.compile(r"(?P<name>[a-z]+)=(?P<delay>\d+(?:\.\d+)?)(?:@(?P<rate>\d+(?:\.\d+)?))?")
_PLACEHOLDER = re.compile(r"\{(session|turn|user|tool)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AsrSpec:
    """How slow the scripted recogniser is.

    Parameters:
        final_s: seconds from `finalise` to the text.
    """

    final_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSpec:
    """How slow the scripted LLM is.

    Parameters:
        first_token_s: seconds from the request to the first token.
        tokens_per_s: tokens per second from then on; infinity for all at once.
    """

    first_token_s: float = 0.0
    tokens_per_s: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class TtsSpec:
    """How slow the scripted voice is.

    Parameters:
        first_chunk_s: seconds from the request to the first chunk.
        rate: seconds of audio made per second from then on; infinity for as fast as asked.
    """

    first_chunk_s: float = 0.0
    rate: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedSpec:
    """Which engines are scripted, and how slow they are; None keeps the real engine."""

    asr: AsrSpec | None = None
    llm: LlmSpec | None = None
    tts: TtsSpec | None = None


INSTANT = ScriptedSpec(asr=AsrSpec(), llm=LlmSpec(), tts=TtsSpec())


def _refuse(part: str, why: str) -> ConfigError:
    return ConfigError(
        f"scripted engines: {part!r} {why}", mend=f"Write for example {EXAMPLE} or scripted:instant"
    )


def _rate(part: str, text: str | None) -> float:
    if text is None:
        return math.inf
    rate = float(text)
    if rate == 0:
        raise _refuse(part, "has a rate of zero")
    return rate


def parse_spec(text: str) -> ScriptedSpec:
    """Reads a line such as `scripted:asr=60,llm=150@50,tts=150`.

    Raises:
        ConfigError: names the part that is wrong, with an example.
    """
    if not text.startswith(PREFIX):
        raise _refuse(text, f"does not start with {PREFIX!r}")
    rest = text.removeprefix(PREFIX)
    if rest == "instant":
        return INSTANT
    asr: AsrSpec | None = None
    llm: LlmSpec | None = None
    tts: TtsSpec | None = None
    seen: set[str] = set()
    for part in rest.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise _refuse(part, "is not name=milliseconds or name=milliseconds@rate")
        name = match["name"]
        if name in seen:
            raise _refuse(part, "is there twice")
        seen.add(name)
        delay_s = float(match["delay"]) / 1e3
        if name == "asr":
            if match["rate"] is not None:
                raise _refuse(part, "has a rate, which a recogniser has not")
            asr = AsrSpec(final_s=delay_s)
        elif name == "llm":
            llm = LlmSpec(first_token_s=delay_s, tokens_per_s=_rate(part, match["rate"]))
        elif name == "tts":
            tts = TtsSpec(first_chunk_s=delay_s, rate=_rate(part, match["rate"]))
        else:
            raise _refuse(part, "names no engine (asr, llm, tts)")
    return ScriptedSpec(asr=asr, llm=llm, tts=tts)


def _fill(template: str, **values: str) -> str:
    """Fills the placeholders in one pass: what the user said is never read as a template."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], ""), template)


def _item(texts: Sequence[str], turn: int) -> str:
    return texts[max(turn - 1, 0) % len(texts)]


class ScriptedTexts(BaseModel):
    """What the scripted user says and the scripted LLM answers.

    `{session}` and `{turn}` are filled in everywhere, `{user}` (the last user message) and `{tool}`
    (the last output of a function) in replies.

    Parameters:
        transcripts: what is recognised, by turn.
        replies: what is answered, by turn, see `services.scripted.reply`; empty for echo.
        echo: the reply of every turn when there are no `replies`.
        chars_per_second: pace of the scripted speaker, characters per second of voice.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    transcripts: list[str] = Field(default=["今天天气怎么样？"], min_length=1)
    replies: list[str] = []
    echo: str = "你说的是：{user}"
    chars_per_second: float = Field(default=5.0, gt=0)

    @field_validator("replies")
    @classmethod
    def _replies_parse(cls, value: list[str]) -> list[str]:
        for reply in value:
            parse_reply(reply)
        return value

    @field_validator("echo")
    @classmethod
    def _echo_parses(cls, value: str) -> str:
        parse_reply(value)
        return value

    def transcript(self, *, session: str, turn: int) -> str:
        """What the user says in a turn, counted from 1."""
        return _fill(_item(self.transcripts, turn), session=session, turn=str(turn))

    def reply(
        self, *, session: str, turn: int, user: str, tool: str = "", outputs: int = 0
    ) -> Parts:
        """What is answered in a turn, counted from 1; 0 for an answer to nobody, a greeting.

        Args:
            session, turn, user, tool: for the placeholders.
            outputs: how many outputs of functions there are since the user spoke.
        """
        template = _item(self.replies, turn) if self.replies else self.echo
        values = {"session": session, "turn": str(turn), "user": user, "tool": tool}
        return fill_parts(step_of(template, outputs), lambda text: _fill(text, **values))
