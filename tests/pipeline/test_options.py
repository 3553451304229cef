"""Invariants: an answer's own options go before those of its session, and those before the ones of
the daemon; what cannot be used is refused before anything begins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipeline.ear import EarSettings
from pipeline.options import (
    SessionSettings,
    check_answer,
    check_options,
    plan_answer,
    turn_settings,
)
from pipeline.turns.settings import TurnSettings
from services.answer import AnswerPlan
from services.face import AnswerOptions, PacingProfile, SessionOptions
from services.items import Message
from services.llm.service import AnswerSettings
from services.scripted.tts import ScriptedVoice
from services.tools import NamedTool, Tool
from tts_engine.errors import BadRequest, UnknownVoice

VOICES = ("one", "two", "three")
LOOK, SEE = Tool(name="look"), Tool(name="see")


def settings(**changes: Any) -> SessionSettings:
    answers = AnswerSettings(
        model="m", prompts={}, switches={}, apologies={}, temperature=0.6, max_tokens=300
    )
    given = {"turns": TurnSettings(), "ear": EarSettings(), "answers": answers, "apologies": {}}
    return SessionSettings(**{**given, **changes})


def plan(
    session: SessionOptions | None = None, answer: AnswerOptions | None = None, **changes: Any
) -> AnswerPlan:
    return plan_answer(
        settings(**changes), session or SessionOptions(), answer or AnswerOptions(), voices=VOICES
    )


def test_the_daemons_own_settings() -> None:
    assert plan(speed=1.5) == AnswerPlan(
        voice=VOICES[0], temperature=0.6, max_tokens=300, speed=1.5
    )


def test_each_goes_before_the_next() -> None:
    session = SessionOptions(
        instructions="be brief",
        voice="two",
        speed=1.2,
        temperature=0.0,
        max_tokens=9,
        tools=(LOOK,),
    )
    assert plan(session, voice="one") == AnswerPlan(
        instructions="be brief",
        voice="two",
        speed=1.2,
        temperature=0.0,
        max_tokens=9,
        tools=(LOOK,),
    )
    answer = AnswerOptions(
        ask=3,
        instructions="",
        voice="three",
        speak=False,
        max_tokens=5,
        tools=(),
        tool_choice="none",
        context=(Message(role="user", text="hi"),),
        remember=False,
    )
    assert plan(session, answer) == AnswerPlan(
        voice="three",
        speed=1.2,
        speak=False,
        temperature=0.0,
        max_tokens=5,
        tool_choice="none",
        messages=({"role": "user", "content": "hi"},),
        remember=False,
        ask=3,
        options=answer,
    )


def test_openais_voices_stand_for_the_configured_one() -> None:
    alloy = SessionOptions(voice="alloy")
    assert plan(alloy, voice="two").voice == "two"
    assert plan(alloy).voice == "one"
    assert plan(voice="alloy").voice == "one"


def test_a_function_that_was_chosen_for_other_tools_is_not_forced() -> None:
    session = SessionOptions(tools=(LOOK,), tool_choice=NamedTool("look"))
    assert plan(session).tool_choice == NamedTool("look")
    assert plan(session, AnswerOptions(tools=(SEE,))).tool_choice == "auto"
    forced = AnswerOptions(tools=(SEE,), tool_choice=NamedTool("see"))
    assert plan(session, forced).tool_choice == NamedTool("see")


def test_turns_as_the_client_wants_them() -> None:
    base = TurnSettings(floor_ms=300, interruptible=False)
    profile = PacingProfile(lead_ms=300)
    assert turn_settings(base, SessionOptions(), profile) == replace(base, echo=True, lead_ms=300.0)
    options = SessionOptions(
        server_turns=False,
        auto_respond=False,
        floor_ms=0,
        idle_ms=5000,
        echo_cancelled=True,
        pauses=True,
    )
    assert turn_settings(base, options, profile) == TurnSettings(
        floor_ms=0.0,
        interruptible=False,
        server_turns=False,
        auto_respond=False,
        idle_ms=5000.0,
        lead_ms=0.0,
    )


def test_a_client_that_waits_longer_than_the_ceiling() -> None:
    settings = turn_settings(TurnSettings(), SessionOptions(floor_ms=3000), PacingProfile())
    assert (settings.floor_ms, settings.ceiling_ms) == (3000.0, 3000.0)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (SessionOptions(voice="nobody"), UnknownVoice),
        (SessionOptions(speed=2.1), BadRequest),
        (SessionOptions(floor_ms=10_001), BadRequest),
        (SessionOptions(idle_ms=0), BadRequest),
        (SessionOptions(tool_choice=NamedTool("look")), BadRequest),
    ],
)
def test_what_no_conversation_could_use(options: SessionOptions, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_options(options, ScriptedVoice())


def test_what_no_answer_could_use() -> None:
    session, voice = SessionOptions(tools=(LOOK,)), ScriptedVoice()
    check_answer(AnswerOptions(tool_choice=NamedTool("look"), voice="alloy"), session, voice)
    with pytest.raises(UnknownVoice):
        check_answer(AnswerOptions(voice="nobody"), session, voice)
    for options in (
        AnswerOptions(tool_choice=NamedTool("see")),
        AnswerOptions(tool_choice=NamedTool("look"), tools=()),
    ):
        with pytest.raises(BadRequest, match="not among the tools"):
            check_answer(options, session, voice)
