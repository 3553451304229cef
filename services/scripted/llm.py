"""A scripted LLM behind a real `openai.AsyncOpenAI`, inside the process.

Only the transport is ours, so parsing, timeouts, retries and cancellation are the client's own.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import cast

import httpx2  # the HTTP library that the openai client itself is built on
from openai import AsyncOpenAI

from services.scripted.llm_script import ConnectionDropped, LlmFault, LlmReply, LlmScript
from services.scripted.spec import ScriptedTexts


class _Body(httpx2.AsyncByteStream):
    """A reply as the client's HTTP library reads it, bounded by the client's read timeout."""

    def __init__(self, reply: LlmReply, read_s: float | None) -> None:
        self._reply = reply
        self._read_s = read_s

    def __aiter__(self) -> _Body:
        # one body, however often it is iterated: the client drains what follows the end mark
        return self

    async def __anext__(self) -> bytes:
        try:
            async with asyncio.timeout(self._read_s):
                return await anext(self._reply)
        except TimeoutError as error:
            raise httpx2.ReadTimeout("the scripted LLM is silent") from error
        except ConnectionDropped as error:
            raise httpx2.ReadError("the scripted LLM broke off") from error

    async def aclose(self) -> None:
        await self._reply.aclose()


class _Transport(httpx2.AsyncBaseTransport):
    def __init__(self, script: LlmScript) -> None:
        self._script = script

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        try:
            reply = self._script.answer(request.method, request.url.path, body)
        except ConnectionDropped as error:
            raise httpx2.ConnectError("the scripted LLM is unreachable") from error
        read_s = request.extensions.get("timeout", {}).get("read")
        return httpx2.Response(
            reply.status,
            headers={"content-type": reply.content_type},
            stream=_Body(reply, read_s),
        )

    async def aclose(self) -> None:
        await self._script.close()


class _HttpClient(httpx2.AsyncClient):
    """The HTTP client over a script, which it keeps for those who ask."""

    def __init__(self, script: LlmScript) -> None:
        # no environment: a proxy of the machine is nothing to the script
        super().__init__(transport=_Transport(script), trust_env=False)
        self.script = script


class ScriptedOpenAI(AsyncOpenAI):
    """A real client whose server is a script inside the process."""

    @property
    def script(self) -> LlmScript:
        """What answers; also for copies made by `with_options`."""
        return cast(_HttpClient, self._client).script


def scripted_client(
    *,
    first_token_s: float = 0.0,
    tokens_per_s: float = math.inf,
    texts: ScriptedTexts | None = None,
    failures: Mapping[int, LlmFault] | None = None,
    max_retries: int = 0,
    keep: int = 256,
) -> ScriptedOpenAI:
    """Builds a real OpenAI client that a script answers; close it with `await client.close()`.

    Token k (from 0) of an answer is due `first_token_s + k / tokens_per_s` after the request,
    whatever the ones before it did. The turn is the number of user messages in the request; the
    session of `{session}` is its `user` field.

    Args:
        first_token_s: seconds from the request to the first token.
        tokens_per_s: pace of the following ones; infinity for all at once.
        texts: the replies, function calls included.
        failures: what goes wrong, by turn, counted from 1.
        max_retries: of the client; its own default of 2 makes failures slow.
        keep: requests remembered in `client.script.requests`.
    """
    script = LlmScript(
        first_token_s=first_token_s,
        tokens_per_s=tokens_per_s,
        texts=texts,
        failures=failures,
        keep=keep,
    )
    return ScriptedOpenAI(
        api_key="scripted",
        base_url="http://scripted.invalid/v1",
        http_client=_HttpClient(script),
        max_retries=max_retries,
    )
