"""The one OpenAI client of the process: made for speed of failure, warmed, probed."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import openai
from pipecat.utils.http import connection_limits

from services.llm.failures import describe_failure
from tts_engine.errors import DuplexdError, EngineFailed

#: connections of all sessions together; a turn uses one, a speculation a second
MAX_CONNECTIONS = 1000
#: connections kept open while idle. Without TLS none: llama.cpp closes about one in thirty just
#: after the end of a stream, when the next request may be on its way already and fails, and a new
#: connection costs one round trip
IDLE = 0
#: with TLS a new one costs several; front ends keep theirs for a minute or more, and ours must
#: be dropped before they drop it
IDLE_TLS = 100
IDLE_TLS_S = 55.0
#: model names that a message lists
NAMED_MODELS = 8


def is_loopback(url: str) -> bool:
    """Whether a URL's host is this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def make_client(
    *,
    base_url: str,
    api_key: str,
    connect_timeout_s: float = 3.0,
    read_timeout_s: float = 20.0,
) -> openai.AsyncOpenAI:
    """Builds the client that all sessions share; close it with `await client.close()`.

    It never retries: a second attempt comes after a pause and another timeout, by when the person
    has long asked again. A turn fails once, soon, and says so.

    Args:
        base_url: of an OpenAI-compatible server, with its "/v1".
        api_key: may be empty for servers that want none.
        connect_timeout_s: of TCP and TLS, and of waiting for a free connection.
        read_timeout_s: longest silence of the server, so also the limit of the first token.
    """
    tls = urlsplit(base_url).scheme == "https"
    limits = connection_limits(
        max_connections=MAX_CONNECTIONS,
        max_keepalive_connections=IDLE_TLS if tls else IDLE,
        keepalive_expiry=IDLE_TLS_S,
    )
    timeout = openai.Timeout(read_timeout_s, connect=connect_timeout_s, pool=connect_timeout_s)
    http_client = openai.DefaultAsyncHttpxClient(
        limits=limits,
        timeout=timeout,
        # a proxy from the environment could not reach our loopback, and must not see it
        trust_env=not is_loopback(base_url),
        # the key and the conversation go where the configuration says, and nowhere else
        follow_redirects=False,
    )
    return openai.AsyncOpenAI(
        base_url=base_url,
        api_key=api_key or "none",
        timeout=timeout,
        max_retries=0,
        http_client=http_client,
    )


async def stream_chat(
    client: openai.AsyncOpenAI, request: Mapping[str, Any]
) -> openai.AsyncStream[object]:
    """Asks for a completion, event by event, each as the JSON that it is.

    Past the client's models, whose making takes longer than everything else that is done for a
    token, and past its look at each message of the request: 15 ms of the event loop for sixty.

    Args:
        client: of the server.
        request: the whole of it, well-formed text everywhere; `stream` is added.

    Raises:
        openai.OpenAIError: the request was not taken; see `describe_failure`.
    """
    return await client.post(
        "/chat/completions",
        body={**request, "stream": True},
        cast_to=object,
        stream=True,
        stream_cls=openai.AsyncStream[object],
    )


async def warm(
    client: openai.AsyncOpenAI, model: str, system_prompts: Sequence[str], max_tokens: int = 1
) -> None:
    """Opens a connection, where one is kept, and lets the server compute, and keep, the prefix of
    each prompt.

    One after the other: a local server gives each its own slot. After this the first turn costs
    what later ones cost.

    Raises:
        DuplexdError: see `describe_failure`.
    """
    for prompt in system_prompts:
        try:
            await client.chat.completions.create(
                model=model,
                messages=[
                    {"role": "system", "content": prompt},
                    {"role": "user", "content": "你好"},
                ],
                max_tokens=max_tokens,
            )
        except Exception as error:
            raise describe_failure(error) from error


async def _offered(client: openai.AsyncOpenAI) -> list[str] | None:
    """Names of the server's models; None if it does not tell."""
    try:
        response = await client.models.with_raw_response.list()
    except openai.NotFoundError:
        return None
    try:
        return [entry["id"] for entry in response.http_response.json()["data"]]
    except (ValueError, TypeError, KeyError) as error:
        raise EngineFailed(
            f"{client.base_url}models did not answer with a list of models",
            mend="Is OPENAI_BASE_URL an OpenAI-compatible API, with its /v1?",
        ) from error


async def probe(client: openai.AsyncOpenAI, model: str | None) -> str:
    """Checks that the server can be reached, takes the key and has the model.

    Costs one small request, and a second one of one token when the server's list of models does
    not name the model: aliases are often not listed.

    Args:
        client: of the server.
        model: a model's name; None for the first that the server lists.

    Returns:
        The model's name.

    Raises:
        DuplexdError: with the cause and what mends it; see `describe_failure`.
    """
    offered: list[str] | None = None
    try:
        offered = await _offered(client)
        if model is None:
            return _first(client, offered)
        if offered is None or model not in offered:
            await client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": "Hi"}], max_tokens=1
            )
    except openai.NotFoundError as error:
        raise _no_such_model(client, model, offered, error) from error
    except Exception as error:
        raise describe_failure(error) from error
    return model


def _first(client: openai.AsyncOpenAI, offered: list[str] | None) -> str:
    if not offered:
        raise EngineFailed(
            f"The language model server at {client.base_url} names no model",
            mend="Name one in OPENAI_MODEL",
        )
    return offered[0]


def _no_such_model(
    client: openai.AsyncOpenAI,
    model: str | None,
    offered: list[str] | None,
    error: openai.NotFoundError,
) -> DuplexdError:
    if not offered:
        return describe_failure(error)
    names = ", ".join(offered[:NAMED_MODELS]) + (", ..." if len(offered) > NAMED_MODELS else "")
    return EngineFailed(
        f'The language model server at {client.base_url} has no model "{model}"',
        mend=f"Choose one of: {names}",
    )
