"""Invariants: a client may leave at any moment, with or without a goodbye: what was done for it
stops, nothing of it stays, and the next client is served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from services.scripted.asr import ScriptedAsr
from services.scripted.llm_script import LlmScript
from services.scripted.llm_server import ScriptedLlmServer
from services.scripted.spec import ScriptedTexts
from services.scripted.tts import ScriptedVoice
from tests.daemon.client import STARTED, Client, silence, talking, voice
from tests.daemon.inside import Inside, alive, inside, settled

TEXTS = ScriptedTexts(
    transcripts=["讲个故事", "停一下"], replies=["从前有一座山，山里有一座庙，庙里有一个老和尚。"]
)


class Scene:
    """A daemon whose engines and server can be looked at and slowed down."""

    def __init__(self, llm: LlmScript) -> None:
        self.llm = llm
        self.asr = ScriptedAsr(texts=TEXTS)
        self.voice = ScriptedVoice()
        self.served: Inside


async def greeted(client: Client, scene: Scene) -> None:
    """Nothing was sent yet."""


async def listening(client: Client, scene: Scene) -> None:
    await client.append(silence(1.0))
    await client.send("session.update", session={"type": "realtime"})
    await client.wait("session.updated")


async def speaking(client: Client, scene: Scene) -> None:
    await client.append(voice(0.6))
    await client.wait(STARTED)


async def recognised(client: Client, scene: Scene) -> None:
    scene.asr.hang_turns = frozenset({1})
    await client.speak()
    await settled(lambda: scene.asr.stats.depth == 1, "the recogniser does not work")


async def thinking(client: Client, scene: Scene) -> None:
    scene.llm.first_token_s = 60.0
    await client.speak()
    await scene.llm.arrived.wait()


async def writing(client: Client, scene: Scene) -> None:
    scene.llm.tokens_per_s = 6.0
    await client.speak()
    await client.playing(20)


async def voicing(client: Client, scene: Scene) -> None:
    scene.voice.first_chunk_s = 60.0
    await client.speak()
    await settled(lambda: scene.voice.stats.depth == 1, "the voice does not work")


async def playing(client: Client, scene: Scene) -> None:
    await client.speak()
    await client.playing(300)


async def barging_in(client: Client, scene: Scene) -> None:
    await playing(client, scene)
    await client.append(voice(2.4))  # long enough to interrupt whatever it says
    await client.wait(STARTED, 2)


async def barged_in(client: Client, scene: Scene) -> None:
    scene.asr.hang_turns = frozenset({2})
    await playing(client, scene)
    await client.speak(2.4)
    await client.done()


STATES: list[Callable[[Client, Scene], Awaitable[None]]] = [
    greeted,
    listening,
    speaking,
    recognised,
    thinking,
    writing,
    voicing,
    playing,
    barging_in,
    barged_in,
]
#: those in which a turn was committed
COMMITTED = (thinking, writing, voicing, playing, barging_in, barged_in)


@pytest.mark.parametrize("politely", [True, False], ids=["close", "reset"])
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
async def test_a_client_that_leaves(
    state: Callable[[Client, Scene], Awaitable[None]], politely: bool
):
    script = LlmScript(texts=TEXTS)
    scene = Scene(script)
    async with ScriptedLlmServer(script=script) as llm:
        sets = {"llm.provider": "openai", "llm.base_url": llm.base_url, "llm.model": "scripted"}
        async with inside(sets, asr=scene.asr, voice=scene.voice) as served:
            scene.served = served
            script.requests.clear()
            script.arrived.clear()
            tasks = len(asyncio.all_tasks())
            async with talking(served.url) as client:
                await state(client, scene)
                if not politely:
                    client.vanish()
            await served.empty()
            await settled(lambda: not llm.tasks, "the language model still writes")
            await settled(lambda: len(asyncio.all_tasks()) <= tasks, "tasks are left")
            assert all(request.over.is_set() for request in script.requests)
            if state in (thinking, writing):
                assert script.requests[0].cancelled
            assert scene.asr.stats.depth == scene.voice.stats.depth == 0
            assert served.count("sessions") == 0
            assert served.count("errors_total", code="engine_failed") == 0
            # a committed turn is counted, also if its end could not be told any more
            assert served.count("turns_total", outcome="interrupted") == (state in COMMITTED)
            await settled(lambda: alive(served) == 0, "the conversation stays in memory")
            await someone_else(scene)


async def someone_else(scene: Scene) -> None:
    """Is served as if nothing had been."""
    scene.asr.hang_turns = frozenset()
    scene.llm.first_token_s, scene.llm.tokens_per_s = 0.0, 1000.0
    scene.voice.first_chunk_s = 0.0
    async with talking(scene.served.url) as client:
        await client.speak()
        assert await client.transcript() == "讲个故事"
        await client.playing(100)
