"""Invariants: whatever a client does to an answer and its calls, the language model gets what was
said and heard, in a form that servers take.
"""

from __future__ import annotations

import json
from typing import Any

from services.scripted.llm_script import LlmScript
from services.scripted.llm_server import ScriptedLlmServer
from services.scripted.spec import ScriptedTexts
from tests.daemon.abuse import TOOL, sound
from tests.daemon.client import DONE, talking
from tests.daemon.inside import inside
from tests.daemon.test_input import LONG


def check_calls(messages: list[dict[str, Any]]) -> None:
    """A conversation as servers take it: calls of objects, each with its output right behind."""
    awaited: list[str] = []
    for each in messages:
        if each["role"] == "tool":
            awaited.remove(each["tool_call_id"])
            continue
        assert not awaited
        for call in each.get("tool_calls", ()):
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            awaited.append(call["id"])
    assert not awaited


async def test_calls_in_every_state_leave_a_conversation_that_servers_take():
    calls = " ".join(f'@call lamp {{"n": {n}}}' for n in range(20))
    replies = [f'看一下。@call lamp "{{oops" {calls} @then 好了。', "行。"]
    script = LlmScript(texts=ScriptedTexts(replies=replies))
    async with ScriptedLlmServer(script=script) as llm:
        sets = {"llm.provider": "openai", "llm.base_url": llm.base_url, "llm.model": "scripted"}
        async with inside(sets) as served, talking(served.url) as client:
            script.requests.clear()
            await client.send("session.update", session={"type": "realtime", "tools": [TOOL]})
            await client.speak()
            made = [i for i in (await client.done())["output"] if i["type"] == "function_call"]
            assert len(made) == 16  # as many as one answer may make
            for call in made[:8]:  # its output once, and again
                for _ in range(2):
                    output = {"type": "function_call_output", "output": "亮"}
                    item = {**output, "call_id": call["call_id"]}
                    await client.send("conversation.item.create", item=item)
            for call in made[4:12]:  # gone before its output, or after it
                await client.send("conversation.item.delete", item_id=call["id"])
            for call in made[8:14]:
                item = {"type": "function_call_output", "call_id": call["call_id"], "output": "亮"}
                await client.send("conversation.item.create", item=item)
            for _ in range(3):
                await client.send("response.create", response={"tool_choice": "none"})
            await client.until(lambda: len(client.of(DONE)) >= 4, "every response")
            codes = [each["error"]["code"] for each in client.of("error")]
            assert codes == ["call_has_output"] * 8 + ["call_not_found"] * 4
            last = script.requests[-1].messages
            check_calls(last)
            [kept] = [each["tool_calls"] for each in last if "tool_calls" in each]
            assert {call["id"] for call in kept} == {
                call["call_id"] for call in (*made[:4], *made[12:])
            }
            # a call whose arguments are none keeps them, and harms nobody
            assert sum("oops" in call["function"]["arguments"] for call in kept) == 1
            assert client.of(DONE)[-1]["response"]["status"] == "completed"


async def test_what_was_said_survives_the_abuse_of_an_answer():
    script = LlmScript(texts=ScriptedTexts(replies=[LONG, "好。"]))
    async with ScriptedLlmServer(script=script) as llm:
        sets = {"llm.provider": "openai", "llm.base_url": llm.base_url, "llm.model": "scripted"}
        async with inside(sets) as served, talking(served.url) as client:
            script.requests.clear()
            await client.speak()
            await client.playing(600)
            item = client.of("response.output_item.added")[0]["item"]["id"]
            place = {"item_id": item, "content_index": 0}
            for audio_end_ms in (-1, 10**9, 10**40):
                await client.send("conversation.item.truncate", **place, audio_end_ms=audio_end_ms)
            await client.send("conversation.item.delete", item_id=item)
            for rate in (24000, 16000, 24000):
                form = {"type": "audio/pcm", "rate": rate}
                audio = {"input": {"format": form}, "output": {"format": form, "voice": "two"}}
                await client.send("session.update", session={"type": "realtime", "audio": audio})
            # long enough to interrupt whatever it says
            await client.send("input_audio_buffer.append", audio=sound(2.4))
            assert (await client.done())["status"] == "cancelled"
            [heard] = client.of("conversation.item.truncated")
            await client.speak()
            assert (await client.done(2))["status"] == "completed"
            _, first, answer, second = script.requests[-1].messages
            assert first["content"] == second["content"] == await client.transcript()
            assert LONG.startswith(answer["content"])
            shown = client.of("response.output_item.done")[0]["item"]
            assert answer["content"] == shown["content"][0]["transcript"].strip()
            assert heard["audio_end_ms"] > 0
            assert [each["error"]["code"] for each in client.of("error")] == [
                *("invalid_value", "invalid_value", "invalid_value", "item_in_progress")
            ]
