"""Invariants: the original's own client holds a whole conversation with the face, unchanged."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from websockets.exceptions import InvalidStatus

from services.face import AnswerOptions, Ending, Usage
from services.items import FunctionCall, FunctionOutput, Message
from services.tools import NamedTool, Tool
from tests.realtime.fakes import Face, FakeConversation, check

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
            await sink.final("你好", "zh", turn=1)
            await sink.begin(1)
            await sink.text(1, "很好。")
            await sink.audio(1, FRAME)
            await sink.end(1, Ending(outcome="answered", heard="很好。"))
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
        await conversation.over.wait()


async def until(connection: AsyncRealtimeConnection, kind: str) -> Any:
    """The next event of a kind, checked like all before it."""
    while True:
        event = await connection.recv()
        check(event.to_dict(mode="json"))
        if event.type == kind:
            return event


@asynccontextmanager
async def connected(face: Face) -> AsyncIterator[tuple[AsyncRealtimeConnection, FakeConversation]]:
    client = AsyncOpenAI(base_url=f"http://{face.address}/v1", api_key="none", max_retries=0)
    async with (
        asyncio.timeout(30),
        client,
        client.realtime.connect(model="duplexd", max_retries=0) as connection,
    ):
        await until(connection, "session.created")
        yield connection, await face.sessions.opened.get()


async def test_text_asked_for_and_cancelled(face: Face):
    async with connected(face) as (connection, conversation):
        sink = conversation.sink
        await connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
        await connection.conversation.item.create(
            item={
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "再见"}],
            }
        )
        await connection.response.create(response={"instructions": "Say goodbye"})
        await conversation.called("respond", AnswerOptions(ask=1, instructions="Say goodbye"))
        await sink.begin(1, ask=1)
        await sink.text(1, "再")
        assert (await until(connection, "response.output_text.delta")).delta == "再"
        await connection.response.cancel()
        await conversation.called("cancel")
        await sink.flush(1, heard_ms=0)
        await sink.end(1, Ending(outcome="interrupted", heard="再"))
        response = (await until(connection, "response.done")).response
        assert response.status == "cancelled"
        assert response.status_details.reason == "client_cancelled"
        assert response.output[0].content[0].text == "再"


async def test_a_function_is_called_and_answered(face: Face):
    async with connected(face) as (connection, conversation):
        sink = conversation.sink
        schema = {"type": "object", "properties": {"city": {"type": "string"}}}
        await connection.session.update(
            session={
                "type": "realtime",
                "tools": [
                    {
                        "type": "function",
                        "name": "weather",
                        "description": "The weather",
                        "parameters": schema,
                    }
                ],
                "tool_choice": {"type": "function", "name": "weather"},
            }
        )
        session = (await until(connection, "session.updated")).session
        assert session.tools[0].name == "weather"
        assert session.tool_choice.name == "weather"
        assert conversation.options.tools == (
            Tool(name="weather", description="The weather", parameters=schema),
        )
        assert conversation.options.tool_choice == NamedTool("weather")

        await sink.begin(1)
        await sink.text(1, "我看看。")
        await sink.call_begun(1, "call_1", "weather")
        for piece in ('{"city":', '"巴黎"}'):
            await sink.call_arguments(1, "call_1", piece)
        arguments = '{"city":"巴黎"}'
        await sink.call_done(1, FunctionCall(call_id="call_1", name="weather", arguments=arguments))
        await sink.end(
            1,
            Ending(
                outcome="answered", heard="我看看。", usage=Usage(input_tokens=30, output_tokens=9)
            ),
        )
        done = await until(connection, "response.function_call_arguments.done")
        assert (done.name, done.call_id, done.arguments) == ("weather", "call_1", arguments)
        response = (await until(connection, "response.done")).response
        assert [item.type for item in response.output] == ["message", "function_call"]
        assert response.output[1].arguments == arguments
        assert response.usage.total_tokens == 39

        await connection.conversation.item.create(
            item={"type": "function_call_output", "call_id": "call_1", "output": "晴"}
        )
        await connection.response.create()
        await conversation.called("respond", AnswerOptions(ask=1))
        assert conversation.calls[-2][2] == FunctionOutput(call_id="call_1", output="晴")
        item = (await until(connection, "conversation.item.done")).item
        assert item.type == "function_call_output"


async def test_items_are_retrieved_truncated_and_deleted(face: Face):
    async with connected(face) as (connection, conversation):
        sink = conversation.sink
        await sink.begin(1)
        await sink.text(1, "很好。")
        for _ in range(5):
            await sink.audio(1, FRAME)
        await sink.end(1, Ending(outcome="answered", heard="很好。"))
        item = (await until(connection, "response.output_item.done")).item
        await connection.conversation.item.retrieve(item_id=item.id)
        retrieved = (await until(connection, "conversation.item.retrieved")).item
        assert retrieved == item
        assert retrieved.content[0].transcript == "很好。"
        await connection.conversation.item.truncate(
            item_id=item.id, content_index=0, audio_end_ms=50
        )
        assert (await until(connection, "conversation.item.truncated")).audio_end_ms == 50
        await conversation.called("heard_until", 1, 50)
        await connection.conversation.item.delete(item_id=item.id)
        assert (await until(connection, "conversation.item.deleted")).item_id == item.id
        await conversation.called("remove", "answer-1")
        await connection.conversation.item.delete(item_id=item.id, event_id="mine")
        error = (await until(connection, "error")).error
        assert (error.code, error.param, error.event_id) == ("item_not_found", "item_id", "mine")


async def test_audio_as_on_a_telephone(face: Face):
    async with connected(face) as (connection, conversation):
        await connection.session.update(
            session={
                "type": "realtime",
                "audio": {
                    "input": {"format": {"type": "audio/pcmu"}},
                    "output": {"format": {"type": "audio/pcma"}},
                },
            }
        )
        session = (await until(connection, "session.updated")).session
        assert session.audio.input.format.type == "audio/pcmu"
        second = base64.b64encode(b"\xff" * 8000).decode()
        await connection.input_audio_buffer.append(audio=second)
        await conversation.until(lambda: len(conversation.heard) == 32_000)
        assert not any(conversation.heard)
        await conversation.sink.begin(1)
        await conversation.sink.audio(1, bytes(960))
        delta = (await until(connection, "response.output_audio.delta")).delta
        assert base64.b64decode(delta) == b"\xd5" * 160


async def test_a_question_beside_the_conversation(face: Face):
    async with connected(face) as (connection, conversation):
        await connection.response.create(
            response={
                "conversation": "none",
                "metadata": {"topic": "mood"},
                "output_modalities": ["text"],
                "input": [
                    {
                        "type": "message",
                        "role": "user",
                        "content": [{"type": "input_text", "text": "Happy?"}],
                    }
                ],
            }
        )
        options = AnswerOptions(
            ask=1,
            speak=False,
            remember=False,
            context=(Message(role="user", text="Happy?"),),
        )
        await conversation.called("respond", options)
        await conversation.sink.begin(1, ask=1)
        await conversation.sink.text(1, "yes")
        await conversation.sink.end(1, Ending(outcome="answered", heard="yes"))
        response = (await until(connection, "response.done")).response
        assert response.metadata == {"topic": "mood"}
        assert response.conversation_id is None
        assert response.output[0].content[0].text == "yes"


async def test_the_openai_client_sees_that_the_daemon_is_full(face: Face):
    face.sessions.full()
    client = AsyncOpenAI(base_url=f"http://{face.address}/v1", api_key="none", max_retries=0)
    async with client, asyncio.timeout(20):
        with pytest.raises(InvalidStatus) as refused:
            async with client.realtime.connect(model="duplexd", max_retries=0):
                pass
    assert refused.value.response.status_code == 503
    assert b"at_capacity" in (refused.value.response.body or b"")
