"""The section `scripted`."""

from __future__ import annotations

from pydantic import Field, field_validator

from pipeline.config_section import Section
from services.scripted.reply import parse_reply
from services.scripted.spec import (
    PREFIX,
    AsrSpec,
    LlmSpec,
    ScriptedSpec,
    ScriptedTexts,
    TtsSpec,
    parse_spec,
)
from tts_engine.errors import ConfigError


class Scripted(Section):
    """Fake engines with set delays, for tests and measurements.

    In the texts `{session}` and `{turn}` are filled in, in replies also `{user}`, the last message,
    and `{tool}`, the last output of a function.
    """

    spec: str = Field(
        default="instant",
        description="Delays: `asr=60,llm=150@50,tts=150` is 60 ms to the final text, 150 ms to "
        "the first token and then 50 tokens a second, 150 ms to the first audio; an engine that "
        "is not named has none, nor has any with `instant`.",
    )
    transcripts: tuple[str, ...] = Field(
        default=("今天天气怎么样？",),
        strict=False,
        min_length=1,
        description="What is recognised, turn by turn, from the start again.",
    )
    replies: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="What is answered, turn by turn, from the start again; empty for `echo`. "
        'A function is called by `@call name {"argument": 1}`, what follows `@then` answers its '
        "output; `@@call` is the word itself.",
    )
    echo: str = Field(default="你说的是：{user}", description="The answer without `replies`.")
    chars_per_second: float = Field(
        default=5.0, gt=0, le=100, description="Pace of the scripted speaker, characters a second."
    )
    marked: bool = Field(
        default=False,
        description="The sound itself says which of `transcripts` is being said, and how far it "
        "is, as `run.py bench` makes it.",
    )
    asr_errors: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of wrong characters in the texts of the recogniser, also of a real one.",
    )

    @property
    def delays(self) -> ScriptedSpec:
        """The delays of every engine; those that `spec` does not name have none."""
        named = parse_spec(f"{PREFIX}{self.spec}")
        return ScriptedSpec(
            asr=named.asr or AsrSpec(), llm=named.llm or LlmSpec(), tts=named.tts or TtsSpec()
        )

    @property
    def texts(self) -> ScriptedTexts:
        """What is recognised and answered."""
        return ScriptedTexts(
            transcripts=[*self.transcripts],
            replies=[*self.replies],
            echo=self.echo,
            chars_per_second=self.chars_per_second,
        )

    @field_validator("replies", "echo")
    @classmethod
    def _is_reply(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for reply in (value,) if isinstance(value, str) else value:
            parse_reply(reply)
        return value

    @field_validator("spec")
    @classmethod
    def _parses(cls, value: str) -> str:
        try:
            parse_spec(f"{PREFIX}{value}")
        except ConfigError as error:
            raise ValueError(error.message.removeprefix("scripted engines: ")) from None
        return value
