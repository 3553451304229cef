"""Invariants: who says goodbye hears the answer to its end, or the farewell if there is none, and
is then let go; who has something to add stays.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from services.face import Ending
from services.scripted.llm_script import LlmScript
from services.scripted.llm_server import ScriptedLlmServer
from services.scripted.spec import ScriptedTexts
from services.xiaozhi.dialogue import Abandon, Close, Dialogue, Send, Speak, Stir
from services.xiaozhi.events import Abort, Hello, ListenStart
from services.xiaozhi.messages import TtsStop
from services.xiaozhi.settings import XiaozhiSettings
from tests.daemon.inside import Inside, inside
from tests.xiaozhi.device import SENTENCE, START, STOP, Device, connected

ANSWERED, INTERRUPTED = Ending(outcome="answered"), Ending(outcome="interrupted")
FAREWELL = XiaozhiSettings(farewell={"zh": "再见。", "en": "Bye."})
STOPPED = Send(TtsStop())


# --- the dialogue ----------------------------------------------------------------------------
def leaving(*, words: bool, settings: XiaozhiSettings = FAREWELL) -> Dialogue:
    """An answer that calls for the end is being played."""
    made = Dialogue(settings=settings)
    made.receive(Hello())
    made.receive(ListenStart("realtime"))
    made.begin(1)
    made.working(1)
    made.leave()
    if words:
        made.audio(1, b"a")
    return made


def told(actions: tuple[Any, ...]) -> list[Any]:
    return [each for each in actions if each != Stir()]


def test_words_are_enough() -> None:
    made = leaving(words=True)
    assert told(made.end(1, ANSWERED)) == []
    assert told(made.rested()) == [STOPPED, Close()]


def test_without_words_there_is_a_farewell() -> None:
    made = leaving(words=False)
    assert told(made.end(1, ANSWERED)) == []
    assert told(made.rested()) == [Speak("再见。")]
    assert told(made.begin(2)) == []  # it speaks on
    made.audio(2, b"a")
    assert told(made.end(2, ANSWERED)) == [STOPPED, Close()]


def test_there_may_be_no_farewell() -> None:
    made = leaving(words=False, settings=XiaozhiSettings())
    made.end(1, ANSWERED)
    assert told(made.rested()) == [STOPPED, Close()]


def test_a_farewell_that_does_not_come_is_not_waited_for() -> None:
    made = leaving(words=False)
    assert made.idle() == (Stir(),)
    made.end(1, ANSWERED)
    made.rested()
    assert told(made.idle()) == [STOPPED, Close()]


def test_an_answer_that_fails_is_the_last_one() -> None:
    made = leaving(words=True)
    assert told(made.end(1, Ending(outcome="failed"))) == [STOPPED, Close()]
    assert made.rested() == ()


@pytest.mark.parametrize("how", ["abort", "barge-in", "speech", "text"])
def test_who_goes_on_stays(how: str) -> None:
    made = leaving(words=True)
    match how:
        case "abort":
            assert told(made.receive(Abort())) == [STOPPED, Abandon()]
            made.abandoned()
        case "barge-in":
            assert made.rested() == ()
            assert made.flush(1) == (STOPPED,)
            assert made.end(1, INTERRUPTED) == ()
        case "speech":
            made.end(1, ANSWERED)
            made.turn_opened()
        case _:
            made.end(1, ANSWERED)
            made.final("等一下", "zh")
    made.begin(2)
    made.audio(2, b"a")
    assert told(made.end(2, ANSWERED)) == [STOPPED]


def test_a_call_that_comes_too_late_ends_nothing() -> None:
    made = leaving(words=True)
    made.flush(1)
    made.leave()
    made.begin(2)
    assert told(made.end(2, ANSWERED)) == [STOPPED]


# --- the daemon ------------------------------------------------------------------------------
@asynccontextmanager
async def listening(
    *replies: str, mode: str = "auto", **sets: object
) -> AsyncIterator[tuple[Inside, Device]]:
    """A device that listens to a language model with these replies."""
    given = {"scripted.replies": json.dumps(replies, ensure_ascii=False), **sets}
    async with inside(given) as daemon, connected(daemon.address) as device:
        await device.hello()
        await device.listen(mode)
        yield daemon, device


def shown(device: Device) -> str:
    """All subtitles."""
    return "".join(str(each.body and each.body["text"]) for each in device.of(SENTENCE))


async def test_goodbye_is_said_and_heard() -> None:
    async with listening("再见，明天聊。@call goodbye {}@then 还有吗？") as (daemon, device):
        await device.speak()
        closed = await device.over()
        assert closed.rcvd is not None
        assert closed.rcvd.code == 1000
        assert shown(device) == "再见，明天聊。"
        assert len(device.heard()) / 24_000 > 1
        assert len(device.of(START)) == len(device.of(STOP)) == 1
        await daemon.empty()


async def test_goodbye_without_words() -> None:
    farewell = {"xiaozhi.farewell": '{"zh": "下次见。", "en": "Bye."}'}
    async with listening("@call goodbye {}@then 还有吗？", **farewell) as (_, device):
        await device.speak()
        await device.over()
        assert shown(device) == "下次见。"
        assert device.audio
        assert len(device.of(START)) == len(device.of(STOP)) == 1


@pytest.mark.parametrize("how", ["abort", "barge-in"])
async def test_who_interrupts_goodbye_stays(how: str) -> None:
    mode = "auto" if how == "abort" else "realtime"
    goodbye = "再见，祝你今天过得愉快，明天我们再接着聊。@call goodbye {}"
    async with listening(goodbye, "还在。", mode=mode) as (_, device):
        await device.speak()
        await device.playing(4)
        if how == "abort":
            await device.abort()
            await device.wait(STOP)
            await device.listen(mode)
        await device.speak()
        await device.wait(STOP, 2)
        assert shown(device).endswith("还在。")
        assert not device.gone
        await device.send("ping")
        await device.wait(("pong", ""))


@pytest.mark.parametrize("on", [True, False])
async def test_it_is_offered_where_it_is_wanted(*, on: bool) -> None:
    script = LlmScript(texts=ScriptedTexts(replies=["好。"]))
    async with ScriptedLlmServer(script=script) as llm:
        sets = {"llm.provider": "openai", "llm.base_url": llm.base_url, "llm.model": "scripted"}
        sets = {**sets, "xiaozhi.goodbye": str(on).lower()}
        async with inside(sets) as daemon, connected(daemon.address) as device:
            await device.hello()
            await device.listen()
            await device.speak()
            await device.wait(STOP)
    tools = script.requests[-1].body["tools"]
    assert ("goodbye" in [tool["function"]["name"] for tool in tools]) == on
