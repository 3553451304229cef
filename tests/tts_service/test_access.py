"""Invariant: the door in front of the service is that of the daemon."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import websockets
from websockets.asyncio.client import connect

from services.access.key_file import KeyFile
from services.access.keys import digest_of, new_key
from tests.daemon.client import PATIENCE_S
from tests.tts_service.served import TEXT, error_of, served


async def test_a_key_is_needed_where_one_is_asked_for(tmp_path: Path):
    file = tmp_path / "keys.json"
    key = new_key()
    KeyFile(file).add(digest_of(key), name="me")
    sets = {"server.require_key": True, "server.keys_file": json.dumps(str(file))}
    async with served(sets=sets) as at:
        url = f"ws://{at.address}/ws/tts"
        with_key = {"Authorization": f"Bearer {key}"}
        async with at.http() as client:
            for method, path in (
                ("POST", "/tts"),
                ("GET", "/list-voice"),
                ("POST", "/register-voice"),
                ("DELETE", "/voices/one"),
                ("POST", "/v1/audio/speech"),
                ("GET", "/metrics"),
            ):
                reply = await client.request(method, path, json={"text": TEXT})
                assert error_of(reply) == (401, "missing_api_key", None)
            good = await client.post("/tts", json={"text": TEXT}, headers=with_key)
            assert good.status_code == 200
            link = await client.get("/", params={"key": key})
            assert (link.status_code, link.headers["location"]) == (303, "/")
            assert "duplexd tts" in (await client.get("/", headers=with_key)).text
        with pytest.raises(websockets.InvalidStatus):
            await connect(url, open_timeout=PATIENCE_S)
        async with connect(url, additional_headers=with_key, open_timeout=PATIENCE_S):
            pass


async def test_web_pages_of_others_are_refused():
    page = {"Origin": "https://evil.example.com"}
    async with served() as at:
        async with at.http() as client:
            reply = await client.post("/tts", json={"text": TEXT}, headers=page)
            assert error_of(reply) == (403, "invalid_origin", None)
            form = {"name": (None, "me"), "text": (None, "x"), "audio": ("a.wav", b"x")}
            reply = await client.post("/register-voice", files=form, headers=page)
            assert error_of(reply) == (403, "invalid_origin", None)
        with pytest.raises(websockets.InvalidStatus):
            await connect(f"ws://{at.address}/ws/tts", additional_headers=page)
        async with at.http() as client:
            reply = await client.get("/list-voice", headers={"Host": "evil.example.com"})
            assert error_of(reply) == (403, "invalid_host", None)
        await at.works()
