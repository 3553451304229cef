"""The original's own client finds the models, and is told in its own words what there is not."""

from __future__ import annotations

import time

import openai
import pytest

from services.scripted.tts import VOICES
from tests.audio_api.conftest import http, openai_client, scripted


async def test_the_openai_client_lists_the_models():
    async with scripted() as served, openai_client(served) as api:
        listed = [model async for model in api.models.list()]
        assert [model.id for model in listed] == ["duplexd", "scripted"]
        for model in listed:
            assert (model.object, model.owned_by) == ("model", "duplexd")
            assert abs(model.created - time.time()) < 3600
            assert await api.models.retrieve(model.id) == model


async def test_the_language_model_is_listed_once_it_is_known():
    async with scripted() as served, openai_client(served) as api:
        brain = served.daemon.room.brain
        assert brain is not None
        brain.model = "Qwen/Qwen2.5-7B-Instruct"
        assert (await api.models.retrieve("Qwen/Qwen2.5-7B-Instruct")).id == brain.model


@pytest.mark.parametrize("name", ["gpt-4o", "a/b", "duplexd/", "😀"])
async def test_a_model_that_does_not_exist_is_not_found(name: str):
    async with scripted() as served, openai_client(served) as api:
        with pytest.raises(openai.NotFoundError) as caught:
            await api.models.retrieve(name)
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    assert caught.value.type == "invalid_request_error"


async def test_the_voices_are_listed_the_default_first():
    async with scripted() as served, http(served) as client:
        voices = (await client.get("/v1/audio/voices")).json()["voices"]
    assert voices == [{"id": name, "default": name == VOICES[0]} for name in VOICES]


async def test_what_this_daemon_does_not_serve_is_told_with_what_it_does():
    async with scripted() as served, openai_client(served) as api:
        with pytest.raises(openai.NotFoundError) as chat:
            await api.chat.completions.create(model="m", messages=[])
        async with http(served) as client:
            other = await client.post("/v1/audio/translations", data={"model": "m"})
            wrong = await client.get("/v1/audio/speech")
            far = await client.get("/" + "x" * 1000)
    error = chat.value
    assert (error.code, error.type) == ("unknown_url", "invalid_request_error")
    assert "POST /v1/audio/transcriptions" in error.message
    assert "POST /v1/chat/completions" in error.message
    assert (other.status_code, other.json()["error"]["code"]) == (404, "unknown_url")
    assert (wrong.status_code, wrong.headers["Allow"]) == (405, "POST")
    assert wrong.json()["error"]["code"] == "method_not_allowed"
    assert len(far.json()["error"]["message"]) < 300


async def test_a_socket_that_a_proxy_made_plain_is_told_why():
    async with scripted() as served, http(served) as client:
        response = await client.get("/v1/realtime?model=duplexd")
    assert (response.status_code, response.headers["Upgrade"]) == (426, "websocket")
    error = response.json()["error"]
    assert error["code"] == "upgrade_required"
    assert "proxy" in error["message"]
