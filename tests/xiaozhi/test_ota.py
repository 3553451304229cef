"""Invariants, over a real socket: the OTA address answers 200 to anything, with a `websocket` and
never an `mqtt`; what it tells a device leads it back to us and nowhere else; an unknown device
comes to its conversation, and what strangers try fails.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets

from services.access.keys import MIN_LENGTH
from services.xiaozhi import bodies, ota_body
from services.xiaozhi.device_file import DeviceFile
from tests.daemon.inside import Inside, inside, settled
from tests.xiaozhi.device import connected, headers_of

MAC = "aa:bb:cc:dd:ee:01"
HEADERS = {"Device-Id": MAC, "Client-Id": "owner-uuid", "User-Agent": "kitchen-box/2.2.2"}
STRANGER = {**HEADERS, "Client-Id": "stranger-uuid"}
PATHS = pytest.mark.parametrize("path", ["/xiaozhi/ota/", "/xiaozhi/ota"])


@pytest.fixture
def file(tmp_path: Path) -> DeviceFile:
    return DeviceFile(tmp_path / "devices.json")


@asynccontextmanager
async def house(
    file: DeviceFile, **sets: object
) -> AsyncIterator[tuple[Inside, httpx.AsyncClient]]:
    """A daemon that asks devices for tokens, and a client."""
    given = {
        "xiaozhi.devices_file": file.path,
        "xiaozhi.auth": "on",
        "xiaozhi.enrolment": "code",
        **{f"xiaozhi.{name}": value for name, value in sets.items() if "." not in name},
        **{name: value for name, value in sets.items() if "." in name},
    }
    async with (
        inside(given) as served,
        httpx.AsyncClient(base_url=f"http://{served.address}", timeout=60) as client,
    ):
        yield served, client


async def booted(client: httpx.AsyncClient, headers: dict[str, str] = HEADERS) -> dict[str, Any]:
    response = await client.post("/xiaozhi/ota/", headers=headers, json={})
    assert response.status_code == 200
    return response.json()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Waits for what the daemon sees within a second."""
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 - as devices do
            await asyncio.sleep(0.1)


async def is_enrolled(client: httpx.AsyncClient) -> bool:
    return "activation" not in await booted(client)


async def knock(served: Inside, headers: dict[str, str]) -> int:
    """The status of a handshake: 101 if it is let in."""
    url = f"ws://{served.address}/xiaozhi/v1/"
    try:
        async with websockets.connect(url, additional_headers=headers):
            return 101
    except websockets.InvalidStatus as error:
        return error.response.status_code


# --- the answer ---------------------------------------------------------------------------------
@PATHS
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_the_answer(file: DeviceFile, path: str, method: str):
    async with house(file, auth="off", time_zone="Asia/Shanghai") as (served, client):
        response = await client.request(method, path, headers=HEADERS)
        assert response.status_code == 200
        body = response.json()
        assert body["websocket"] == {
            "url": f"ws://{served.address}/xiaozhi/v1/",
            "token": "",
            "version": 1,
        }
        assert body["firmware"] == {"version": "2.2.2", "url": ""}
        assert body["server_time"]["timezone_offset"] == 480
        assert body["server_time"]["timestamp"] > 1.7e12
        assert body.keys() == {"websocket", "firmware", "server_time"}
        options = await client.options(path)
        assert options.status_code == 200
        assert options.headers["access-control-allow-origin"] == "*"
        assert "Device-Id" in options.headers["access-control-allow-headers"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"board":{"ssid":"my "net""}}',
        b"[1]",
        b"null",
        b"\xff\xfe\x00",
        b"[" * 60_000,
        b"9" * 60_000,
        b'{"application":7,"board":[]}',
        b'{"application":{"version":{"a":1}},"board":{"name":["x"],"type":{}}}',
        b'{"application":{"version":"v2.0"},"board":{"name":"\\ud800"}}',
    ],
)
async def test_any_body(file: DeviceFile, body: bytes):
    async with house(file) as (_, client):
        for headers in (HEADERS, {}, {"Device-Id": MAC}):
            response = await client.post("/xiaozhi/ota/", headers=headers, content=body)
            assert response.status_code == 200
            assert "websocket" in response.json()
            assert "mqtt" not in response.json()


