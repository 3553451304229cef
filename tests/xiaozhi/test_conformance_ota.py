"""Invariants: a device that boots is led to a conversation, whatever it sends, and only the right
token opens it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import websockets

from tests.daemon.inside import Inside, inside
from tests.xiaozhi.device import connected, headers_of, talking
from tests.xiaozhi.order import answers
from tests.xiaozhi.turn import turn

MAC = "aa:bb:cc:dd:ee:01"
HEADERS = {
    **headers_of(MAC),
    "User-Agent": "bread-compact-wifi/2.4.2",
    "Activation-Version": "1",
    "Accept-Language": "zh-CN",
    "Content-Type": "application/json",
}
BODY = json.dumps(
    {
        "version": 2,
        "language": "zh-CN",
        "flash_size": 16777216,
        "minimum_free_heap_size": "8318916",
        "mac_address": MAC,
        "application": {"name": "xiaozhi", "version": "2.4.2", "elf_sha256": "0"},
        "partition_table": [{"label": "nvs", "type": 1, "subtype": 2, "address": 1, "size": 2}],
        "ota": {"label": "app0"},
        "board": {"type": "bread-compact-wifi", "name": "bread-compact-wifi", "rssi": -50},
    }
)
PATHS = pytest.mark.parametrize("path", ["/xiaozhi/ota/", "/xiaozhi/ota"])


@asynccontextmanager
async def house(folder: Path, **sets: object) -> AsyncIterator[tuple[Inside, httpx.AsyncClient]]:
    """A daemon that asks for tokens and gives one to every device, and a client."""
    given = {
        "xiaozhi.devices_file": folder / "devices.json",
        "xiaozhi.auth": "on",
        "xiaozhi.enrolment": "open",
        "scripted.replies": "[好的。]",
        **sets,
    }
    async with (
        inside(given) as daemon,
        httpx.AsyncClient(base_url=f"http://{daemon.address}", timeout=60) as client,
    ):
        yield daemon, client


def checked(response: httpx.Response) -> dict[str, Any]:
    """The answer, as the firmware reads it."""
    assert response.status_code == 200
    assert not response.history
    body = response.json()
    assert "mqtt" not in body
    assert "activation" not in body
    told = body["websocket"]
    assert told["url"].startswith(("ws://", "wss://"))
    assert isinstance(told["token"], str)
    assert told["version"] in (1, 2, 3)
    assert isinstance(body["server_time"]["timestamp"], int)
    assert isinstance(body["server_time"]["timezone_offset"], int)
    firmware = body.get("firmware", {})
    assert all(part.isdecimal() for part in firmware.get("version", "0").split("."))
    assert firmware.get("url", "") == ""
    return told


async def status_of(daemon: Inside, headers: dict[str, str], query: str = "") -> int:
    """Of a handshake: 101 if it is let in."""
    try:
        async with connected(daemon.address, headers=headers, path=f"/xiaozhi/v1/{query}"):
            return 101
    except websockets.InvalidStatus as error:
        return error.response.status_code


@PATHS
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_from_the_boot_to_the_first_answer(tmp_path: Path, path: str, method: str) -> None:
    """Checklist: OTA with and without a slash, POST and GET; the token that it gives is good."""
    async with house(tmp_path) as (daemon, client):
        content = BODY if method == "POST" else None
        told = checked(await client.request(method, path, headers=HEADERS, content=content))
        assert told["token"]
        url = urlsplit(told["url"])
        assert url.netloc == daemon.address
        async with connected(url.netloc, token=told["token"], path=url.path) as device:
            await device.hello()
            await turn(device)
            assert answers(device.told).played[0]


@PATHS
async def test_bodies_that_are_none(tmp_path: Path, path: str) -> None:
    """Checklist: OTA: a bad body is answered like any other."""
    async with house(tmp_path) as (_, client):
        good = checked(await client.post(path, headers=HEADERS, content=BODY))
        broken = BODY.replace('"rssi"', '"ssid":"my "net"","rssi"')
        for body in (b"", b"{", broken.encode(), b"[]", b"\xff\xfe", b"a=b", b"[" * 30_000):
            assert checked(await client.post(path, headers=HEADERS, content=body)) == good
        kind = {**HEADERS, "Content-Type": "application/x-www-form-urlencoded"}
        assert checked(await client.post(path, headers=kind, content=BODY)) == good


@PATHS
async def test_headers_that_are_missing(tmp_path: Path, path: str) -> None:
    """Checklist: OTA: missing headers: an answer, and no token for who does not say who it is."""
    async with house(tmp_path) as (daemon, client):
        told = checked(await client.post(path))
        assert told["token"] == ""
        assert await status_of(daemon, headers_of(MAC)) == 401
        for missing in ("User-Agent", "Activation-Version", "Accept-Language", "Content-Type"):
            some = {name: value for name, value in HEADERS.items() if name != missing}
            assert checked(await client.post(path, headers=some, content=BODY))["token"]


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_tokens(tmp_path: Path, version: int) -> None:
    """Checklist: token right, wrong, missing, another device's, or in the query."""
    async with house(tmp_path) as (daemon, client):
        token = checked(await client.post("/xiaozhi/ota/", headers=HEADERS))["token"]
        other = {**HEADERS, "Device-Id": "aa:bb:cc:dd:ee:02", "Client-Id": "other"}
        others = checked(await client.post("/xiaozhi/ota/", headers=other))["token"]
        for wrong in ("", "x", token[:-1], token + "x", others, "令牌".encode().decode("latin-1")):
            headers = headers_of(MAC, version=version, token=wrong)
            assert await status_of(daemon, headers) in (400, 401, 403)
        async with talking(daemon.address, token=token, version=version) as device:
            await turn(device)
        # what cannot set headers
        query = f"?device-id={MAC}&client-id=x&authorization=Bearer%20"
        assert await status_of(daemon, {}, query + token) == 101
        assert await status_of(daemon, {}, query + others) == 401
        # the header counts
        headers = headers_of(MAC, token=others)
        assert await status_of(daemon, headers, query + token) == 401


