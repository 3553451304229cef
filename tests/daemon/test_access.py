"""Invariants: from another address every route and every socket of the daemon is refused without a
key, with a wrong one, from a foreign page and by a foreign name; a good key opens each of them,
also over TLS with the certificate that is printed; keys that come or go count while it runs.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from openai import AsyncOpenAI
from starlette.routing import Mount, Route, WebSocketRoute
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from pipeline.app import Daemon, create_app
from pipeline.commands.options import overrides
from pipeline.config import load_config
from pipeline.doctor_port import running
from services.access.addresses import own_addresses
from services.access.certificate import Names
from services.access.key_file import KeyFile
from services.access.keys import digest_of, new_key
from services.access.tls import Tls, own_tls
from services.models import Manifest, ModelStore
from tests.daemon.client import PATIENCE_S, talking
from tests.daemon.inside import Inside, inside

WRONG = "dx-wrong-wrong-wrong-wrong-wrong-wr"


@dataclass(frozen=True)
class Door:
    """One way into the daemon."""

    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def doors(routes: Any, prefix: str = "") -> Iterator[Door]:
    """All of an application's routes and sockets; parameters of paths become `x`."""
    for route in routes:
        path = "/".join(
            "x" if part.startswith("{") else part
            for part in (prefix + getattr(route, "path", "")).split("/")
        )
        match route:
            case Mount():
                yield Door("GET", f"{path}/x")
            case WebSocketRoute():
                yield Door("WS", path)
            case Route():
                yield from (Door(method, path) for method in sorted(route.methods or ()))
            case _:
                yield from doors(route.original_router.routes, prefix)


def application() -> FastAPI:
    config = load_config(None, overrides(engines="scripted:instant"), environ={})
    store = ModelStore(root=Path("none"), manifest=Manifest(models={}))
    return create_app(Daemon(config=config, store=store), ca_certificate=Path(__file__))


DOORS = sorted(set(doors(application().routes)), key=str)


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


@pytest.fixture
def key(file: KeyFile) -> str:
    key = new_key()
    file.add(digest_of(key))
    return key


@pytest.fixture
def elsewhere() -> str:
    """An address of this machine that is not loopback."""
    address = next((each for each in own_addresses() if ":" not in each), None)
    if address is None:
        pytest.skip("this machine has no address but loopback")
    return address


def beyond(file: KeyFile, host: str = "0.0.0.0") -> dict[str, object]:
    return {"server.host": host, "server.keys_file": file.path}


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def status(address: str, door: Door, *, name: str = "", **headers: str) -> tuple[int, str]:
    """What a client gets from another address: the status, and the error's code if there is one."""
    host, _, port = address.partition(":")
    if door.method == "WS":
        url = f"ws://{name or host}:{port}{door.path}"
        try:
            async with connect(
                url,
                host=host,
                port=int(port),
                additional_headers=headers,
                open_timeout=PATIENCE_S,
            ):
                return 101, ""
        except InvalidStatus as refused:
            return refused.response.status_code, code_of(refused.response.body)
    if name:
        headers["Host"] = name
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client:
        response = await client.request(
            door.method, f"http://{address}{door.path}", headers=headers
        )
        return response.status_code, code_of(response.content)


def code_of(body: bytes | None) -> str:
    try:
        return json.loads(body or b"")["error"]["code"]
    except (ValueError, LookupError, TypeError):
        return ""


def test_the_doors_are_all_there():
    known = {str(door) for door in DOORS}
    assert {
        "GET /",
        "GET /healthz",
        "GET /readyz",
        "GET /metrics",
        "GET /openapi.json",
        "GET /duplexd-ca.crt",
        "POST /v1/audio/speech",
        "WS /v1/realtime",
    } <= known


DEVICES = [door for door in DOORS if door.path.startswith("/xiaozhi/")]


@pytest.mark.parametrize("door", [door for door in DOORS if door not in DEVICES], ids=str)
async def test_every_door(door: Door, file: KeyFile, key: str, elsewhere: str):
    async with inside(beyond(file), ready=False) as served:
        address = served.address.replace("127.0.0.1", elsewhere)
        head = door.method == "HEAD"  # has no body that could say why

        async def gets(**kwargs: str) -> tuple[int, str]:
            return await status(address, door, **kwargs)

        for kind, expected, kwargs in (
            ("no key", (401, "missing_api_key"), {}),
            ("wrong key", (401, "invalid_api_key"), bearer(WRONG)),
            (
                "wrong origin",
                (403, "invalid_origin"),
                {**bearer(key), "Origin": "http://evil.example"},
            ),
            ("wrong host", (403, "invalid_host"), {**bearer(key), "name": "evil.example"}),
        ):
            assert await gets(**kwargs) == (expected[0], "" if head else expected[1]), kind
        assert (await gets(**bearer(key)))[0] not in (401, 403, 429)