async def test_a_body_of_ten_megabytes_and_one_that_does_not_end(
    file: DeviceFile, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ota_body, "_BODY_S", 0.5)
    async with house(file) as (served, client):
        response = await client.post("/xiaozhi/ota/", headers=HEADERS, content=b"x" * 10_000_000)
        assert response.json()["activation"]["code"]
        host, port = served.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST /xiaozhi/ota/ HTTP/1.1\r\nHost: {host}\r\nContent-Length: 90\r\n\r\nx"
        writer.write(head.encode())
        assert b" 200 " in await reader.readline()
        writer.close()
        # One that goes away in between leaves nothing behind, and no traceback.
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(head.encode())
        await writer.drain()
        writer.transport.abort()
        monkeypatch.setattr(bodies, "_WASTED", 100_000)
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(head.replace("90", "900000000").encode() + b"x" * 200_000)
        writer.close()
        assert (await booted(client))["activation"]


@pytest.mark.parametrize(
    ("agent", "body", "expected"),
    [
        ("kitchen-box/2.2.2", {}, ("kitchen-box", "2.2.2")),
        ("kitchen-box/v2.0", {}, ("kitchen-box", "")),
        ("Linux host/0.5.1", {"board": {"name": "sdk"}, "application": {"version": "0.5"}}, None),
        ("curl", {"board": {"type": "wifi"}, "application": {"version": "1"}}, ("wifi", "1")),
        ("", {"board": {"name": "a\x1b[31m\n" + "b" * 99}}, ("a[31m" + "b" * 59, "")),
        ("x/" + "1." * 500 + "1", {}, ("x", "")),
        ("x/٣", {}, ("x", "")),
    ],
)
def test_what_a_device_says_of_itself(
    agent: str, body: dict[str, Any], expected: tuple[str, str] | None
):
    assert ota_body.about({"user-agent": agent}, body) == (expected or ("sdk", "0.5"))


# --- where it leads -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("sets", "headers", "url"),
    [
        ({}, {"Host": "192.168.1.5:8080"}, "ws://192.168.1.5:8080/xiaozhi/v1/"),
        ({}, {"Host": "localhost"}, "ws://localhost/xiaozhi/v1/"),
        ({}, {"Host": "[::1]:81"}, "ws://localhost:81/xiaozhi/v1/"),
        # of a stranger
        (
            {},
            {"Host": "10.0.0.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example"},
            "ws://10.0.0.1/xiaozhi/v1/",
        ),
        # of a proxy
        (
            {"trusted_proxies": '["127.0.0.0/8"]'},
            {"Host": "10.0.0.1", "X-Forwarded-Proto": "https, http", "X-Forwarded-Host": "a.b:444"},
            "wss://a.b:444/xiaozhi/v1/",
        ),
        (
            {"trusted_proxies": '["127.0.0.1"]'},
            {"Host": "10.0.0.1", "X-Forwarded-Proto": "gopher", "X-Forwarded-Host": 'a"b/c'},
            "ws://10.0.0.1/xiaozhi/v1/",
        ),
        (
            {"websocket_url": "wss://my.example:8443/xiaozhi/v1/"},
            {"Host": "10.0.0.1"},
            "wss://my.example:8443/xiaozhi/v1/",
        ),
    ],
)
async def test_where_it_leads(
    file: DeviceFile, sets: dict[str, str], headers: dict[str, str], url: str
):
    async with house(file, **sets) as (_, client):
        assert (await booted(client, {**HEADERS, **headers}))["websocket"]["url"] == url


async def test_where_they_are_not_wanted(file: DeviceFile):
    async with house(file, enabled=False) as (served, client):
        for path in ("/xiaozhi/ota/", "/xiaozhi/v1/", "/xiaozhi/vision/explain"):
            assert (await client.get(path)).status_code == 404
        assert await knock(served, HEADERS) == 403


async def test_a_host_that_is_not_ours_is_refused(file: DeviceFile):
    async with house(file) as (_, client):
        for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
            for method in ("GET", "POST", "OPTIONS"):
                response = await client.request(
                    method, "/xiaozhi/ota/", headers={**HEADERS, **headers}
                )
                assert response.status_code == 403


