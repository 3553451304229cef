"""The sections `llm` and `prompts`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, Self

from pydantic import (
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.networks import HttpUrl

from pipeline.config_section import CONFIGS, Language, Section, Sentence
from services.llm.moods import PLACEHOLDER

_URL = TypeAdapter(HttpUrl)


class LocalLlm(Section):
    """The embedded language model: a demo brain, small enough for two cores."""

    model: Literal["auto", "0.5b", "1.5b"] = Field(
        default="auto", description="Size; auto is 1.5b from four cores on, else 0.5b."
    )
    context: int = Field(
        default=4096, ge=512, le=131_072, description="Context of a request, tokens."
    )
    parallel: int = Field(
        default=2, ge=1, le=16, description="Requests that are answered at a time."
    )
    tools: bool = Field(
        default=False,
        description="Offer it a client's tools, which models of this size misuse. If not, it "
        "answers in words, and a call that a client demands fails.",
    )


class Llm(Section):
    """The language model that answers."""

    provider: Literal["auto", "openai", "local", "scripted"] = Field(
        default="auto",
        description="openai: any server with OpenAI's chat API; local: the embedded model; auto: "
        "openai if a base_url or an api_key is set, here or in the environment, else local.",
    )
    base_url: str | None = Field(
        default=None,
        description="Address of the API up to /v1; null is OpenAI's own. The environment's "
        "OPENAI_BASE_URL goes before.",
    )
    api_key: SecretStr | None = Field(
        default=None,
        description="Key of the API; never shown. The environment's OPENAI_API_KEY goes before.",
    )
    model: str | None = Field(
        default=None,
        min_length=1,
        description="Model name at the API; null is the first that the server lists. The "
        "environment's OPENAI_MODEL goes before.",
    )
    temperature: float = Field(default=0.6, ge=0, le=2, description="Sampling temperature.")
    max_tokens: int = Field(default=300, ge=1, le=32_768, description="Bound of an answer, tokens.")
    context_tokens: int | None = Field(
        default=None,
        ge=512,
        le=2_000_000,
        description="Bound of a request and its answer, tokens: a longer conversation loses its "
        "oldest exchanges. null is 16000; for the embedded model 2048, as it reads slowly, or "
        "llm.local.context if that is less.",
    )
    first_token_timeout_s: float = Field(
        default=15.0, ge=0.1, le=600, description="Limit from the request to the first token."
    )
    idle_timeout_s: float = Field(
        default=15.0, ge=0.1, le=600, description="Limit between two tokens."
    )
    local: LocalLlm = Field(default=LocalLlm(), description="The embedded model.")

    @property
    def engine(self) -> Literal["openai", "local", "scripted"]:
        """The provider, with "auto" decided."""
        if self.provider != "auto":
            return self.provider
        return "openai" if self.base_url or self.api_key else "local"

    @property
    def context(self) -> int:
        """`context_tokens`, with null decided."""
        if self.context_tokens is not None:
            return self.context_tokens
        # After a cut what is left is read anew, within the limit of the first token: two cores
        # read some 70 tokens a second.
        return min(self.local.context, 2048) if self.engine == "local" else 16_000

    @property
    def shown_url(self) -> str | None:
        """`base_url` for people to see: without the user name and password that it may hold."""
        return self.base_url and re.sub(r"//[^/]*@", "//", self.base_url)

    @field_validator("base_url")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        try:
            if value is not None:
                _URL.validate_python(value)
        except ValidationError:
            raise ValueError("must be an http:// or https:// address") from None
        return value

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.provider == "openai" and not (self.base_url or self.api_key):
            raise ValueError(
                "provider openai needs a base_url or an api_key; set OPENAI_BASE_URL or "
                "OPENAI_API_KEY"
            )
        return self


class Prompts(Section):
    """Files with the system prompt, one a language; a conversation's first turn chooses."""

    zh: Path = Field(
        default=CONFIGS / "prompts/zh.md",
        strict=False,
        description="For Mandarin, relative to the configuration file.",
    )
    en: Path = Field(
        default=CONFIGS / "prompts/en.md",
        strict=False,
        description="For English, relative to the configuration file.",
    )
    switch: Sentence = Field(
        default=Sentence(zh="（请用中文回答。）", en="(Answer in English.)"),
        description="Added to a turn in another language than the conversation's prompt.",
    )
    mood: Sentence | None = Field(
        default=None,
        description="Added to a turn of which the recogniser tells the emotion, in the language of "
        "the prompt: `zh` and `en`, each with {emotion} where it is named. null adds nothing; nor "
        "does a neutral turn.",
    )

    @field_validator("mood")
    @classmethod
    def _names_the_emotion(cls, value: Sentence | None) -> Sentence | None:
        for language, text in (value.model_dump() if value is not None else {}).items():
            if PLACEHOLDER not in text:
                raise ValueError(f"needs {PLACEHOLDER} in {language}, where the emotion is named")
        return value

    def text(self, language: Language) -> str:
        """Reads the prompt of a language."""
        return (self.zh if language == "zh" else self.en).read_text(encoding="utf-8").strip()
