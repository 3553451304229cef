"""Every way a language model server can fail is told as one of our failures, with what mends it.

The servers are real sockets on loopback.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import openai
import pytest

from services.llm.client import is_loopback, make_client, probe, stream_chat, warm
from services.llm.failures import describe_failure
from tts_engine.errors import (
    AtCapacity,
    BadRequest,
    ConfigError,
    DuplexdError,
    EngineFailed,
    TimedOut,
    UnknownVoice,
)

Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]
JSON = "application/json"
EVENTS = "text/event-stream"


def reply(status: int, body: Any, kind: str = JSON, *, more: str = "") -> Reply:
    """A whole response; `body` is sent as JSON unless it is a string; `more` is a header."""
    data = (body if isinstance(body, str) else json.dumps(body)).encode()

    async def send(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n"
        writer.write(f"{head}{more}\r\n".encode() + data)

    return send


def refusal(status: int, message: str, code: Any = None) -> Reply:
    return reply(status, {"error": {"message": message, "code": code}})


def redirect(status: int, location: str) -> Reply:
    return reply(status, "", "text/html", more=f"Location: {location}\r\n")


def models(*names: str) -> Reply:
    return reply(200, {"object": "list", "data": [{"id": name} for name in names]})


COMPLETION = reply(
    200,
    {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "length",
                "message": {"role": "assistant", "content": "hi"},
            }
        ],
    },
)


async def drop(writer: asyncio.StreamWriter) -> None:
    """Ends the connection without a response."""
    writer.transport.abort()


async def half(writer: asyncio.StreamWriter) -> None:
    """Ends the connection inside a stream, after one chunk."""
    event = b'data: {"choices": []}\n\n'
    writer.write(
        f"HTTP/1.1 200 OK\r\nContent-Type: {EVENTS}\r\nTransfer-Encoding: chunked\r\n\r\n"
        f"{len(event):x}\r\n".encode()
        + event
        + b"\r\n"
    )
    await writer.drain()
    writer.transport.write_eof()


async def silent(writer: asyncio.StreamWriter) -> None:
    """Never responds."""
    await asyncio.Event().wait()


@dataclass
class Server:
    """Replies by path; records what was asked."""

    url: str
    replies: dict[str, Reply]
    requests: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    connections: int = 0


@asynccontextmanager
async def serving(**replies: Reply) -> AsyncIterator[Server]:
    """A server of `models` and `completions`; other paths are 404."""
    tasks: set[asyncio.Task[None]] = set()

    async def requests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            length = head.partition("content-length:")[2].split("\r\n")[0].strip()
            body = await reader.readexactly(int(length or 0))
            path = head.split()[1].rpartition("/")[2]
            server.requests.append((path, json.loads(body or b"null")))
            await server.replies.get(path, refusal(404, "no such path"))(writer)
        writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(requests(reader, writer)))

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    server = Server(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1", replies)
    try:
        yield server
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def calling(url: str, **options: Any) -> AsyncIterator[openai.AsyncOpenAI]:
    client = make_client(base_url=url, api_key="key", **options)
    try:
        yield client
    finally:
        await client.close()


async def stream_failure(url: str, **options: Any) -> DuplexdError:
    """What an answer's stream fails with."""
    async with calling(url, **options) as client:
        try:
            request = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
            async for _ in await stream_chat(client, request):
                pass
        except Exception as error:
            return describe_failure(error)
    raise AssertionError("the stream did not fail")


async def test_a_stream_is_the_servers_own_json() -> None:
    said = {"choices": [{"delta": {"content": "好", "odd": [1]}}]}
    body = f"data: {json.dumps(said)}\n\ndata: 5\n\ndata: [DONE]\n\n"
    request = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "more": {"a": None}}
    async with (
        serving(completions=reply(200, body, EVENTS)) as server,
        calling(server.url) as client,
    ):
        assert [event async for event in await stream_chat(client, request)] == [said, 5]
        assert server.requests == [("completions", {**request, "stream": True})]


def closed_port() -> int:
    with socket.socket() as probe_socket:
        probe_socket.bind(("127.0.0.1", 0))
        return probe_socket.getsockname()[1]