# --- from an unknown device to a conversation ---------------------------------------------------
async def test_enrolment(file: DeviceFile, errors: list[str]):
    async with house(file) as (served, client):
        body = await booted(client)
        activation = body["activation"]
        code = activation["code"]
        assert body["websocket"]["token"] == ""
        assert code in activation["message"]
        assert activation["challenge"]
        assert activation["timeout_ms"] > 0
        for path in ("/xiaozhi/ota/activate", "/xiaozhi/ota/activate/"):
            for method in ("POST", "GET"):
                response = await client.request(method, path, headers=HEADERS, content=b"{}")
                assert response.status_code == 202
        assert await knock(served, HEADERS) == 401
        await asyncio.to_thread(file.approve, code)

        async def is_approved(headers: dict[str, str]) -> bool:
            response = await client.post("/xiaozhi/ota/activate", headers=headers)
            return response.status_code == 200

        await until(lambda: is_approved(HEADERS))
        assert not await is_approved(STRANGER)
        assert not await is_approved({})
        body = await booted(client)
        assert "activation" not in body
        token = body["websocket"]["token"]
        for shown in (f"Bearer {token}", token, f"bearer {token}"):
            assert await knock(served, {**HEADERS, "Authorization": shown}) == 101
        query = f"?device-id={MAC}&client-id=owner-uuid&authorization=Bearer%20{token}"
        async with websockets.connect(f"ws://{served.address}/xiaozhi/v1/{query}"):
            pass
        for wrong in ("", "Bearer", "Bearer x", f"Basic {token}", f"Bearer {token}x"):
            assert await knock(served, {**HEADERS, "Authorization": wrong}) == 401
        await settled(lambda: not served.daemon.sessions, "conversations are left")
    assert not errors


async def test_a_stranger_does_not_displace_a_device(file: DeviceFile):
    async with house(file) as (served, client):
        await asyncio.to_thread(file.approve, (await booted(client))["activation"]["code"])
        await until(lambda: is_enrolled(client))
        token = (await booted(client))["websocket"]["token"]
        url = f"ws://{served.address}/xiaozhi/v1/"
        headers = headers_of(MAC, token=token)
        async with websockets.connect(url, additional_headers=headers) as mine:
            await mine.send('{"type":"hello"}')
            assert json.loads(await mine.recv())["type"] == "hello"
            told = await booted(client, STRANGER)
            assert told["websocket"]["token"] == ""
            for shown in ("", "Bearer guess", f"Bearer {told['activation']['code']}"):
                assert await knock(served, {**STRANGER, "Authorization": shown}) == 401
            await mine.send('{"type":"ping"}')
            assert json.loads(await mine.recv())["type"] in ("pong", "mcp")


@pytest.mark.parametrize(
    "device_id", [b"a\xff\xfe", b"../../etc/passwd", b"a b", b"x" * 300, b"[/x]", b"\t", b"a\nb"]
)
async def test_ids_that_are_none(file: DeviceFile, device_id: bytes):
    async with house(file) as (served, _):
        host, port = served.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"POST /xiaozhi/ota/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
            b"Content-Length: 0\r\nClient-Id: owner\r\nDevice-Id: " + device_id + b"\r\n\r\n"
        )
        status, _, rest = (await reader.read()).partition(b"\r\n")
        if b" 200 " in status:
            body = json.loads(rest.partition(b"\r\n\r\n")[2])
            assert body["websocket"]["token"] == ""
            assert "activation" not in body
        else:
            assert b" 400 " in status  # no HTTP
        writer.close()
    assert not file.path.exists()


async def test_a_file_that_breaks_while_it_runs(file: DeviceFile, errors: list[str]):
    async with house(file) as (_, client):
        file.path.write_text("{")
        body = await booted(client)
        assert body["websocket"]["token"] == ""
        assert "activation" not in body
    assert any("is not a file of devices" in line for line in errors)


# --- the door -----------------------------------------------------------------------------------
async def test_devices_need_no_api_key_and_open_nothing_else(file: DeviceFile, tmp_path: Path):
    sets = {"server.require_key": True, "server.keys_file": tmp_path / "keys.json", "auth": "auto"}
    async with house(file, **sets) as (served, client):
        body = await booted(client)
        await asyncio.to_thread(file.approve, body["activation"]["code"])
        await until(lambda: is_enrolled(client))
        token = (await booted(client))["websocket"]["token"]
        assert len(token) > MIN_LENGTH
        assert await knock(served, headers_of(MAC, token=token)) == 101
        assert await knock(served, headers_of(MAC, token="x" * 43)) == 401
        bearer = {"Authorization": f"Bearer {token}"}
        for path in ("/", "/v1/models", "/metrics", "/xiaozhi", "/xiaozhi/../v1/models"):
            # raw, as httpx would tidy the path up
            request = client.build_request("GET", "/", headers=bearer)
            request.url = request.url.copy_with(raw_path=path.encode())
            assert (await client.send(request)).status_code in (401, 404)
        response = await client.get("/xiaozhi/ota/", headers={"Origin": "https://evil.example"})
        assert response.status_code == 403


