"""Why no conversation could be had, in words that say what mends it."""

from __future__ import annotations

import json
import socket
import ssl
from typing import Any
from urllib.parse import urlsplit

from websockets.datastructures import Headers
from websockets.exceptions import InvalidMessage, InvalidStatus
from websockets.http11 import Response

from pipeline.talk.endpoint import Endpoint
from tts_engine.errors import AtCapacity, DuplexdError, EngineFailed

#: mends an address of somebody else's
ANOTHER = "Give the address of a daemon with --url"
#: OpenSSL's verify codes of a certificate that is good, though for other names
_OTHER_NAMES = (62, 64)
#: longest text of a peer that is shown
_SHOWN = 300


def explain(endpoint: Endpoint, error: Exception) -> DuplexdError:
    """The failure to show when connecting to `endpoint` raised `error`."""
    match error:
        case InvalidStatus():
            return _refused(endpoint, error.response)
        case ssl.SSLCertVerificationError():
            return _untrusted(endpoint, error)
        case ssl.SSLError() | ConnectionResetError() if endpoint.secure:
            return EngineFailed(
                f"What answers at {endpoint.base} speaks no TLS: {_why(error)}",
                mend="If it is a daemon without TLS, write its address as http://",
            )
        case InvalidMessage() if line := _status_line(error):
            return EngineFailed(f"{not_a_daemon(endpoint)}: it answered {line!r}", mend=ANOTHER)
        case InvalidMessage() | ConnectionResetError():
            return EngineFailed(
                f"What answers at {endpoint.base} speaks no HTTP: {_why(error)}",
                mend="If it is a daemon with TLS, write its address as https://",
            )
        case socket.gaierror() | UnicodeError():
            why = (isinstance(error, OSError) and error.strerror) or str(error)
            return EngineFailed(
                f"The name {urlsplit(endpoint.url).hostname} cannot be found: {why}",
                mend="Correct the address, or give the IP address",
            )
        case _:
            return EngineFailed(
                f"No daemon can be reached at {endpoint.url}: {_why(error)}",
                mend="Start one with `run.py serve`, or leave out --url",
            )


def not_a_daemon(endpoint: Endpoint) -> str:
    """The start of a message about somebody who does not know the protocol."""
    return f"What answers at {endpoint.url} is not a duplexd daemon"


def _status_line(error: InvalidMessage) -> str:
    """With what a server of an older HTTP began its answer; empty if it was no HTTP at all."""
    line = str(error.__cause__).rpartition(": ")[2]
    return line[:_SHOWN] if line.startswith("HTTP/") else ""


def _why(error: Exception) -> str:
    """Some errors of sockets say nothing but their names."""
    return str(error) or "it hung up"


def _untrusted(endpoint: Endpoint, error: ssl.SSLCertVerificationError) -> DuplexdError:
    why = error.verify_message or str(error)
    if error.verify_code in _OTHER_NAMES:
        return EngineFailed(
            f"The certificate of {endpoint.base} is for other addresses: {why}",
            mend="Call the daemon by an address that its certificate names",
        )
    return EngineFailed(
        f"The certificate of {endpoint.base} is not trusted: {why}",
        mend="Copy the certificate that `serve --tls auto` names from the daemon's machine, and "
        "give it with --cacert FILE",
    )


def _refused(endpoint: Endpoint, response: Response) -> DuplexdError:
    """What an HTTP status in place of the handshake means."""
    said = _said(response)
    match response.status_code:
        case 401:
            return EngineFailed(
                f"The daemon at {endpoint.base} "
                + ("does not know this API key" if endpoint.key else "wants an API key"),
                mend="Give one with --key or in DUPLEXD_API_KEY; `run.py keys add` makes one on "
                "its machine",
            )
        case 403 if said:
            return EngineFailed(f"The daemon at {endpoint.base} refused: {said}")
        case 429 | 503 as status:
            return AtCapacity(
                f"The daemon at {endpoint.base} refused: {said or f'HTTP {status}'}",
                mend=_later(response.headers),
            )
        case status:
            return EngineFailed(
                f"{not_a_daemon(endpoint)}: it answered with HTTP {status}", mend=ANOTHER
            )


def _said(response: Response) -> str:
    """The message of OpenAI's error object, with what mends it; empty where there is none."""
    try:
        body: Any = json.loads(response.body or b"")
        message = body["error"]["message"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return message.strip().rstrip(".")[:_SHOWN] if isinstance(message, str) else ""


def _later(headers: Headers) -> str:
    seconds = headers.get("Retry-After", "")
    return f"Try again in {seconds} s" if seconds.isdecimal() else "Try again later"