@pytest.mark.parametrize(
    "answer, kind, message",
    [
        (refusal(400, "context too long"), BadRequest, "did not accept the request: context too"),
        (refusal(401, "bad key"), EngineFailed, r"the key \(401: bad key\)\. Check OPENAI_API_KEY"),
        (refusal(403, "not you"), EngineFailed, r"the key \(403: not you\)"),
        (refusal(404, "what?"), EngineFailed, "no such model or path: what.*ends with /v1"),
        (refusal(408, "slow"), TimedOut, "did not finish in time: slow"),
        (refusal(413, "big"), BadRequest, "did not accept the request: big"),
        (refusal(422, "odd"), BadRequest, "did not accept the request: odd"),
        (refusal(429, "slow down"), AtCapacity, r"no room now \(429: slow down\)"),
        (refusal(429, "pay", "insufficient_quota"), EngineFailed, "quota is used up: pay"),
        (refusal(500, "oops"), EngineFailed, r"failed \(500: oops\)"),
        (reply(502, "<html>Bad Gateway</html>", "text/html"), EngineFailed, r"failed \(502\)"),
        (reply(503, {"detail": [1]}), AtCapacity, r"no room now \(503\)"),
        (refusal(504, "gateway"), TimedOut, "did not finish in time: gateway"),
        (reply(500, {"error": {"message": {"a": "错"}}}), EngineFailed, r'\(500: \{"a": "错"\}\)'),
        (reply(500, {"error": "plain"}), EngineFailed, r"failed \(500: plain\)"),
        (half, EngineFailed, "broke off the connection: peer closed"),
        (drop, EngineFailed, "broke off the connection"),
        (reply(200, "data: {oops\n\n", EVENTS), EngineFailed, "not JSON"),
        (
            reply(200, 'data: {"error": {"message": "out of memory"}}\n\n', EVENTS),
            EngineFailed,
            "reported an error: out of memory",
        ),
    ],
)
async def test_a_failing_answer_is_told(answer: Reply, kind: type[DuplexdError], message: str):
    async with serving(completions=answer) as server:
        failure = await stream_failure(server.url)
        assert type(failure) is kind
        with pytest.raises(kind, match=message):
            raise failure
        assert len(server.requests) == 1  # no retries: a turn fails once and soon


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_but_told(status: int):
    async with serving(models=models("m"), completions=COMPLETION) as other:
        address = other.url.removeprefix("http://").removesuffix("/v1")
        location = f"http://me:secret@{address}/v1/chat/completions?token=secret"
        async with serving(completions=redirect(status, location)) as server:
            failure = await stream_failure(server.url)
        assert other.requests == []  # neither the key nor the conversation went there
    assert type(failure) is ConfigError
    assert f"{server.url.removesuffix('/v1')} redirects to http://{address}" in failure.message
    assert (
        f"OPENAI_BASE_URL (llm.base_url) to the API's address at http://{address}" in failure.mend
    )
    assert "secret" not in str(failure)


async def test_a_redirect_on_the_same_host():
    answer = redirect(308, "/api/models")
    async with serving(models=answer) as server, calling(server.url) as client:
        with pytest.raises(ConfigError) as caught:
            await probe(client, "m")
    assert f"redirects to {server.url.removesuffix('/v1')}," in caught.value.message


@pytest.mark.parametrize("location", ["", "http://[", "mailto:x"])
async def test_a_redirect_to_nowhere(location: str):
    async with serving(completions=redirect(302, location)) as server:
        failure = await stream_failure(server.url)
    assert type(failure) is ConfigError
    assert "redirects to nowhere" in failure.message


async def test_a_silent_server_is_timed_out():
    async with serving(completions=silent) as server:
        failure = await stream_failure(server.url, read_timeout_s=0.1)
    assert type(failure) is TimedOut
    assert "was silent for too long" in failure.message


async def test_nobody_listens():
    failure = await stream_failure(f"http://127.0.0.1:{closed_port()}/v1")
    assert type(failure) is EngineFailed
    assert "cannot be reached" in failure.message
    assert "OPENAI_BASE_URL" in failure.mend


async def test_a_listener_that_does_not_accept_is_timed_out():
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        with socket.create_connection(address), socket.socket() as second:
            second.setblocking(False)
            second.connect_ex(address)  # the queue is full now: the next SYN gets no answer
            url = f"http://127.0.0.1:{address[1]}/v1"
            failure = await stream_failure(url, connect_timeout_s=0.2)
    assert type(failure) is TimedOut
    assert "no answer to the connection" in failure.message


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1/v1"])
async def test_a_base_url_that_is_none(url: str):
    failure = await stream_failure(url)
    assert type(failure) is ConfigError
    assert "cannot be called" in failure.message


def test_no_free_connection_is_at_capacity():
    class PoolTimeout(Exception):
        pass

    assert type(describe_failure(PoolTimeout())) is AtCapacity


def test_ours_pass_and_strangers_are_named():
    ours = UnknownVoice("no such voice")
    assert describe_failure(ours) is ours
    stranger = describe_failure(ZeroDivisionError("by zero"))
    assert type(stranger) is EngineFailed
    assert "ZeroDivisionError: by zero" in stranger.message
    empty = describe_failure(ConnectionError())
    assert "ConnectionError" in empty.message