async def test_a_flood_of_an_address_is_told_to_wait(file: DeviceFile, tmp_path: Path):
    sets = {
        "server.require_key": True,
        "server.keys_file": tmp_path / "keys.json",
        "server.requests_per_minute": 20,
    }
    async with house(file, **sets) as (served, client):
        codes = [
            (
                await client.post("/xiaozhi/ota/", headers={**HEADERS, "Device-Id": f"m{at}"})
            ).status_code
            for at in range(40)
        ]
        assert codes[:20] == [200] * 20
        assert codes[-1] == 429
        assert await knock(served, headers_of(MAC)) == 429
    assert len(file.read().waiting) <= 8


# --- photos --------------------------------------------------------------------------------------
async def test_a_device_is_told_where_its_photos_go(file: DeviceFile):
    async with house(file, enrolment="open", vision_model="scripted") as (served, client):
        token = (await booted(client))["websocket"]["token"]
        # A stranger's request, by another address, moves nothing.
        await booted(client, {**STRANGER, "Host": "6.6.6.6"})
        asked: list[dict[str, Any]] = []
        async with connected(served.address, device_id=MAC, token=token) as device:
            device.tools = asked.append
            await device.hello(features={"mcp": True})
            await device.until(lambda: bool(asked), "initialize")
        sight = asked[0]["params"]["capabilities"]["vision"]
        assert sight["url"] == f"http://{served.address}/xiaozhi/vision/explain"
        files = {"file": ("camera.jpg", b"\xff\xd8\xff\xe0photo", "image/jpeg")}
        for given, status in ((sight["token"], 200), (token, 401)):
            headers = {"Authorization": f"Bearer {given}"}
            response = await client.post(
                sight["url"], headers=headers, files=files, data={"question": "What?"}
            )
            assert response.status_code == status
        assert response.json()["error"]["code"] == "not_admitted"


# --- firmware -----------------------------------------------------------------------------------
async def test_firmware(file: DeviceFile, tmp_path: Path):
    folder = tmp_path / "firmware"
    for name, content in {
        "kitchen-box/2.2.3.bin": b"three",
        "kitchen-box/2.10.bin": b"ten",
        "kitchen-box/v9.bin": b"bad",
        "kitchen-box/99.txt": b"bad",
        "kitchen-box/3.0.0.bin": b"",
        "other/7.0.bin": b"others",
        ".hidden/8.bin": b"bad",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (tmp_path / "9.bin").write_bytes(b"secret")
    async with house(file, auth="off", firmware_dir=folder) as (served, client):
        firmware = (await booted(client))["firmware"]
        url = f"http://{served.address}/xiaozhi/firmware/kitchen-box/2.10.bin"
        assert firmware == {"version": "2.10", "url": url}
        response = await client.get(url)
        assert (response.status_code, response.content) == (200, b"ten")
        assert response.headers["content-length"] == "3"
        for agent, version in (
            ("KITCHEN-BOX/2.2.2", "2.10"),
            ("kitchen-box/2.10", "2.10"),
            ("kitchen-box/10", "10"),
            ("kitchen-box/?", "0.0.0"),
            ("unknown/1.0", "1.0"),
            ("../1.0", "1.0"),
        ):
            told = (await booted(client, {**HEADERS, "User-Agent": agent}))["firmware"]
            assert told["version"] == version
            assert bool(told["url"]) == agent.startswith("KITCHEN")
        for path in (
            b"/xiaozhi/firmware/../9.bin",
            b"/xiaozhi/firmware/%2e%2e/9.bin",
            b"/xiaozhi/firmware/kitchen-box/..%2f..%2f9.bin",
            b"/xiaozhi/firmware/kitchen-box/%2fetc%2fpasswd",
            b"/xiaozhi/firmware/kitchen-box/v9.bin",
            b"/xiaozhi/firmware/kitchen-box/3.0.0.bin",
            b"/xiaozhi/firmware/.hidden/8.bin",
            b"/xiaozhi/firmware/kitchen-box/99.txt",
        ):
            request = client.build_request("GET", "/")
            request.url = request.url.copy_with(raw_path=path)
            assert (await client.send(request)).status_code == 404


async def test_a_firmware_folder_that_is_none(file: DeviceFile, tmp_path: Path):
    async with house(file, auth="off", firmware_dir=tmp_path / "none") as (_, client):
        assert (await booted(client))["firmware"]["url"] == ""
