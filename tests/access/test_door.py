"""Invariants: nothing gets past the door by a wrong name, from a foreign page, too often or without
a good key, and each is told why and what mends it; a good key passes by every way that there is;
no key is logged, echoed or handed on.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import httpx
import pytest
from loguru import logger
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.http11 import Response

from services.access import login
from services.access.key_file import KeyFile
from services.access.middleware import WRONG_KEYS_PER_MINUTE
from tests.access.fakes import House, open_house

WRONG = "dx-wrong-wrong-wrong-wrong-wrong-wr"
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
def house(tmp_path: Any) -> House:
    return House(KeyFile(tmp_path / "keys.json"))


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """The daemon's log, complete."""
    found: list[str] = []
    sink = logger.add(lambda line: found.append(str(line)), level="TRACE")
    yield found
    logger.remove(sink)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def told(response: httpx.Response | Response) -> tuple[int, str]:
    """Status and code of a refusal, whose form is checked."""
    content = response.content if isinstance(response, httpx.Response) else response.body
    error = json.loads(content)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    kind = "rate_limit_error" if response.status_code == 429 else "invalid_request_error"
    assert (error["type"], error["param"]) == (kind, None)
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cache-Control"] == "no-store"
    if response.status_code == 401:
        assert response.headers["WWW-Authenticate"] == 'Bearer realm="duplexd"'
    return response.status_code, error["code"]


async def knock(house: House, *, name: str = "localhost", **kwargs: Any) -> Response:
    """A WebSocket's handshake, with a daemon of some name, that is refused."""
    host, _, port = house.address.partition(":")
    url = f"ws://{name}:{port}/any"
    with pytest.raises(InvalidStatus) as refused:
        await connect(url, host=host, port=int(port), open_timeout=30, **kwargs)
    return refused.value.response


# --- what is refused ------------------------------------------------------------------------


async def test_the_order_of_what_is_wrong(house: House):
    async with open_house(house, requests_per_minute=1) as client:
        headers = {"Host": "evil.example", "Origin": "http://evil.example"}
        assert told(await client.get("/", headers=headers)) == (403, "invalid_host")
        del headers["Host"]
        assert told(await client.get("/", headers=headers)) == (403, "invalid_origin")
        assert told(await client.get("/")) == (401, "missing_api_key")
        assert told(await client.get("/", headers=headers)) == (403, "invalid_origin")
        assert told(await client.get("/", headers=bearer(WRONG))) == (429, "rate_limit_exceeded")
        house.clock.now += 60
        assert told(await client.get("/", headers=bearer(WRONG))) == (401, "invalid_api_key")
        assert house.scopes == []
    assert [refusal.code for refusal in house.refusals] == [
        "invalid_host",
        "invalid_origin",
        "missing_api_key",
        "invalid_origin",
        "rate_limit_exceeded",
        "invalid_api_key",
    ]


async def test_the_same_for_sockets(house: House):
    async with open_house(house, requests_per_minute=1):
        evil: Any = "http://evil.example"
        assert told(await knock(house, name="evil.example")) == (403, "invalid_host")
        assert told(await knock(house, origin=evil)) == (403, "invalid_origin")
        assert told(await knock(house)) == (401, "missing_api_key")
        response = await knock(house, additional_headers=bearer(WRONG))
        assert told(response) == (429, "rate_limit_exceeded")
        assert response.headers["Retry-After"] == "60"
        house.clock.now += 60
        response = await knock(house, additional_headers=bearer(WRONG))
        assert told(response) == (401, "invalid_api_key")
        assert house.scopes == []


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"Host": "evil.example"}, ["'evil.example'", "server.allowed_hosts"]),
        ({"Origin": "http://evil.example"}, ["'http://evil.example'", "server.allowed_origins"]),
        ({}, ["run.py keys add", "Authorization: Bearer KEY"]),
        (bearer(WRONG), ["revoked", "run.py keys add"]),
    ],
)
async def test_what_mends_it(house: House, headers: dict[str, str], says: list[str]):
    async with open_house(house) as client:
        message = (await client.get("/any", headers=headers)).json()["error"]["message"]
    for said in says:
        assert said in message


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Basic YTpi"},
        {"Authorization": "Bearer"},
        {"Authorization": ""},
        {"Cookie": "other=1"},
        {"Sec-WebSocket-Protocol": "realtime"},
    ],
)
async def test_what_is_no_key(house: House, headers: dict[str, str]):
    async with open_house(house) as client:
        assert told(await client.get("/any", headers=headers)) == (401, "missing_api_key")