async def test_probe_is_content_with_a_listed_model():
    async with serving(models=models("a", "m")) as server, calling(server.url) as client:
        assert await probe(client, "m") == "m"
        assert [path for path, _ in server.requests] == ["models"]


async def test_probe_takes_the_first_model_when_none_is_named():
    async with serving(models=models("a", "m")) as server, calling(server.url) as client:
        assert await probe(client, None) == "a"


@pytest.mark.parametrize("listing", [{}, {"models": models()}])
async def test_probe_cannot_choose_where_none_is_listed(listing: dict[str, Reply]):
    async with serving(**listing) as server, calling(server.url) as client:
        with pytest.raises(EngineFailed, match=r"names no model.*OPENAI_MODEL"):
            await probe(client, None)


@pytest.mark.parametrize("listing", [{}, {"models": models("other")}])
async def test_probe_tries_a_model_that_is_not_listed(listing: dict[str, Reply]):
    async with serving(completions=COMPLETION, **listing) as server, calling(server.url) as client:
        assert await probe(client, "alias") == "alias"
        path, asked = server.requests[-1]
        assert path == "completions"
        assert asked["model"] == "alias"
        assert asked["max_tokens"] == 1


async def test_probe_lists_what_there_is():
    names = [f"m{i}" for i in range(10)]
    replies = {"models": models(*names), "completions": refusal(404, "no such model")}
    async with serving(**replies) as server, calling(server.url) as client:
        with pytest.raises(EngineFailed, match=r'no model "x"\. Choose one of: m0, .*m7, \.\.\.$'):
            await probe(client, "x")


async def test_probe_of_a_path_that_is_no_api():
    async with serving() as server, calling(server.url) as client:
        with pytest.raises(EngineFailed, match="no such model or path"):
            await probe(client, "x")


@pytest.mark.parametrize(
    "listing",
    [
        reply(200, "<html>hello</html>", "text/html"),
        reply(200, "{oops"),
        reply(200, {"a": 1}),
        reply(200, [1]),
    ],
)
async def test_probe_of_something_else_than_an_api(listing: Reply):
    async with serving(models=listing) as server, calling(server.url) as client:
        with pytest.raises(EngineFailed, match="did not answer with a list of models"):
            await probe(client, "m")


async def test_probe_tells_a_wrong_key():
    async with serving(models=refusal(401, "who?")) as server, calling(server.url) as client:
        with pytest.raises(EngineFailed, match="OPENAI_API_KEY"):
            await probe(client, "m")


async def test_warm_sends_every_prompt_once():
    async with serving(completions=COMPLETION) as server, calling(server.url) as client:
        await warm(client, "m", ["中文", "english"])
        systems = [asked["messages"][0]["content"] for _, asked in server.requests]
        assert systems == ["中文", "english"]
        assert all(asked["max_tokens"] == 1 for _, asked in server.requests)


async def test_warm_tells_its_failure():
    async with serving(completions=refusal(500, "oops")) as server, calling(server.url) as client:
        with pytest.raises(EngineFailed, match="oops"):
            await warm(client, "m", ["中文"])


async def test_a_proxy_of_the_environment_is_not_asked_for_loopback(
    monkeypatch: pytest.MonkeyPatch,
):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port()}")
    async with serving(models=models("m")) as server, calling(server.url) as client:
        await probe(client, "m")


@pytest.mark.parametrize(
    "url, inside",
    [
        ("http://127.0.0.1:80/v1", True),
        ("http://[::1]/v1", True),
        ("http://localhost:1/v1", True),
        ("https://api.openai.com/v1", False),
        ("http://192.168.1.2/v1", False),
        ("nonsense", False),
    ],
)
def test_loopback(url: str, inside: bool):
    assert is_loopback(url) is inside


async def test_without_tls_no_connection_is_used_twice():
    async with serving(models=models("m")) as server, calling(server.url) as client:
        for _ in range(3):
            await probe(client, "m")
        assert server.connections == 3


async def test_with_tls_connections_are_kept_a_while():
    async with calling("https://api.openai.com/v1") as client:
        pool = client._client._transport._pool  # pyright: ignore[reportAttributeAccessIssue]
        assert pool._max_keepalive_connections >= 50
        assert 5 < pool._keepalive_expiry < 60


async def test_a_server_without_keys_needs_none():
    client = make_client(base_url="http://127.0.0.1/v1", api_key="")
    assert client.api_key
    assert client.max_retries == 0
    await client.close()
