"""Invariants, over a real socket: a photo of a device that may come in is looked at by the model;
in place of what it says there is a sentence why not; strangers get neither.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import openai
import pytest
from fastapi import FastAPI

from services.access.key_file import KeyFile
from services.xiaozhi import vision
from services.xiaozhi.device_file import DeviceFile, Visit
from services.xiaozhi.registry import DeviceRegistry
from services.xiaozhi.vision import VisionContext, make_router
from tests.access.fakes import House, open_house
from tts_engine.errors import DuplexdError

MAC = "aa:bb:cc:dd:ee:01"
PHOTO = b"\xff\xd8\xff\xe0" + b"photo" * 40
ANSWER = {"choices": [{"message": {"role": "assistant", "content": " 一只猫。 "}}]}

Reply = Callable[[httpx2.Request], httpx2.Response]


class Room:
    """A registry with one device, and a model."""

    def __init__(self, folder: Path) -> None:
        self._keys = KeyFile(folder / "keys.json")  # one is required, and there is none
        file = DeviceFile(folder / "devices.json")
        self.registry = DeviceRegistry(file=file, asks=True, open_door=True)
        visit = Visit(id=MAC, client_id="uuid", base="http://127.0.0.1")
        self.token = self.registry.boots(visit).token
        self.url, self.photo_token = self.registry.vision(MAC)
        self.asked: list[dict[str, Any]] = []
        self.errors: list[DuplexdError] = []
        self.reply: Reply = lambda _: httpx2.Response(200, json=ANSWER)

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(json.loads(request.content))
        return self.reply(request)

    @asynccontextmanager
    async def open(
        self, model: str | None = "sees", *, warm: bool = True
    ) -> AsyncIterator[httpx.AsyncClient]:
        """Serves it behind the door, with a key required."""
        transport = httpx2.MockTransport(self._answer)
        async with openai.AsyncOpenAI(
            base_url="http://model/v1",
            api_key="none",
            max_retries=0,
            http_client=httpx2.AsyncClient(transport=transport),
        ) as model_client:
            context = VisionContext(
                registry=self.registry,
                client=lambda: model_client if warm else None,
                model=model,
                on_error=self.errors.append,
            )
            app = FastAPI()
            app.include_router(make_router(context))
            async with open_house(House(self._keys), app=app) as client:
                client.headers["Authorization"] = f"Bearer {self.photo_token}"
                client.timeout = httpx.Timeout(60)
                yield client


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def form(
    question: str | None = "这是什么？", photo: bytes | None = PHOTO, boundary: str = "----ESP32"
) -> tuple[bytes, dict[str, str]]:
    """A body as the firmware makes it."""
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="question"\r\n\r\n{question}\r\n'
        if question is not None
        else "",
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="camera.jpg"\r\n'
        "Content-Type: image/jpeg\r\n\r\n",
    ]
    body = parts[0].encode()
    if photo is not None:
        body += parts[1].encode() + photo + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), {
        "Content-Type": f"multipart/form-data; boundary={boundary}"
    }


async def sent(client: httpx.AsyncClient, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
    """Sends it in chunks, as devices do."""

    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 65_536):
            yield body[at : at + 65_536]

    response = await client.post("/xiaozhi/vision/explain", content=chunks(), headers=headers)
    assert response.status_code == 200
    return response.json()


async def test_a_photo_is_looked_at(room: Room):
    assert room.url == "http://127.0.0.1/xiaozhi/vision/explain"
    async with room.open() as client:
        body = await sent(client, *form())
    assert body == {"success": True, "action": "RESPONSE", "response": "一只猫。"}
    [request] = room.asked
    assert request["model"] == "sees"
    text, image = request["messages"][0]["content"]
    assert text == {"type": "text", "text": "这是什么？"}
    assert image["image_url"]["url"].startswith("data:image/jpeg;base64,/9j/4HBob3Rv")


async def test_what_cannot_be_sent_on(room: Room):
    content = b'{"choices":[{"message":{"content":"a\\ud800b"}}]}'
    room.reply = lambda _: httpx2.Response(
        200, content=content, headers={"content-type": "application/json"}
    )
    async with room.open() as client:
        assert (await sent(client, *form()))["response"] == "a\ufffdb"


async def test_without_a_question(room: Room):
    async with room.open() as client:
        await sent(client, *form(question=None))
        await sent(client, *form(question=" "))
        await sent(client, *form(question="x" * 9_000, photo=b"\x89PNG\r\n" + PHOTO))
    asked = [each["messages"][0]["content"] for each in room.asked]
    assert [each[0]["text"] for each in asked] == ["这张照片里有什么？"] * 2 + ["x" * 2_000]
    assert asked[2][1]["image_url"]["url"].startswith("data:image/png;")


@pytest.mark.parametrize(
    ("question", "says"), [("What is it?", "No model that can see"), ("这是什么", "没有配置")]
)
async def test_without_a_model(room: Room, question: str, says: str):
    async with room.open(model=None) as client:
        body = await sent(client, *form(question=question))
    assert not body["success"]
    assert body["response"].startswith(says)
    assert not room.asked


async def test_while_the_model_starts(room: Room):
    async with room.open(warm=False) as client:
        assert "Too busy" in (await sent(client, *form(question="What?")))["response"]


def _raise(_: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("refused")


@pytest.mark.parametrize(
    "reply",
    [
        lambda _: httpx2.Response(500, json={}),
        lambda _: httpx2.Response(400, json={"error": {"message": "cannot see"}}),
        lambda _: httpx2.Response(200, content=b"<html>"),
        lambda _: httpx2.Response(200, json={"choices": []}),
        lambda _: httpx2.Response(200, json={"choices": [{"message": {"content": " "}}]}),
        lambda _: httpx2.Response(200, json={"choices": [{"message": {"content": None}}]}),
        lambda _: httpx2.Response(200, json={"choices": [{}]}),
        lambda _: httpx2.Response(200, json={"choices": [{"message": {"content": [1]}}]}),
        lambda _: httpx2.Response(200, json=[]),
        _raise,
    ],
)
async def test_a_model_that_fails(room: Room, reply: Reply):
    room.reply = reply
    async with room.open() as client:
        body = await sent(client, *form())
        assert body == {"success": False, "action": "RESPONSE", "response": "看图的模型出错了。"}
        room.reply = lambda _: httpx2.Response(200, json=ANSWER)
        assert (await sent(client, *form()))["success"]
    assert len(room.errors) == 1


async def test_a_model_that_is_silent(room: Room, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vision, "_ANSWER_S", 0.05)
    silent = asyncio.Event()

    async def wait(request: httpx2.Request) -> httpx2.Response:
        await silent.wait()
        raise AssertionError

    monkeypatch.setattr(room, "_answer", wait)
    async with room.open() as client:
        assert not (await sent(client, *form()))["success"]
    assert "did not say within" in str(room.errors[0])


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", "multipart/form-data; boundary=x"),
        (form()[0], "multipart/form-data"),
        (form()[0], "text/plain"),
        (form()[0][:100], form()[1]["Content-Type"]),
        (form(photo=None)[0], form()[1]["Content-Type"]),
        (form(photo=b"")[0], form()[1]["Content-Type"]),
        (form(photo=b"<svg>")[0], form()[1]["Content-Type"]),
        (form("\r\n--")[0].replace("这".encode(), b"\xff"), form()[1]["Content-Type"]),
        (b"\xff" * 50, ""),
    ],
    ids=range(9),
)
async def test_what_is_no_photo(room: Room, body: bytes, content_type: str):
    async with room.open() as client:
        told = await sent(client, body, {"Content-Type": content_type})
    if not told["success"]:
        assert told["response"] in ("没有收到照片。", "No photo has arrived.")
    assert len(room.asked) == told["success"]


async def test_photos_that_are_too_large(room: Room):
    async with room.open() as client:
        body = await sent(client, *form(photo=PHOTO + b"x" * 10_000_000))
        assert body["response"].startswith("照片太大")
        assert (await sent(client, *form(photo=PHOTO + b"x" * 3_000_000)))["success"]


async def test_a_photo_that_stalls_and_more_than_are_taken(
    room: Room, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(vision, "_AT_ONCE", 1)
    here, on = asyncio.Event(), asyncio.Event()

    async def stalling() -> AsyncIterator[bytes]:
        yield b"------ESP32\r\n"
        here.set()
        await on.wait()

    async def stalled(client: httpx.AsyncClient) -> dict[str, Any]:
        headers = form()[1]
        response = await client.post("/xiaozhi/vision/explain", content=stalling(), headers=headers)
        return response.json()

    async with room.open() as client:
        first = asyncio.create_task(stalled(client))
        await here.wait()
        async with asyncio.timeout(60):
            while (await sent(client, *form()))["success"]:
                pass
        assert (await sent(client, *form("What?")))["response"].startswith("现在太忙")
        on.set()
        assert (await first)["response"] == "没有收到照片。"
        monkeypatch.setattr(vision, "_PHOTO_S", 0.05)
        on.clear()
        slow = asyncio.create_task(stalled(client))
        async with asyncio.timeout(60):
            # The answer comes before the body has ended.
            while not (await sent(client, *form()))["success"]:
                pass
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)


@pytest.fixture
def wrong(room: Room) -> list[str]:
    name, _, token = room.photo_token.partition("/")
    return ["", "x", room.token, f"{name}/{room.token}", token, f"11:22:33:44:55:66/{token}"]


async def test_strangers(room: Room, wrong: list[str]):
    async with room.open() as client:
        for token in wrong:
            body, headers = form()
            headers["Authorization"] = f"Bearer {token}" if token else ""
            headers["Device-Id"] = MAC
            response = await client.post("/xiaozhi/vision/explain", content=body, headers=headers)
            assert response.status_code == 401
        assert (await client.get("/xiaozhi/vision/explain")).status_code == 405
    assert not room.asked
    assert len(room.errors) == len(wrong)
