"""Invariant: the log warns of what fails here, and not of what clients get wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from loguru import logger

from services.scripted.tts import ScriptedVoice, VoiceFault
from tests.tts_service.served import TEXT, served


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    """Messages of the log from WARNING on."""
    told: list[str] = []
    sink = logger.add(told.append, level="WARNING", format="{message}")
    yield told
    logger.remove(sink)


async def test_what_a_client_gets_wrong_is_counted_and_is_no_warning(warnings: list[str]):
    async with served() as at:
        async with at.http() as client:
            for path, body, status in (
                ("/tts", {"text": ""}, 400),  # by the route
                ("/tts", {"text": "😀"}, 400),  # by the response
                ("/v1/audio/speech", {"input": TEXT, "voice": "nobody"}, 400),
            ):
                assert (await client.post(path, json=body)).status_code == status
        async with at.talk() as talk:
            await talk.say("speak", text="😀")
            await talk.until("error")
        assert at.count("errors_total", code="nothing_to_say") == 2
        assert at.count("errors_total", code="unknown_voice") == 1
    assert warnings == []


async def test_what_fails_here_is_a_warning(warnings: list[str]):
    voice = ScriptedVoice(failures={number: VoiceFault(kind="raise") for number in (1, 2)})
    async with served(voice) as at:
        async with at.http() as client:
            assert (await client.post("/tts", json={"text": TEXT})).status_code == 500
        async with at.talk() as talk:
            await talk.say("speak", text=TEXT)
            await talk.until("error")
    assert len(warnings) == 2
    assert all("engine_failed" in each for each in warnings)
