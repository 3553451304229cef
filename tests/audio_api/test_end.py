"""Invariant: when the server ends, or gives up in the middle, a text that has no audio yet is
refused, and one that has is broken off; the server takes neither for an error of its own.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import AsyncExitStack

import pytest

from services.scripted.tts import ScriptedVoice, VoiceFault
from tests.audio_api.conftest import ValveVoice, ask, post
from tests.daemon.client import PATIENCE_S
from tests.daemon.inside import inside, settled

#: how a chunked body ends that is whole
WHOLE = b"0\r\n\r\n"


async def all_of(reader: asyncio.StreamReader) -> bytes:
    """What comes until the connection is over, however it ends."""
    received = b""
    async with asyncio.timeout(PATIENCE_S):
        try:
            while data := await reader.read(65536):
                received += data
        except ConnectionResetError:
            pass
    return received


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the server has logged as an error."""
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


@pytest.mark.parametrize("form", ["wav", "mp3"])
async def test_a_text_without_audio_yet_is_told_that_the_server_ends(
    form: str, caplog: pytest.LogCaptureFixture
):
    voice = ValveVoice()
    async with inside(voice=voice) as served:
        reader, writer = await post(served, ask(response_format=form))
        await settled(lambda: bool(voice.asked), "nothing was asked for")
    head, _, body = (await all_of(reader)).partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert lines[0] == b"http/1.1 503 service unavailable"
    assert {b"retry-after: 1", b"connection: close", b"content-type: application/json"} < {*lines}
    assert b"content-length: %d" % len(body) in lines
    error = json.loads(body)["error"]
    assert (error["code"], error["type"]) == ("shutting_down", "server_error")
    assert "shutting down" in error["message"]
    assert voice.closed == voice.asked
    assert complaints(caplog) == []
    writer.close()


async def test_a_text_with_audio_is_broken_off_when_the_server_ends(
    caplog: pytest.LogCaptureFixture,
):
    voice = ValveVoice()
    voice.give("part")
    async with AsyncExitStack() as stack:
        async with inside(voice=voice) as served:
            reader, writer = await post(served, ask(response_format="pcm"))
            stack.callback(writer.close)
            head = await reader.readuntil(b"\r\n\r\n")
        rest = await all_of(reader)
    assert head.startswith(b"HTTP/1.1 200 ")
    assert not rest.endswith(WHOLE)
    assert voice.closed == voice.asked
    assert complaints(caplog) == []


async def test_a_failure_in_the_middle_is_no_error_of_the_servers(
    caplog: pytest.LogCaptureFixture,
):
    voice = ScriptedVoice(failures={2: VoiceFault(kind="raise")})
    async with inside(voice=voice) as served:
        reader, writer = await post(served, ask(response_format="pcm"))
        received = await all_of(reader)
        writer.close()
    assert received.startswith(b"HTTP/1.1 200 ")
    assert not received.endswith(WHOLE)
    assert complaints(caplog) == []