async def test_a_stranger_does_not_displace_a_device(tmp_path: Path) -> None:
    """Checklist: the same id again: only after it has shown its token."""
    async with house(tmp_path) as (daemon, client):
        token = checked(await client.post("/xiaozhi/ota/", headers=HEADERS))["token"]
        async with talking(daemon.address, token=token) as device:
            for wrong in ("", "x"):
                assert await status_of(daemon, headers_of(MAC, token=wrong)) == 401
            await asyncio.sleep(0.1)
            assert device.closed is None
            await turn(device)


async def test_a_get_without_an_upgrade(tmp_path: Path) -> None:
    """Checklist: the socket's address without its handshake says what is wrong."""
    async with house(tmp_path) as (_, client):
        for path in ("/xiaozhi/v1/", "/xiaozhi/v1"):
            response = await client.get(path, headers=HEADERS)
            assert response.status_code in (400, 401, 426)


async def test_pages_of_origins_that_may_come_in_may_ask(tmp_path: Path) -> None:
    """Checklist: OTA: OPTIONS, with CORS, for test pages."""
    allowed = {"server.allowed_origins": "[http://x.example]"}
    headers = {"Origin": "http://x.example", "Access-Control-Request-Method": "POST"}
    async with house(tmp_path, **allowed) as (_, client):
        for path in ("/xiaozhi/ota/", "/xiaozhi/ota"):
            response = await client.options(path, headers=headers)
            assert response.status_code in (200, 204)
            assert response.headers["access-control-allow-origin"] == "*"
            response = await client.post(path, headers={**HEADERS, **headers}, content=BODY)
            assert response.headers["access-control-allow-origin"] == "*"
            assert checked(response)["token"]