@pytest.mark.parametrize("door", DEVICES, ids=str)
async def test_devices_have_tokens_of_their_own(
    door: Door, file: KeyFile, key: str, elsewhere: str, tmp_path: Path
):
    sets = {**beyond(file), "xiaozhi.devices_file": tmp_path / "devices.json"}
    async with inside(sets) as served:
        address = served.address.replace("127.0.0.1", elsewhere)
        assert (await status(address, door))[1] not in ("missing_api_key", "invalid_api_key")
        evil = {"Origin": "http://evil.example"}
        for kwargs in (evil, {"name": "evil.example"}):
            assert (await status(address, door, **kwargs))[0] == 403
        if door.method == "WS":
            device = {"Device-Id": "aa:bb:cc:dd:ee:ff"}
            for shown in ({}, bearer(WRONG), bearer(key)):  # an API key is no device's token
                assert (await status(address, door, **device, **shown))[0] == 401


async def test_what_there_is_not_is_refused_too(file: KeyFile, key: str, elsewhere: str):
    async with inside(beyond(file), ready=False) as served:
        address = served.address.replace("127.0.0.1", elsewhere)
        for door in (Door("GET", "/nothing"), Door("WS", "/nothing"), Door("OPTIONS", "/")):
            assert await status(address, door) == (401, "missing_api_key")


async def test_this_machine_needs_a_key_as_well(file: KeyFile, key: str):
    async with inside(beyond(file), ready=False) as served:
        assert await status(served.address, Door("GET", "/healthz")) == (401, "missing_api_key")


async def test_loopback_needs_none_unless_it_is_wanted(file: KeyFile, key: str):
    health = Door("GET", "/healthz")
    async with inside(beyond(file, "127.0.0.1"), ready=False) as served:
        assert (await status(served.address, health))[0] == 200
        assert (await status(served.address, health, name="evil.example"))[0] == 403
        origin = {"Origin": "http://evil.example"}
        assert (await status(served.address, Door("WS", "/v1/realtime"), **origin))[0] == 403
    wanted = {**beyond(file, "127.0.0.1"), "server.require_key": "true"}
    async with inside(wanted, ready=False) as served:
        assert (await status(served.address, health))[0] == 401
        assert (await status(served.address, health, **bearer(key)))[0] == 200


async def test_names_and_pages_that_are_allowed(file: KeyFile):
    sets = {
        "server.allowed_hosts": "[voice.example]",
        "server.allowed_origins": '["https://app.example"]',
    }
    async with inside({**beyond(file, "127.0.0.1"), **sets}) as served:
        health, socket = Door("GET", "/healthz"), Door("WS", "/v1/realtime")
        assert (await status(served.address, health, name="voice.example"))[0] == 200
        origin = {"Origin": "https://app.example"}
        assert (await status(served.address, socket, **origin))[0] == 101
        origin = {"Origin": "http://localhost:5173"}
        assert (await status(served.address, socket, **origin))[0] == 101


async def test_requests_are_counted(file: KeyFile, key: str):
    sets = {**beyond(file), "server.requests_per_minute": 2}
    async with inside(sets, ready=False) as served:
        health = Door("GET", "/healthz")
        seen = [(await status(served.address, health, **bearer(key)))[0] for _ in range(3)]
        assert seen == [200, 200, 429]
        assert served.count("errors_total", code="rate_limit_exceeded") == 1


async def test_keys_that_come_and_go_while_it_runs(file: KeyFile, key: str):
    async with inside(beyond(file), ready=False) as served, httpx.AsyncClient() as client:

        async def until(key: str, wanted: int) -> None:
            async def answer() -> int:
                response = await client.get(f"http://{served.address}/healthz", headers=bearer(key))
                return response.status_code

            async with asyncio.timeout(PATIENCE_S):
                while (got := await answer()) != wanted:
                    assert got in (200, 401, 429)
                    await asyncio.sleep(0.1)  # the daemon looks once a second

        await until(key, 200)
        other = new_key()
        stored = file.add(digest_of(other), name="phone")
        await until(other, 200)
        file.revoke(stored.id)
        await until(other, 401)
        await until(key, 200)


