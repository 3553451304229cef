"""Invariants, over real sockets: who has the daemon's key lets devices in and out over HTTP, and
sees at once what `run.py devices` sees; nobody else does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from services.xiaozhi.device_file import Device, DeviceFile
from tests.daemon.inside import inside
from tests.xiaozhi.device import connected
from tests.xiaozhi.test_ota import HEADERS, MAC, STRANGER, booted, house, is_enrolled, until

KEY = "k" * 40


@pytest.fixture
def file(tmp_path: Path) -> DeviceFile:
    return DeviceFile(tmp_path / "devices.json")


async def listed(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    response = await client.get("/v1/devices")
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    assert response.json()["tokens"] is True
    return response.json()["data"]


async def approve(client: httpx.AsyncClient, **body: Any) -> httpx.Response:
    return await client.post("/v1/devices/approve", json=body)


async def test_a_device_is_let_in_seen_and_taken_out(file: DeviceFile):
    async with house(file) as (served, client):
        assert await listed(client) == []
        code = (await booted(client))["activation"]["code"]
        [waiting] = await listed(client)
        assert (waiting["state"], waiting["code"], waiting["id"]) == ("waiting", code, MAC)
        assert waiting["board"] == "kitchen-box"
        assert waiting["replaces"] is False

        response = await approve(client, code=f" {code} ", name="kitchen")
        assert response.status_code == 200
        assert response.json()["id"] == MAC
        await until(lambda: is_enrolled(client))
        token = (await booted(client))["websocket"]["token"]
        async with connected(served.address, device_id=MAC, token=token) as device:
            await device.hello()
            [known] = await listed(client)
            assert (known["state"], known["name"], known["connected"]) == ("known", "kitchen", True)
            assert known["seen"] is not None
            assert not {"salt", "client_id", "secret"} & known.keys()

        response = await client.delete(f"/v1/devices/{MAC.upper()}")
        assert response.json() == {"id": MAC, "deleted": True}
        assert await listed(client) == []
        assert not file.read().devices


async def test_one_that_would_take_a_place_is_marked(file: DeviceFile):
    file.add(Device(id=MAC, client_id="owner-uuid", name="desk"))
    async with house(file) as (_, client):
        await booted(client, STRANGER)
        known, waiting = await listed(client)
        assert (known["name"], waiting["replaces"]) == ("desk", True)
        response = await approve(client, code=waiting["code"])
        assert response.json()["name"] == "desk"  # it keeps its name
        assert file.read().devices[0].client_id == "stranger-uuid"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"code": "000000"}, "code"),
        ({"code": ""}, "code"),
        ({"code": 123456}, "code"),
        ({}, "code"),
        ({"code": "1", "name": "x" * 65}, "name"),
        ({"code": "1", "name": "a\x07b"}, "name"),
        ({"code": "1", "other": 1}, "other"),
    ],
)
async def test_what_is_no_approval(file: DeviceFile, body: dict[str, Any], param: str):
    async with house(file) as (_, client):
        await booted(client, HEADERS)
        response = await approve(client, **body)
        assert response.status_code == 400
        assert response.json()["error"]["param"] == param
        assert not file.read().devices


async def test_other_bodies_and_devices_that_are_not_there(file: DeviceFile):
    async with house(file) as (_, client):
        form = await client.post("/v1/devices/approve", data={"code": "1"})
        assert form.status_code == 415
        assert (await client.post("/v1/devices/approve", json=["1"])).status_code == 400
        gone = await client.delete("/v1/devices/nobody")
        assert gone.status_code == 404
        assert gone.json()["error"]["code"] == "no_such_device"
        file.path.write_text("{")
        for response in (await client.get("/v1/devices"), await approve(client, code="1")):
            assert response.status_code == 500
            assert "is not a file of devices" in response.json()["error"]["message"]


async def test_a_key_is_needed_where_the_daemon_has_one(
    file: DeviceFile, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DUPLEXD_API_KEY", KEY)
    async with house(file, **{"server.require_key": True}) as (_, client):
        code = (await booted(client))["activation"]["code"]
        for response in (
            await client.get("/v1/devices"),
            await approve(client, code=code),
            await client.delete(f"/v1/devices/{MAC}"),
        ):
            assert response.status_code == 401
        client.headers["Authorization"] = f"Bearer {KEY}"
        assert (await approve(client, code=code)).status_code == 200


async def test_behind_a_proxy_nobody_manages_them_without_a_key(
    file: DeviceFile, monkeypatch: pytest.MonkeyPatch
):
    proxied = {"trusted_proxies": "[127.0.0.1]"}
    async with house(file, **proxied) as (_, client):
        code = (await booted(client))["activation"]["code"]
        for response in (
            await client.get("/v1/devices"),
            await approve(client, code=code),
            await client.delete(f"/v1/devices/{MAC}"),
        ):
            assert response.status_code == 403
            assert "server.require_key" in response.json()["error"]["message"]
    monkeypatch.setenv("DUPLEXD_API_KEY", KEY)
    async with house(file, **proxied, **{"server.require_key": True}) as (_, client):
        client.headers["Authorization"] = f"Bearer {KEY}"
        assert (await approve(client, code=code)).status_code == 200


async def test_where_devices_need_no_token_those_that_asked_are_shown(file: DeviceFile):
    async with house(file, auth="off") as (served, client):
        await booted(client)
        async with connected(served.address, device_id=MAC) as device:
            await device.hello()
            body = (await client.get("/v1/devices")).json()
            assert body["tokens"] is False
            [guest] = body["data"]
            assert (guest["state"], guest["id"], guest["connected"]) == ("guest", MAC, True)


async def test_where_devices_are_not_wanted_there_are_no_routes():
    async with (
        inside({"xiaozhi.enabled": False}) as served,
        httpx.AsyncClient(base_url=f"http://{served.address}") as client,
    ):
        response = await client.get("/v1/devices")
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "unknown_url"
