# pyright: strict
"""The fields of `POST /v1/audio/transcriptions`: what they may say, and what is meant by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue

from services.asr.recording import Wish, hotwords_of
from services.asr.renderings import Form, Granularity
from tts_engine.errors import BadRequest
from tts_engine.service.api_errors import ApiError
from tts_engine.service.bodies import parse_fields
from tts_engine.service.forms import BadForm
from tts_engine.service.requests import Fields

#: fields that may come several times, with or without the [] of OpenAI's clients
_LISTS = ("timestamp_granularities", "keywords", "languages")
_MAX_NAME, _MAX_CODE, _MAX_PROMPT, _MAX_LIST = 512, 35, 8192, 100


def _number(value: object) -> object:
    """Forms have text only."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _flag(value: object) -> object:
    known = {"true": True, "false": False}
    return known.get(value.lower(), value) if isinstance(value, str) else value


_Code = Annotated[str, Field(max_length=_MAX_CODE)]
_Term = Annotated[str, Field(max_length=_MAX_NAME)]


class TranscriptionRequest(Fields):
    """How to hear a recording, and what to give back. Unknown fields are refused.

    Parameters:
        model: any name; the daemon has one recogniser.
        language, languages: that may be spoken, in ISO 639-1.
        prompt, keywords: names and terms that are likely.
        response_format: of the answer.
        temperature: is not used: recognition here is not random.
        timestamp_granularities: what `verbose_json` shows.
        stream: the text comes piece by piece, as server-sent events.
        chunking_strategy: "auto" is what is always done.
    """

    model: _Term = ""
    language: _Code = ""
    languages: Annotated[tuple[_Code, ...], Field(strict=False, max_length=_MAX_LIST)] = ()
    prompt: Annotated[str, Field(max_length=_MAX_PROMPT)] = ""
    keywords: Annotated[tuple[_Term, ...], Field(strict=False, max_length=_MAX_LIST)] = ()
    response_format: Form = "json"
    temperature: Annotated[float, BeforeValidator(_number), Field(ge=0, le=1)] = 0.0
    timestamp_granularities: Annotated[tuple[Granularity, ...], Field(strict=False)] = ("segment",)
    stream: Annotated[bool, BeforeValidator(_flag)] = False
    chunking_strategy: Literal["auto"] = "auto"

    def wish(self, known: Sequence[str]) -> Wish:
        """How the recording is to be heard.

        Args:
            known: languages of the recogniser.

        Raises:
            ApiError: another one is asked for.
        """
        codes = tuple(code for code in (self.language, *self.languages) if code)
        chosen = tuple(code.replace("_", "-").partition("-")[0].lower() for code in codes)
        for code, language in zip(codes, chosen, strict=True):
            if language not in known:
                failure = BadRequest(
                    f"The language {code!r} is not recognised here",
                    mend=f"Leave it out, or choose one of {', '.join(known)}",
                )
                param = "language" if code == self.language else "languages"
                raise ApiError(failure, 400, param=param, code="invalid_value")
        return Wish(languages=chosen or None, hotwords=hotwords_of(self.prompt, *self.keywords))


def parse(fields: Sequence[tuple[str, str]]) -> TranscriptionRequest:
    """Reads the fields of a form, without the file.

    Raises:
        ApiError: they are not what they should be; the first fault is told.
        BadForm: one comes twice.
    """
    values: dict[str, JsonValue] = {}
    lists: dict[str, list[JsonValue]] = {}
    for name, value in fields:
        plain = name.removesuffix("[]")
        if plain in _LISTS:
            lists.setdefault(plain, []).append(value)
        elif name in values:
            raise BadForm(f"The field {name[:100]!r} comes twice")
        else:
            values[name] = value
    wanted = parse_fields({**values, **lists}, TranscriptionRequest)
    if wanted.stream and wanted.response_format not in ("json", "text"):
        failure = BadRequest(
            "With 'stream' the text comes as events",
            mend="Leave response_format out, or do without 'stream'",
        )
        raise ApiError(failure, 400, param="response_format", code="invalid_value")
    return wanted