async def test_a_key_in_the_query_counts_for_the_page_only(house: House):
    key = house.key()
    async with open_house(house) as client:
        assert told(await client.get(f"/any?key={key}")) == (401, "missing_api_key")
        assert told(await client.post(f"/?key={key}")) == (401, "missing_api_key")


# --- keys -----------------------------------------------------------------------------------


async def test_a_key_in_the_header(house: House):
    key = house.key()
    async with open_house(house) as client:
        for headers in (bearer(key), {"Authorization": f"bearer  {key}"}):
            response = await client.get("/any", headers=headers)
            assert (response.status_code, response.text) == (200, "welcome")
        async with connect(
            f"ws://{house.address}/any", additional_headers=bearer(key)
        ) as connection:
            assert await connection.recv() == "welcome"


async def test_a_key_in_the_sub_protocol(house: House):
    key = house.key()
    offered: Any = ["realtime", f"openai-insecure-api-key.{key}"]
    async with open_house(house):
        async with connect(f"ws://{house.address}/any", subprotocols=offered) as connection:
            assert await connection.recv() == "welcome"
            assert connection.subprotocol == "realtime"
        assert house.scopes[0]["subprotocols"] == ["realtime"]
        offered = [f"openai-insecure-api-key.{WRONG}"]
        response = await knock(house, subprotocols=offered)
        assert told(response) == (401, "invalid_api_key")
        assert "Sec-WebSocket-Protocol" not in response.headers


async def test_logging_in(house: House):
    key = house.key()
    async with open_house(house) as client:
        assert told(await client.post("/login", json={"key": WRONG})) == (401, "invalid_api_key")
        assert told(await client.get("/any")) == (401, "missing_api_key")
        response = await client.post("/login", json={"key": f" {key}\n"})
        assert (response.status_code, response.content) == (204, b"")
        name, *attributes = response.headers["Set-Cookie"].split("; ")
        assert name == f"duplexd_key={key}"
        assert {*attributes} == {"Path=/", "Max-Age=31536000", "HttpOnly", "SameSite=Lax"}
        assert (await client.get("/any")).text == "welcome"
        cookie = {"Cookie": f"duplexd_key={key}"}
        async with connect(f"ws://{house.address}/any", additional_headers=cookie) as connection:
            assert await connection.recv() == "welcome"


@pytest.mark.parametrize(
    "body",
    ["", "key", "[]", '"key"', "{}", '{"key": 1}', '{"key": "é"}', "[" * 4000, "\ud800"],
)
async def test_what_does_not_log_in(house: House, body: str):
    async with open_house(house) as client:
        content = body.encode(errors="surrogatepass")
        assert told(await client.post("/login", content=content)) == (400, "invalid_login")
        assert "Set-Cookie" not in (await client.post("/login", content=content)).headers


async def test_a_body_that_is_too_long(house: House):
    async with open_house(house) as client:
        content = json.dumps({"key": "x" * 5000})
        assert told(await client.post("/login", content=content)) == (400, "invalid_login")


