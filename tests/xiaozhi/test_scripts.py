"""Invariant: whatever a device does, and whatever fails meanwhile, it is told things in an order
that it understands, its next turn works, and nothing of it is left over in the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import websockets
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import pipeline.xiaozhi
from services.scripted.asr import ScriptedAsr
from services.scripted.llm_script import LlmFault, LlmReply, LlmScript
from services.scripted.llm_server import ScriptedLlmServer
from services.scripted.spec import ScriptedTexts
from services.scripted.tts import ScriptedVoice
from services.xiaozhi.roster import Roster
from tests.daemon.inside import Inside, alive, inside, settled
from tests.xiaozhi.device import START, STOP, Device, Microphone, connected, silence, voice
from tests.xiaozhi.order import AUDIO, STT, answers
from tests.xiaozhi.served import STORY
from tests.xiaozhi.test_conformance_tools import Firmware
from tts_engine.engine import SpeechChunk
from tts_engine.errors import EngineFailed

#: devices at once, and how often: 500 scripts
DEVICES, ROUNDS = 50, 10
#: longest wait of a script for something that may never come, seconds
WAIT_S = 0.7

# --- what users say, and what comes of it -----------------------------------------------------
GOOD = "今天天气"
REPLIES = {
    GOOD: "好的。",
    "讲个故事": STORY,
    "声音小点": '@call self_audio_speaker_set_volume {"volume": 30}@then 好了，{tool}。',
    "哑了没有": "哑。好的。",
    "卡住没有": "好的，卡。",
    "笑一个吧": "😊",
}
FAULTS = {
    "出了错吗": LlmFault(kind="http_500"),
    "满了没有": LlmFault(kind="http_429"),
    "断了没有": LlmFault(kind="dies", after_tokens=2),
    "通了没有": LlmFault(kind="unreachable"),
    "空了没有": LlmFault(kind="empty"),
    "乱了没有": LlmFault(kind="garbage", after_tokens=1),
    "慢不慢呀": LlmFault(kind="slow", delay_s=0.2),
}
SAID = [*REPLIES, *FAULTS]


class Moody(LlmScript):
    """A language model that does as the user's last words have it; well, while it is `calm`."""

    calm = False

    def answer(self, method: str, path: str, body: bytes) -> LlmReply:
        """See LlmScript."""
        said = GOOD
        if method == "POST" and not self.calm:
            users = [each for each in json.loads(body)["messages"] if each["role"] == "user"]
            said = str(users[-1]["content"]).splitlines()[-1] if users else GOOD
        self.fault = FAULTS.get(said)
        self.texts = ScriptedTexts(replies=[REPLIES.get(said, REPLIES[GOOD])])
        return super().answer(method, path, body)


class Hoarse(ScriptedVoice):
    """A voice that fails at some words."""

    async def synthesize(self, text: str, **asked: Any) -> AsyncGenerator[SpeechChunk, None]:
        """See SpeechEngine."""
        if "哑" in text:
            raise EngineFailed("no voice")
        async with contextlib.aclosing(super().synthesize(text, **asked)) as chunks:
            async for chunk in chunks:
                yield chunk
                if "卡" in text:
                    await asyncio.sleep(60)


# --- what devices do --------------------------------------------------------------------------
SPEECH = Microphone().packets(voice(0.48))
QUIET = Microphone().packets(silence(0.6))

Step = tuple[Any, ...]
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("listen"), st.sampled_from(["auto", "manual", "realtime"])),
    st.tuples(st.just("say"), st.booleans()),  # the turn ends, or stays open
    st.tuples(st.just("quiet"), st.integers(1, 10)),
    st.tuples(st.just("text"), st.sampled_from(SAID)),
    st.tuples(st.just("wait"), st.sampled_from([STT, START, AUDIO, STOP, ("mcp", "")])),
    st.tuples(st.sampled_from(["abort", "abort", "release", "wake", "ping", "hello", "junk"])),
    st.tuples(st.sampled_from(["drop", "leave", "goodbye", "again", "deaf"])),
)
SCRIPTS = st.lists(st.lists(STEPS, min_size=2, max_size=9), min_size=DEVICES, max_size=DEVICES)


