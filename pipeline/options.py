"""What a client may choose, checked, and resolved with the daemon's own settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pipeline.context_book import chat_message
from pipeline.ear import EarSettings
from pipeline.tool_runner import ToolSettings
from pipeline.turns.settings import TurnSettings
from pipeline.voice import with_default_first
from services.answer import AnswerPlan
from services.face import AnswerOptions, PacingProfile, SessionOptions
from services.llm.service import AnswerSettings
from services.tools import DaemonTool, NamedTool, Tool, ToolChoice, may_choose
from services.voices import resolve_voice
from tts_engine.engine import MAX_SPEED, MIN_SPEED, SpeechEngine
from tts_engine.errors import BadRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """What every conversation starts with.

    Parameters:
        turns: how turns are decided.
        ear: how the ear listens.
        answers: how answers are asked for.
        apologies: what is said when a turn was not understood, by language.
        voice: name of the voice.
        speed: pace of the voice.
        ahead_s: most audio that is made ahead of the play head.
        clause_timeout_s: longest wait for a chunk of the voice.
        speculate_when_busy: answers are speculated though others wait for the engines.
        tools: how functions are run.
    """

    turns: TurnSettings
    ear: EarSettings
    answers: AnswerSettings
    apologies: Mapping[str, str]
    voice: str | None = None
    speed: float = 1.0
    ahead_s: float = 4.0
    clause_timeout_s: float = 20.0
    speculate_when_busy: bool = False
    tools: ToolSettings = field(default_factory=ToolSettings)


def check_options(options: SessionOptions, voice: SpeechEngine) -> None:
    """Refuses what no conversation could use.

    Raises:
        UnknownVoice, BadRequest
    """
    if options.voice is not None:
        resolve_voice(options.voice, with_default_first(None, voice.voices))
    if options.speed is not None and not MIN_SPEED <= options.speed <= MAX_SPEED:
        raise BadRequest(
            f"The speed must lie between {MIN_SPEED} and {MAX_SPEED}, not {options.speed:g}"
        )
    if options.floor_ms is not None and not 0 <= options.floor_ms <= 10_000:
        raise BadRequest(f"The silence must lie between 0 and 10000 ms, not {options.floor_ms}")
    if options.idle_ms is not None and options.idle_ms <= 0:
        raise BadRequest(f"The idle time must be more than 0 ms, not {options.idle_ms}")
    _check_choice(options.tool_choice, options.tools)


def check_answer(answer: AnswerOptions, session: SessionOptions, voice: SpeechEngine) -> None:
    """Refuses what no answer of a conversation could use.

    Raises:
        UnknownVoice, BadRequest
    """
    if answer.voice is not None:
        resolve_voice(answer.voice, with_default_first(None, voice.voices))
    if answer.text is not None and not answer.text.strip():
        raise BadRequest("The text to be spoken is empty")
    if answer.tool_choice is not None:
        tools = session.tools if answer.tools is None else answer.tools
        _check_choice(answer.tool_choice, tools)


def _check_choice(choice: ToolChoice, tools: tuple[Tool, ...]) -> None:
    if isinstance(choice, NamedTool) and not may_choose(choice, tools):
        raise BadRequest(
            f"The function {choice.name!r} is to be called, and it is not among the tools",
            mend="Name it in the tools as well",
        )


def turn_settings(
    base: TurnSettings, options: SessionOptions, profile: PacingProfile
) -> TurnSettings:
    """How the turns of a conversation are decided.

    Args:
        base: the daemon's.
        options: of the conversation.
        profile: of its face.
    """
    floor_ms = base.floor_ms if options.floor_ms is None else float(options.floor_ms)
    return replace(
        base,
        server_turns=options.server_turns,
        auto_respond=options.auto_respond,
        interruptible=base.interruptible and options.interruptible,
        floor_ms=floor_ms,
        ceiling_ms=max(base.ceiling_ms, floor_ms),
        echo=not options.echo_cancelled,
        lead_ms=0.0 if options.pauses else float(profile.lead_ms),
        idle_ms=None if options.idle_ms is None else float(options.idle_ms),
    )


def plan_answer(
    settings: SessionSettings,
    session: SessionOptions,
    answer: AnswerOptions,
    *,
    voices: tuple[str, ...],
    daemon_tools: tuple[DaemonTool, ...] = (),
) -> AnswerPlan:
    """What holds for an answer that begins now: its own options, else those of the session, else
    the daemon's. All were checked.

    Args:
        settings: the daemon's.
        session: the session's options as they are.
        answer: what was asked of this one.
        voices: the engine's, the first is its default.
        daemon_tools: what the daemon offers everybody. Neither these nor the session's are for an
            answer that is out of band, or whose tool choice is not "auto".
    """
    base = settings.answers
    tools = session.tools if answer.tools is None else answer.tools
    choice = session.tool_choice if answer.tool_choice is None else answer.tool_choice
    if not may_choose(choice, tools):  # chosen for the session, for other tools than this answer's
        choice = "auto"
    own: tuple[DaemonTool, ...] = ()
    if base.tools and answer.remember and choice == "auto":  # else the client wants one of its own
        own = _own_tools((*session.daemon_tools, *daemon_tools), tools)
    tools = (*tools, *(each.tool for each in own))
    instructions = session.instructions if answer.instructions is None else answer.instructions
    context = answer.context
    return AnswerPlan(
        instructions=instructions or "",
        voice=_voice(answer.voice or session.voice, settings.voice, voices),
        speed=session.speed or settings.speed,
        speak=session.speak if answer.speak is None else answer.speak,
        temperature=base.temperature if session.temperature is None else session.temperature,
        max_tokens=answer.max_tokens or session.max_tokens or base.max_tokens,
        tools=tools,
        tool_choice=choice,
        messages=None if context is None else tuple(chat_message(item) for item in context),
        remember=answer.remember,
        ask=answer.ask,
        text=answer.text,
        daemon_tools=own,
        options=answer,
    )


def _own_tools(offered: tuple[DaemonTool, ...], tools: tuple[Tool, ...]) -> tuple[DaemonTool, ...]:
    """Those whose names nobody has before them: the client's own go first."""
    taken = {tool.name for tool in tools}
    own: list[DaemonTool] = []
    for each in offered:
        if each.tool.name not in taken:
            taken.add(each.tool.name)
            own.append(each)
    return tuple(own)


def _voice(name: str | None, configured: str | None, voices: tuple[str, ...]) -> str | None:
    """The voice that a name stands for; the configured one is the default, else the engine's first.

    It is settled here, for all of the answer: the first may be another one by its end.
    """
    default = None if configured is None else resolve_voice(configured, voices)
    if name is None:
        return default or next(iter(voices), None)
    return resolve_voice(name, voices if default is None else (default, *voices))