async def test_the_key_of_the_environment(file: KeyFile, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DUPLEXD_API_KEY", "a-key-for-a-container")
    async with inside(beyond(file), ready=False) as served:
        health = Door("GET", "/healthz")
        assert (await status(served.address, health, **bearer("a-key-for-a-container")))[0] == 200
        assert (await status(served.address, health, **bearer(WRONG)))[0] == 401


# --- whole conversations --------------------------------------------------------------------


async def test_the_openai_client_brings_the_key(file: KeyFile, key: str):
    async with (
        inside(beyond(file)) as served,
        AsyncOpenAI(base_url=f"http://{served.address}/v1", api_key=key) as client,
        client.realtime.connect(model="duplexd") as connection,
    ):
        event = await connection.recv()
        assert event.type == "session.created"


def certificate(folder: Path, *addresses: str) -> Tls:
    names = Names(
        hostname="test", names=frozenset({"localhost"}), addresses=frozenset({*addresses})
    )
    return own_tls(folder, names)


async def test_over_tls_with_the_certificate_that_is_printed(
    file: KeyFile, key: str, elsewhere: str, tmp_path: Path
):
    tls = certificate(tmp_path / "tls", "127.0.0.1", elsewhere)
    trusting = ssl.create_default_context(cafile=tls.authority)
    async with inside(beyond(file), tls=tls) as served:
        address = served.address.replace("127.0.0.1", elsewhere)
        async with httpx.AsyncClient(
            base_url=f"https://{address}", verify=trusting, trust_env=False, timeout=PATIENCE_S
        ) as client:
            assert (await client.get("/healthz")).status_code == 401
            answer = await client.post("/login", json={"key": key})
            assert answer.headers["Set-Cookie"].endswith("; Secure")
            assert (await client.get("/healthz")).json()["status"] == "ok"
            authority = await client.get("/duplexd-ca.crt")
            assert authority.headers["Content-Type"] == "application/x-x509-ca-cert"
            assert tls.authority is not None
            assert authority.content == tls.authority.read_bytes()
        url = f"wss://{address}/v1/realtime"
        async with connect(
            url, ssl=trusting, additional_headers=bearer(key), open_timeout=PATIENCE_S
        ) as connection:
            assert json.loads(await connection.recv())["type"] == "session.created"
        with pytest.raises(InvalidStatus) as refused:
            await connect(url, ssl=trusting, open_timeout=PATIENCE_S)
        assert refused.value.response.status_code == 401


async def test_a_conversation_over_tls(tmp_path: Path):
    tls = certificate(tmp_path, "127.0.0.1")
    trusting = ssl.create_default_context(cafile=tls.authority)
    async with inside(tls=tls) as served:
        async with talking(f"wss://{served.address}/v1/realtime", tls=trusting) as client:
            await client.speak()
            assert (await client.done())["status"] == "completed"
        await served.empty()


async def test_who_does_not_trust_it_or_speaks_no_tls(tmp_path: Path):
    tls = certificate(tmp_path, "127.0.0.1")
    async with inside(tls=tls, ready=False) as served:
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client:
            with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
                await client.get(f"https://{served.address}/healthz")
            with pytest.raises(httpx.HTTPError):
                await client.get(f"http://{served.address}/healthz")
        trusting = ssl.create_default_context(cafile=tls.authority)
        async with httpx.AsyncClient(verify=trusting, trust_env=False) as client:
            answer = await client.get(f"https://{served.address}/healthz")
            assert answer.status_code == 200


async def test_a_daemon_is_known_by_what_it_asks_for(file: KeyFile, tmp_path: Path):
    async def known(served: Inside) -> tuple[bool, bool] | None:
        port = int(served.address.rpartition(":")[2])
        found = await asyncio.to_thread(running, served.daemon.config.server.host, port)
        return found and (found.secure, found.locked)

    async with inside(ready=False) as served:
        assert await known(served) == (False, False)
    async with inside(beyond(file), ready=False) as served:
        assert await known(served) == (False, True)
    async with inside(beyond(file), ready=False, tls=certificate(tmp_path / "t")) as served:
        assert await known(served) == (True, True)
