"""From an exception of the OpenAI client to one of our failures, fit to be shown or spoken.

The client's transport is httpx or httpx2, by the version of `openai`: its exceptions are told by
their class names, which both share.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

import openai

from tts_engine.errors import (
    AtCapacity,
    BadRequest,
    ConfigError,
    DuplexdError,
    EngineFailed,
    TimedOut,
)

CHECK_URL = "Is it running, and is OPENAI_BASE_URL right?"
CHECK_KEY = "Check OPENAI_API_KEY"
CHECK_MODEL = "Check the model's name, and that OPENAI_BASE_URL ends with /v1"
LATER = "Try again in a moment"
#: characters of a server's own message that are quoted
QUOTED = 200


def describe_failure(error: Exception) -> DuplexdError:
    """Maps whatever a call or a stream of the client raised.

        cannot connect, broken stream, 401, 403, 404, 5xx, not JSON, anything else   EngineFailed
        no answer in time, 408, 504                                                  TimedOut
        429, 503, 529, no free connection                                            AtCapacity
        400, 413, 422                                                                BadRequest
        a base URL that is none, or that redirects                                   ConfigError

    A `DuplexdError` is returned as it is.
    """
    if isinstance(error, DuplexdError):
        return error
    server = f"The language model server{_where(error)}"
    if isinstance(error, openai.APIStatusError):
        return _from_status(error, server)
    return _from_transport(error, server)


def _from_status(error: openai.APIStatusError, server: str) -> DuplexdError:
    status, said = error.status_code, _said(error)
    match status:
        case 301 | 302 | 303 | 307 | 308:
            return _redirected(error, server)
        case 400 | 413 | 422:
            return BadRequest(f"{server} did not accept the request{said}")
        case 401 | 403:
            return EngineFailed(f"{server} did not accept the key ({status}{said})", mend=CHECK_KEY)
        case 404:
            return EngineFailed(f"{server} has no such model or path{said}", mend=CHECK_MODEL)
        case 408 | 504:
            return TimedOut(f"{server} did not finish in time{said}", mend=LATER)
        case 429 if error.code == "insufficient_quota":
            return EngineFailed(f"The account's quota is used up{said}", mend="Check its billing")
        case 429 | 503 | 529:
            return AtCapacity(f"{server} has no room now ({status}{said})", mend=LATER)
        case _:
            return EngineFailed(f"{server} failed ({status}{said})", mend=LATER)


def _redirected(error: openai.APIStatusError, server: str) -> DuplexdError:
    """Names where a server redirects to, without what may be secret in it: credentials, a query."""
    location = error.response.headers.get("location", "")
    try:
        target = urlsplit(urljoin(str(error.request.url), location))
    except ValueError:
        target = None
    host = target.netloc.rpartition("@")[2] if target and location else ""
    if target is None or not host:
        return ConfigError(f"{server} redirects to nowhere", mend=CHECK_URL)
    place = f"{target.scheme}://{host}"
    return ConfigError(
        f"{server} redirects to {place}, which is not followed",
        mend=f"Set OPENAI_BASE_URL (llm.base_url) to the API's address at {place}",
    )


def _from_transport(error: Exception, server: str) -> DuplexdError:
    kinds = {kind.__name__ for link in _chain(error) for kind in type(link).__mro__}
    if kinds & {"UnsupportedProtocol", "InvalidURL", "LocalProtocolError"}:
        return ConfigError(f"{server} cannot be called: {_root(error)}", mend=CHECK_URL)
    if "ConnectTimeout" in kinds:
        return TimedOut(f"{server} cannot be reached: no answer to the connection", mend=CHECK_URL)
    if "PoolTimeout" in kinds:
        return AtCapacity("All connections to the language model are in use", mend=LATER)
    if kinds & {"APITimeoutError", "TimeoutException", "TimeoutError"}:
        return TimedOut(f"{server} was silent for too long", mend=LATER)
    if "ConnectError" in kinds:
        return EngineFailed(f"{server} cannot be reached: {_root(error)}", mend=CHECK_URL)
    if kinds & {"APIConnectionError", "TransportError"}:
        return EngineFailed(f"{server} broke off the connection: {_root(error)}", mend=LATER)
    if kinds & {"JSONDecodeError", "UnicodeDecodeError", "APIResponseValidationError"}:
        return EngineFailed(f"{server} sent something that is not JSON", mend=CHECK_URL)
    if isinstance(error, openai.APIError):
        return EngineFailed(f"{server} reported an error: {error.message[:QUOTED]}", mend=LATER)
    return EngineFailed(f"The language model failed: {type(error).__name__}: {error}"[:QUOTED])


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and its causes."""
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__


def _root(error: BaseException) -> str:
    """What the innermost cause that says anything says."""
    said = [str(link) for link in _chain(error) if str(link)]
    return said[-1].rstrip(".")[:QUOTED] if said else type(error).__name__


def _where(error: Exception) -> str:
    """Says " at http://host:port", where the exception knows its request."""
    try:
        url = cast(Any, error).request.url
    except (AttributeError, RuntimeError):  # httpx raises RuntimeError while there is no request
        return ""
    port = f":{url.port}" if url.port else ""
    return f" at {url.scheme}://{url.host}{port}" if url.host else f' at "{url}"'


def _said(error: openai.APIStatusError) -> str:
    """Says ": message" with what the server said, if that is fit to be read."""
    body = error.body
    message = cast(dict[str, Any], body).get("message") if isinstance(body, dict) else body
    if isinstance(message, dict | list):
        message = json.dumps(message, ensure_ascii=False)
    if not isinstance(message, str) or message.lstrip().startswith("<"):
        return ""
    return f": {message.strip()[:QUOTED]}"