class Player:
    """Plays a script, on as many connections as that takes."""

    def __init__(self, daemon: Inside, number: int) -> None:
        self.daemon = daemon
        self.device_id = f"aa:bb:cc:dd:ef:{number:02x}"
        self.version = number % 3 + 1
        self.mode = "auto"
        self.pings = 0  # of this connection
        self.firmware = Firmware()
        self.connections = contextlib.AsyncExitStack()
        self.device: Device

    async def connect(self) -> None:
        """Comes in anew, whatever was before."""
        self.device = await self.connections.enter_async_context(
            connected(self.daemon.address, version=self.version, device_id=self.device_id)
        )
        self.mode, self.pings = "auto", 0
        self.firmware = Firmware()
        self.firmware.serve(self.device)
        await self.device.hello(features={"mcp": True})

    async def play(self, script: list[Step]) -> None:
        """The whole script."""
        await self.connect()
        for step in script:
            if self.device.gone:
                await self.connect()
            with contextlib.suppress(websockets.ConnectionClosed):
                await self.take(*step)

    async def take(self, what: str, how: Any = None) -> None:
        """A step of it."""
        device = self.device
        match what:
            case "listen":
                self.mode = how
                await device.listen(how)
            case "say":
                await self.send([*SPEECH, *(QUIET if how else [])])
            case "quiet":
                await self.send(QUIET[:how])
            case "text":
                await device.detect(how)
            case "wait":
                await self.wait(how)
            case "abort":
                await device.abort()
            case "release":
                await device.release()
            case "wake":
                await device.detect("你好小智")
            case "ping":
                await self.ping()
            case "hello":
                await device.send(what)
            case "goodbye":
                await device.send(what)
                await device.over()
            case "junk":
                await device.connection.send("{")
                await device.connection.send(b"\xff" * 7)
            case "drop":
                device.vanish()
                await device.over()
            case "leave":
                await device.connection.close()
                await device.over()
            case "again":
                await self.connect()
            case "deaf":  # its network stands still
                device.connection.transport.pause_reading()
                await asyncio.sleep(0.2)
                device.connection.transport.resume_reading()

    async def send(self, packets: list[bytes]) -> None:
        for packet in packets:
            await self.device.packet(packet)

    async def ping(self) -> None:
        self.pings += 1
        await self.device.send("ping")

    async def wait(self, kind: tuple[str, str]) -> None:
        """Waits for one more, for a while."""
        device, count = self.device, len(self.device.of(kind))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S), device.news:
                await device.news.wait_for(lambda: len(device.of(kind)) > count or device.gone)

    async def works(self) -> None:
        """The next turn of the device, after an abort, as if its button was pressed."""
        if self.device.gone:
            await self.connect()
        device = self.device
        await device.abort()
        await self.ping()
        await device.wait(("pong", ""), self.pings)  # what the script asked for comes before
        assert not answers(device.told, aborts=device.aborts).speaking, device.kinds
        counts = [len(device.of(kind)) for kind in (STT, START, AUDIO, STOP)]
        await device.listen(self.mode)
        await self.send([*SPEECH, *QUIET])
        if self.mode == "manual":
            await device.release()
        await device.wait(START, counts[1] + 1)
        await device.wait(STOP, counts[3] + 1)
        seen = answers(device.told, aborts=device.aborts)
        assert not seen.speaking, device.kinds
        assert seen.played[-1] > 2, device.kinds
        assert len(device.of(STT)) == counts[0] + 1, device.kinds


class House:
    """The daemon, its engines, and what they are left with."""

    def __init__(self, daemon: Inside, script: Moody, asr: ScriptedAsr, rosters: list[Roster]):
        self.daemon = daemon
        self.script = script
        self.asr = asr
        self.rosters = rosters
        self.fails = dict(asr.fail_turns)
        self.tasks = len(asyncio.all_tasks())

    async def round(self, scripts: list[list[Step]]) -> None:
        """Some devices, each with its script, at once; then the turn that has to work."""
        players = [Player(self.daemon, number) for number in range(len(scripts))]
        async with contextlib.AsyncExitStack() as stack:
            for player in players:
                await stack.enter_async_context(player.connections)
            self.calm(False)
            plays = [each.play(s) for each, s in zip(players, scripts, strict=True)]
            await every(players, scripts, plays)
            self.calm(True)
            await every(players, scripts, [each.works() for each in players])
        await self.nothing_left()

    def calm(self, on: bool) -> None:
        self.script.calm = on
        self.asr.fail_turns = {} if on else dict(self.fails)

    async def nothing_left(self) -> None:
        """No conversation, connection, job or task."""
        await self.daemon.empty()
        await settled(lambda: not any(map(len, self.rosters)), "devices are left")
        engines = (self.asr, self.daemon.daemon.room.voice, self.script)
        await settled(lambda: not any(each.stats.depth for each in engines), "jobs are left")
        await settled(lambda: len(asyncio.all_tasks()) <= self.tasks + 1, "tasks are left")


async def every(players: list[Player], scripts: list[list[Step]], work: list[Any]) -> None:
    """Waits for all of them; says which script failed."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for player, script, result in zip(players, scripts, results, strict=True):
        if isinstance(result, BaseException):
            raise AssertionError(f"{player.device_id}, {script}: {result!r}") from result


@pytest.mark.timeout(300)
async def test_five_hundred_random_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    rosters: list[Roster] = []

    def remembered() -> Roster:
        rosters.append(Roster())
        return rosters[-1]

    monkeypatch.setattr(pipeline.xiaozhi, "Roster", remembered)
    asr = ScriptedAsr(
        texts=ScriptedTexts(transcripts=SAID), fail_turns={2: "engine_failed", 5: "timed_out"}
    )
    script = Moody()
    async with ScriptedLlmServer(script=script) as llm:
        sets = {
            "llm.provider": "openai",
            "llm.base_url": llm.base_url,
            "llm.model": "scripted",
            "tts.clause_timeout_s": 0.5,
            "xiaozhi.start_gap_ms": 20,
            "xiaozhi.stop_margin_ms": 20,
            "messages.llm_failed.zh": "抱歉。",
            "messages.asr_failed.zh": "没听清。",
        }
        async with inside(sets, asr=asr, voice=Hoarse()) as daemon:
            house = House(daemon, script, asr, rosters)
            loop = asyncio.get_running_loop()

            @settings(
                max_examples=ROUNDS,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(SCRIPTS)
            def rounds(scripts: list[list[Step]]) -> None:
                asyncio.run_coroutine_threadsafe(house.round(scripts), loop).result()

            await asyncio.to_thread(rounds)
            assert len(rosters) == 1
            await settled(functools.partial(_nearly_none, daemon), "conversations are in memory")


def _nearly_none(daemon: Inside) -> bool:
    return alive(daemon) <= 2
