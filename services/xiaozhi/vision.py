"""Where a device sends what its camera sees, with a question: the answer becomes a tool's result.

Whatever else than 200 a device gets, its tool fails without a word why. So who shows the right
token gets 200, and failures are told in a sentence that the language model can pass on.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import openai
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from loguru import logger

from services.handshake import NotAdmitted
from services.language import language_of
from services.llm.failures import describe_failure
from services.well_formed import well_formed
from services.xiaozhi.bodies import body_of
from services.xiaozhi.handshake import VISION_PATH, identity
from services.xiaozhi.registry import DeviceRegistry
from tts_engine.errors import DuplexdError, EngineFailed, TimedOut
from tts_engine.service.api_errors import ApiError
from tts_engine.service.forms import BadForm, parse_form

#: largest body, bytes: the cameras send some hundred KB
_MOST_BYTES = 4 << 20
#: photos at a time, of all devices
_AT_ONCE = 8
#: longest wait for a photo, and for what the model says of it, seconds: a call of a camera may take
#: 30 in all
_PHOTO_S, _ANSWER_S = 8.0, 18.0
#: longest question and answer, characters, and the answer in tokens
_QUESTION, _ANSWER, _TOKENS = 2_000, 4_000, 400
#: what files begin with, and what they are
_KINDS = {b"\xff\xd8\xff": "jpeg", b"\x89PNG\r\n": "png"}

_SENTENCES = {
    "none": {
        "zh": "没有配置能看图的模型，所以看不到照片。",
        "en": "No model that can see is configured, so the photo cannot be looked at.",
    },
    "no_photo": {"zh": "没有收到照片。", "en": "No photo has arrived."},
    "cut": {
        "zh": "照片太大，或者没有完整收到。",
        "en": "The photo is too large, or did not arrive as a whole.",
    },
    "busy": {"zh": "现在太忙，请稍后再拍。", "en": "Too busy now, try again in a moment."},
    "failed": {"zh": "看图的模型出错了。", "en": "The model that looks at photos has failed."},
    "question": {"zh": "这张照片里有什么？", "en": "What is in this photo?"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionContext:
    """What looks at photos.

    Parameters:
        registry: of the devices.
        client: of the language model's server; gives None while it starts.
        model: that can see; None: there is none.
        language: of what is said about a photo without a question.
        on_error: counts failures.
    """

    registry: DeviceRegistry
    client: Callable[[], openai.AsyncOpenAI | None]
    model: str | None
    language: Literal["zh", "en"] = "zh"
    on_error: Callable[[DuplexdError], None] = lambda _: None


class _Unseen(Exception):
    """There is no photo, and a sentence says why."""


def make_router(context: VisionContext) -> APIRouter:
    """`POST /xiaozhi/vision/explain`."""
    router = APIRouter()
    free = _AT_ONCE

    @router.post(VISION_PATH)
    async def explain(request: Request) -> Response:
        """A photo and a question come in."""
        nonlocal free
        who = identity(request.headers, request.query_params)
        if not context.registry.admits_photo(who.token):
            error = NotAdmitted("The device shows no token for photos, or a wrong one")
            context.on_error(error)
            return ApiError(error, 401).response()
        if not free:
            return _told(context, "busy", "")
        free -= 1
        try:
            photo, question = await _received(request)
            return await _seen(context, photo, question)
        except _Unseen as reason:
            return _told(context, str(reason), "")
        finally:
            free += 1

    return router


async def _received(request: Request) -> tuple[bytes, str]:
    """The photo and the question.

    Raises:
        _Unseen: there is no photo.
    """
    body = await body_of(request, most=_MOST_BYTES, wait_s=_PHOTO_S)
    if body is None:
        raise _Unseen("cut")
    try:
        form = parse_form(body, request.headers.get("content-type", ""))
    except BadForm:
        raise _Unseen("no_photo") from None
    photo = form.files.get("file", b"")
    if not photo:
        raise _Unseen("no_photo")
    return photo, form.fields.get("question", "").strip()[:_QUESTION]


async def _seen(context: VisionContext, photo: bytes, question: str) -> Response:
    """What the model says of it."""
    client = context.client()
    if context.model is None or client is None:
        return _told(context, "none" if context.model is None else "busy", question)
    kind = next((kind for start, kind in _KINDS.items() if photo.startswith(start)), None)
    if kind is None:
        return _told(context, "no_photo", question)
    try:
        asked = question or _SENTENCES["question"][context.language]
        text = await _asked(client, context.model, f"image/{kind}", photo, asked)
    except DuplexdError as error:
        logger.warning("a photo was not looked at: {}", error)
        context.on_error(error)
        return _told(context, "failed", question)
    return _answer(text, succeeded=True)


async def _asked(
    client: openai.AsyncOpenAI, model: str, kind: str, photo: bytes, question: str
) -> str:
    """Asks the model.

    Raises:
        DuplexdError: it failed, was silent too long, or says nothing.
    """
    encoded = base64.b64encode(photo).decode()
    content: list[Any] = [
        {"type": "text", "text": question},
        {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{encoded}"}},
    ]
    message = {"role": "user", "content": content}
    body = {"model": model, "messages": [message], "max_tokens": _TOKENS}
    try:
        async with asyncio.timeout(_ANSWER_S):
            # As JSON: what a server says that is no completion gets past the client's models.
            found = await client.post("/chat/completions", body=body, cast_to=object)
    except TimeoutError as error:
        raise TimedOut(f"{model} did not say within {_ANSWER_S:g} s what it sees") from error
    except Exception as error:
        raise describe_failure(error) from error
    match found:
        case {"choices": [{"message": {"content": str(text)}}, *_]} if text.strip():
            return well_formed(text.strip()[:_ANSWER])
        case _:
            raise EngineFailed(f"{model} says nothing of a photo")


def _told(context: VisionContext, reason: str, question: str) -> Response:
    language = language_of(question) or context.language
    return _answer(_SENTENCES[reason][language], succeeded=False)


def _answer(text: str, *, succeeded: bool) -> Response:
    """As servers of this kind say it; devices hand it to the language model as it is."""
    return JSONResponse({"success": succeeded, "action": "RESPONSE", "response": text})
