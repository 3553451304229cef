"""Invariants: the original's own client holds a whole conversation with the face, unchanged."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.realtime.fakes import Face

FRAME = bytes(range(240)) * 4


async def test_the_openai_client_holds_a_conversation(face: Face):
    async with asyncio.timeout(20):
        client = AsyncOpenAI(base_url=f"http://{face.address}/v1", api_key="none", max_retries=0)
        async with client, client.realtime.connect(model="duplexd") as connection:
            created = await connection.recv()
            assert created.type == "session.created"
            assert created.session.type == "realtime"
            assert created.session.model == "duplexd"
            conversation = await face.sessions.opened.get()
            sink = conversation.sink

            await connection.session.update(
                session={
                    "type": "realtime",
                    "instructions": "Be brief",
                    "output_modalities": ["audio"],
                    "audio": {
                        "input": {
                            "format": {"type": "audio/pcm", "rate": 24000},
                            "turn_detection": {"type": "server_vad", "silence_duration_ms": 300},
                        },
                        "output": {"voice": "nicole"},
                    },
                }
            )
            assert (await connection.recv()).type == "session.updated"
            assert conversation.options.voice == "nicole"
            assert conversation.options.floor_ms == 300

            for _ in range(10):
                await connection.input_audio_buffer.append(audio=base64.b64encode(FRAME).decode())
            await conversation.until(lambda: len(conversation.heard) == 6400)
            await sink.turn_opened(at_ms=0)
            await sink.turn_ended(at_ms=200)
            await sink.final("你好", "zh")
            await sink.begin(1)
            await sink.text(1, "很好。")
            await sink.audio(1, FRAME)
            await sink.end(1, "answered", heard="很好。")
            await sink.turn_report({"turn": 1, "revision": 1})

            seen: list[Any] = []
            async for event in connection:
                seen.append(event)
                if event.type == "duplexd.turn":
                    break
            by_type = {event.type: event for event in seen}
            said = by_type["conversation.item.input_audio_transcription.completed"]
            assert said.transcript == "你好"
            assert base64.b64decode(by_type["response.output_audio.delta"].delta) == FRAME
            assert by_type["response.output_audio_transcript.done"].transcript == "很好。"
            done = by_type["response.done"].response
            assert done.status == "completed"
            assert done.output[0].content[0].transcript == "很好。"

            await connection.conversation.item.create(
                item={
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "再见"}],
                }
            )
            await connection.response.create(response={"instructions": "Say goodbye"})
            await conversation.called("respond", "Say goodbye")
            await sink.begin(2)
            await connection.response.cancel()
            await conversation.called("cancel")
            await sink.end(2, "interrupted", heard="")
            async for event in connection:
                if event.type == "response.done":
                    assert event.response.status_details is not None
                    assert event.response.status_details.reason == "client_cancelled"
                    break
            await connection.conversation.item.delete(item_id="x", event_id="mine")
            error = await connection.recv()
            assert error.type == "error"
            assert (error.error.code, error.error.event_id) == ("not_supported", "mine")
        await conversation.over.wait()


async def test_the_openai_client_sees_that_the_daemon_is_full(face: Face):
    face.sessions.full()
    client = AsyncOpenAI(base_url=f"http://{face.address}/v1", api_key="none", max_retries=0)
    async with (
        client,
        asyncio.timeout(20),
        client.realtime.connect(model="duplexd", max_retries=0) as connection,
    ):
        event = await connection.recv()
        assert event.type == "error"
        assert event.error.code == "at_capacity"
        with pytest.raises(Exception, match="1013"):
            await connection.recv()