async def test_a_body_that_does_not_come(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(login, "_PATIENCE_S", 0.05)

    async with open_house(house):
        reader, writer = await asyncio.open_connection(*house.address.split(":"))
        writer.write(b'POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"key')
        async with asyncio.timeout(30):  # it ends the connection: what comes yet is no request
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()
    assert head.startswith(b"HTTP/1.1 408 ")
    assert json.loads(body)["error"]["code"] == "login_timeout"


async def test_a_link_with_the_key(house: House):
    key = house.key()
    async with open_house(house) as client:
        response = await client.get(f"/?lang=zh&key={key}&x=%26", headers=BROWSER)
        assert (response.status_code, response.headers["Location"]) == (303, "/?lang=zh&x=%26")
        assert response.headers["Cache-Control"] == "no-store"
        assert (await client.get("/", headers=BROWSER)).text == "welcome"
        assert (await client.get(f"/?key={key}")).headers["Location"] == "/"


async def test_a_bad_link_does_not_lock_out(house: House):
    """After a wrong link the page asks for the key, and loads itself anew once it has it."""
    key = house.key()
    async with open_house(house) as client:
        assert (await client.get(f"/?key={WRONG}", headers=BROWSER)).status_code == 401
        await client.post("/login", json={"key": key})
        response = await client.get(f"/?key={WRONG}", headers=BROWSER)
        assert (response.status_code, response.headers["Location"]) == (303, "/")
        assert "Set-Cookie" not in response.headers
        assert (await client.get("/", headers=BROWSER)).text == "welcome"


async def test_a_browser_is_asked_for_the_key(house: House):
    async with open_house(house) as client:
        for path in ("/", f"/?key={WRONG}", "/?key=", "/duplexd-ca.crt"):
            response = await client.get(path, headers=BROWSER)
            assert response.status_code == 401
            assert response.headers["Content-Type"] == "text/html; charset=utf-8"
            assert response.headers["WWW-Authenticate"] == 'Bearer realm="duplexd"'
            assert response.headers["Content-Security-Policy"] == "default-src 'none'"
            assert "key?" in response.text
        assert told(await client.post("/", headers=BROWSER)) == (401, "missing_api_key")
        assert told(await client.get("/")) == (401, "missing_api_key")


async def test_a_browser_forgets_a_key_that_was_revoked(house: House):
    key = house.key()
    async with open_house(house) as client:
        await client.post("/login", json={"key": key})
        house.file.revoke(house.file.read()[0].id)
        house.clock.now += 1
        response = await client.get("/", headers=BROWSER)
        assert (response.status_code, "key?" in response.text) == (401, True)
        assert response.headers["Set-Cookie"].startswith("duplexd_key=; Path=/; Max-Age=0; ")
        assert told(await client.get("/any")) == (401, "missing_api_key")


async def test_a_bad_link_does_not_log_out(house: House):
    """Any page can make a browser follow one."""
    async with open_house(house) as client:
        for response in (
            await client.get(f"/?key={WRONG}", headers=BROWSER),
            await client.get("/any", headers=bearer(WRONG)),
            await client.post("/login", json={"key": WRONG}),
        ):
            assert response.status_code == 401
            assert "Set-Cookie" not in response.headers


async def test_one_good_key_is_enough(house: House):
    key = house.key()
    async with open_house(house) as client:
        cookie = {"Cookie": f"duplexd_key={WRONG}"}
        assert (await client.get("/any", headers={**cookie, **bearer(key)})).text == "welcome"
    assert house.refusals == []


async def test_wrong_keys_have_to_wait_and_good_ones_do_not(house: House):
    key = house.key()
    async with open_house(house) as client:
        for _ in range(WRONG_KEYS_PER_MINUTE):
            response = await client.get("/any", headers=bearer(WRONG))
            assert told(response) == (401, "invalid_api_key")
        response = await client.get("/any", headers=bearer(WRONG))
        assert told(response) == (429, "rate_limit_exceeded")
        assert response.headers["Retry-After"] == "6"
        assert "wrong API keys" in response.json()["error"]["message"]
        assert told(await client.post("/login", json={"key": WRONG}))[0] == 429
        assert told(await client.get("/any")) == (401, "missing_api_key")
        assert (await client.get("/any", headers=bearer(key))).text == "welcome"
        assert (await client.post("/login", json={"key": key})).status_code == 204
        client.cookies.clear()
        house.clock.now += 6
        assert told(await client.get("/any", headers=bearer(WRONG)))[0] == 401


async def test_requests_a_minute(house: House):
    key = house.key()
    async with open_house(house, requests_per_minute=3) as client:
        for _ in range(3):
            assert (await client.get("/any", headers=bearer(key))).text == "welcome"
        response = await client.get("/any", headers=bearer(key))
        assert told(response) == (429, "rate_limit_exceeded")
        assert response.headers["Retry-After"] == "20"
        # what a client says about its address is not believed
        spoofed = {**bearer(key), "X-Forwarded-For": "10.0.0.1", "Forwarded": "for=10.0.0.1"}
        assert (await client.get("/any", headers=spoofed)).status_code == 429
        house.clock.now += 20
        assert (await client.get("/any", headers=bearer(key))).text == "welcome"


async def test_strangers_keep_nobody_out_who_has_a_key(house: House):
    """They may come from the same address: of one router, one proxy, or a page in the same browser
    that asks for pictures.
    """
    key = house.key()
    async with open_house(house, requests_per_minute=5) as client:
        for _ in range(5):
            assert told(await client.get("/any")) == (401, "missing_api_key")
        for response in (
            await client.get("/any"),
            await client.get("/any", headers=bearer(WRONG)),
            await client.get(f"/?key={WRONG}"),
            await client.post("/login", json={"key": WRONG}),
            await client.post("/login", content="no key"),
        ):
            assert told(response) == (429, "rate_limit_exceeded")
        assert told(await knock(house)) == (429, "rate_limit_exceeded")
        assert (await client.get("/any", headers=bearer(key))).text == "welcome"
        assert (await client.post("/login", json={"key": key})).status_code == 204
        assert (await client.get(f"/?key={key}")).status_code == 303
        assert (await client.get("/any")).text == "welcome"


async def test_where_no_key_is_needed(house: House):
    async with open_house(house, keys=None, requests_per_minute=1) as client:
        for headers in ({}, bearer(WRONG), {"Origin": "https://app.example.com"}):
            assert (await client.get("/any", headers=headers)).text == "welcome"
        assert told(await client.get("/", headers={"Host": "evil.example"}))[0] == 403
        assert told(await client.get("/", headers={"Origin": "http://evil.example"}))[0] == 403
        await client.get("/?key=abc&x=1")
        assert house.scopes[-1]["query_string"] == b"x=1"
        await client.get("/?monkey=%2F")
        assert house.scopes[-1]["query_string"] == b"monkey=%2F"


# --- what every answer says ------------------------------------------------------------------


async def test_nothing_is_kept_by_caches_nor_loaded_by_other_pages(house: House):
    key = house.key()
    async with open_house(house) as client:
        for response in (
            await client.get("/any", headers=bearer(key)),
            await client.get("/any"),
            await client.get("/", headers=BROWSER),
            await client.get(f"/?key={key}"),
            await client.post("/login", json={"key": key}),
            await client.get("/any", headers={"Host": "evil.example"}),
            await knock(house),
        ):
            assert response.headers["Cache-Control"] == "no-store"
            assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
            assert response.headers["Referrer-Policy"] == "no-referrer"
            assert response.headers["X-Content-Type-Options"] == "nosniff"


async def test_what_an_application_says_itself_stays(house: House):
    async def rooms(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("hi", headers={"Cache-Control": "private"})(scope, receive, send)

    async with open_house(house, keys=None, app=rooms) as client:
        assert (await client.get("/")).headers["Cache-Control"] == "private"


async def test_a_response_without_headers(house: House):
    async def rooms(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})

    async with open_house(house, keys=None, app=rooms) as client:
        assert (await client.get("/")).headers["Cache-Control"] == "no-store"


# --- logs -----------------------------------------------------------------------------------


async def test_no_key_is_logged(house: House, lines: list[str], caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    key = house.key()
    wrongs = [f"{WRONG}{number}" for number in range(5)]
    async with open_house(house) as client:
        for shown in (key, *wrongs):
            await client.get("/any", headers=bearer(shown))
            await client.get(f"/?key={shown}")
            await client.get(f"/any?a=1&key={shown}&b=2")
            await client.post("/login", json={"key": shown})
            client.cookies.clear()
            await client.get("/any", headers={"Cookie": f"duplexd_key={shown}"})
            url = f"ws://{house.address}/any?key={shown}"
            offered: Any = [f"openai-insecure-api-key.{shown}"]
            with nullcontext() if shown == key else pytest.raises(InvalidStatus):
                await (await connect(url, subprotocols=offered)).close()
    assert any("refused 127.0.0.1: This is not an API key" in line for line in lines)
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
    ours = [*lines, *(each.getMessage() for each in caplog.records if each.name != "httpx")]
    assert any('"WebSocket /any" [accepted]' in line for line in ours)
    for shown in (key, *wrongs):
        assert not [line for line in ours if shown in line]


async def test_no_key_gets_behind_the_door(house: House):
    key = house.key()
    offered: Any = ["realtime", f"openai-insecure-api-key.{key}"]
    async with open_house(house) as client:
        headers = {**bearer(key), "Cookie": f"duplexd_key={key}; other=1"}
        await client.get("/any", headers=headers)
        await (await connect(f"ws://{house.address}/any", subprotocols=offered)).close()
    assert [scope["type"] for scope in house.scopes] == ["http", "websocket"]
    assert not [scope for scope in house.scopes if key in repr(scope)]
    assert (b"host", house.address.encode()) in house.scopes[0]["headers"]


async def test_whoever_is_refused_does_not_fill_the_log(house: House, lines: list[str]):
    async with open_house(house) as client:
        for _ in range(50):
            await client.get("/any")
    assert len(house.refusals) == 50
    assert len([line for line in lines if "refused 127.0.0.1" in line]) == 10


# --- servers that tell less -----------------------------------------------------------------


async def through(house: House, scope: dict[str, Any], *messages: dict[str, Any]) -> list[Any]:
    """A request as some server hands it on; returns what is sent."""
    waiting, sent = [*messages], list[Any]()

    async def receive() -> dict[str, Any]:
        return waiting.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await house.door()({"headers": [(b"host", b"localhost")], **scope}, receive, send)
    return sent


async def test_a_server_that_cannot_answer_a_handshake(house: House):
    sent = await through(house, {"type": "websocket", "scheme": "ws", "path": "/any"})
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_a_client_without_an_address_that_leaves(house: House):
    scope = {"type": "http", "method": "POST", "path": "/login", "scheme": "http", "client": None}
    sent = await through(house, scope, {"type": "http.disconnect"})
    assert sent[0]["status"] == 400
    sent = await through(
        house,
        scope,
        {"type": "http.request", "body": b'{"key": ', "more_body": True},
        {"type": "http.request", "body": b'"dx-wrong"}'},
    )
    assert sent[0]["status"] == 401


async def test_start_and_end_of_the_application_pass(house: House):
    await through(house, {"type": "lifespan"})
    assert house.scopes[0]["type"] == "lifespan"


async def test_over_tls_cookies_are_for_tls_only(house: House):
    key = house.key()
    scope = {"type": "http", "method": "GET", "path": "/", "scheme": "https"}
    sent = await through(house, {**scope, "query_string": f"key={key}".encode()})
    cookie = dict(sent[0]["headers"])[b"set-cookie"].decode()
    assert cookie.startswith(f"__Host-duplexd_key={key}; Path=/; ")
    assert cookie.endswith("; Secure")
    for name, status in (("__Host-duplexd_key", 200), ("duplexd_key", 401)):
        headers = [(b"host", b"localhost"), (b"cookie", f"{name}={key}".encode())]
        sent = await through(house, {**scope, "path": "/any", "headers": headers})
        assert sent[0]["status"] == status, name
    headers = [(b"host", b"localhost"), (b"cookie", f"__Host-duplexd_key={WRONG}".encode())]
    sent = await through(house, {**scope, "path": "/any", "headers": headers})
    cookie = dict(sent[0]["headers"])[b"set-cookie"].decode()
    assert cookie.startswith("__Host-duplexd_key=; Path=/; Max-Age=0; ")
