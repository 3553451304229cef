"""Invariants: the official `openai` client holds whole conversations with the daemon on scripted
engines, and every event that it gets is valid by its own types.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection

from tests.daemon.client import silence, voice
from tests.daemon.inside import inside
from tests.realtime.fakes import check

LONG = "这是一个很长的回答，它会说很久很久，直到有人打断它为止。" * 4
WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "The weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


class Talker:
    """The client, and what it has heard."""

    def __init__(self, connection: AsyncRealtimeConnection) -> None:
        self.connection = connection
        self.events: list[Any] = []

    async def until(self, kind: str) -> Any:
        """The next event of a kind, checked like all before it."""
        while True:
            event = await self.connection.recv()
            check(event.to_dict(mode="json"))
            self.events.append(event)
            assert event.type != "error" or kind == "error", event
            if event.type == kind:
                return event

    async def update(self, **session: Any) -> Any:
        await self.connection.session.update(session={"type": "realtime", **session})  # type: ignore[arg-type]
        return (await self.until("session.updated")).session

    async def write(self, text: str, **fields: Any) -> None:
        content = [{"type": "input_text", "text": text}]
        await self.connection.conversation.item.create(
            item={"type": "message", "role": "user", "content": content, **fields}  # type: ignore[arg-type]
        )

    async def done(self) -> Any:
        return (await self.until("response.done")).response

    def audio(self) -> bytes:
        """All the audio so far."""
        return b"".join(
            base64.b64decode(event.delta)
            for event in self.events
            if event.type == "response.output_audio.delta"
        )


@asynccontextmanager
async def talking(**sets: Any) -> AsyncIterator[Talker]:
    async with inside({f"scripted.{name}": value for name, value in sets.items()}) as served:
        client = AsyncOpenAI(base_url=f"http://{served.address}/v1", api_key="none", max_retries=0)
        async with (
            asyncio.timeout(60),
            client,
            client.realtime.connect(model="duplexd") as connection,
        ):
            talker = Talker(connection)
            await talker.until("session.created")
            yield talker


async def test_a_spoken_turn_is_answered():
    async with talking(replies="[好的。]", transcripts="[你好]") as talker:
        for samples in (voice(0.6), silence(0.6)):
            audio = base64.b64encode(samples.tobytes()).decode()
            await talker.connection.input_audio_buffer.append(audio=audio)
        completed = await talker.until("conversation.item.input_audio_transcription.completed")
        assert completed.transcript == "你好"
        response = await talker.done()
        assert response.status == "completed"
        assert response.output[0].content[0].transcript == "好的。"
        assert talker.audio()


async def test_a_function_is_called_and_answered():
    reply = '我看看。@call weather {"city": "巴黎"}@then 巴黎{tool}。'
    async with talking(replies=json.dumps([reply], ensure_ascii=False)) as talker:
        session = await talker.update(output_modalities=["text"], tools=[WEATHER])
        assert session.tools[0].name == "weather"
        await talker.write("巴黎天气怎么样")
        await talker.connection.response.create()
        done = await talker.until("response.function_call_arguments.done")
        assert json.loads(done.arguments) == {"city": "巴黎"}
        # the words before the call need not be over
        await talker.connection.conversation.item.create(
            item={"type": "function_call_output", "call_id": done.call_id, "output": "晴"}
        )
        await talker.connection.response.create()
        first = await talker.done()
        assert {item.type for item in first.output} == {"message", "function_call"}
        assert first.status == "completed"
        second = await talker.done()
        assert second.output[0].content[0].text == "巴黎晴。"


async def test_an_answer_is_cancelled_and_remembered_as_heard():
    async with talking(replies=f"[{LONG}]") as talker:
        await talker.write("说")
        await talker.connection.response.create()
        await talker.until("response.output_audio.delta")
        await talker.connection.response.cancel()
        response = await talker.done()
        assert response.status == "cancelled"
        assert response.status_details.reason == "client_cancelled"
        item = response.output[0]
        assert item.status == "incomplete"
        assert LONG.startswith(item.content[0].transcript)
        assert len(item.content[0].transcript) < len(LONG)
        await talker.connection.conversation.item.retrieve(item_id=item.id)
        assert (await talker.until("conversation.item.retrieved")).item == item


async def test_what_was_deleted_is_not_answered():
    async with talking(echo="'{user}'") as talker:
        await talker.update(output_modalities=["text"])
        await talker.write("一", id="one")
        await talker.write("二", id="two")
        await talker.connection.conversation.item.delete(item_id="two")
        await talker.until("conversation.item.deleted")
        await talker.connection.response.create()
        assert "一" in (await talker.done()).output[0].content[0].text


async def test_a_question_beside_the_conversation_leaves_no_trace():
    async with talking(echo="'{user}'") as talker:
        await talker.update(output_modalities=["text"])
        await talker.write("一")
        await talker.connection.response.create(
            response={
                "conversation": "none",
                "metadata": {"a": "b"},
                "input": [
                    {
                        "type": "message",
                        "role": "user",
                        "content": [{"type": "input_text", "text": "二"}],
                    }
                ],
            }
        )
        beside = await talker.done()
        assert beside.conversation_id is None
        assert beside.metadata == {"a": "b"}
        assert "二" in beside.output[0].content[0].text
        await talker.connection.response.create()
        after = await talker.done()
        assert "一" in after.output[0].content[0].text
        assert after.conversation_id


async def test_an_answer_as_on_a_telephone_may_be_truncated():
    async with talking(replies=f"[{LONG}]") as talker:
        await talker.update(audio={"output": {"format": {"type": "audio/pcmu"}}})
        await talker.write("说")
        await talker.connection.response.create()
        first = await talker.until("response.output_audio.delta")
        for _ in range(5):
            await talker.until("response.output_audio.delta")
        assert len(talker.audio()) == 6 * 160
        await talker.connection.conversation.item.truncate(
            item_id=first.item_id, content_index=0, audio_end_ms=60
        )
        truncated = await talker.until("conversation.item.truncated")
        assert truncated.audio_end_ms == 60
        assert (await talker.done()).status == "cancelled"


async def test_every_request_has_its_response():
    async with talking(replies=f"[{LONG}]") as talker:
        for number in range(3):
            await talker.connection.response.create(response={"metadata": {"n": str(number)}})
        await talker.connection.response.cancel()
        for _ in range(3):
            assert (await talker.done()).status == "cancelled"
        created = [event for event in talker.events if event.type == "response.created"]
        assert sorted(event.response.metadata["n"] for event in created) == ["0", "1", "2"]


async def test_a_transcription_session_only_writes_down():
    async with talking(transcripts="[你好]") as talker:
        await talker.connection.session.update(session={"type": "transcription"})
        assert (await talker.until("session.updated")).session.type == "transcription"
        for _ in range(2):
            for samples in (voice(0.6), silence(0.6)):
                audio = base64.b64encode(samples.tobytes()).decode()
                await talker.connection.input_audio_buffer.append(audio=audio)
            await talker.until("conversation.item.input_audio_transcription.completed")
        await talker.connection.response.create()
        assert (await talker.until("error")).error.code == "invalid_session_type"
        assert not any(event.type.startswith("response.") for event in talker.events)
