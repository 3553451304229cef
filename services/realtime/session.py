# pyright: strict
"""The effective session: what the client chose, over the daemon's configuration."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from services.asr.recording import hotwords_of
from services.face import SessionOptions
from services.realtime.formats import PCM, AudioFormat
from services.realtime.schema import Modality, token_limit
from services.realtime.schema_response import ResponseOptions
from services.realtime.schema_session import (
    AudioInput,
    AudioOutput,
    RealtimePatch,
    Transcription,
    TranscriptionPatch,
)
from services.realtime.tools import check_choice, show_choice, show_tools
from services.realtime.turn_detection import Turns
from services.tools import Tool, ToolChoice

Kind = Literal["realtime", "transcription"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Session state; None where the client left the daemon's configuration.

    Parameters:
        id: the conversation's id.
        kind: "transcription": turns are written down, and nothing is answered.
        model: what the client called the model in the address; shown back, without effect.
        default_voice: the voice that speaks when none was chosen.
        hears, says: audio on the wire.
        transcribes: the client is told the text of turns.
        languages: the only ones that are spoken.
        prompt, keywords: what is likely to be said, as the client put it.
        turns: None: the client commits turns itself.
        echo_cancelled, pauses: see ClientTraits; None: the client did not say, which counts as no.
    """

    id: str
    kind: Kind = "realtime"
    model: str = ""
    default_voice: str = ""
    voice: str | None = None
    instructions: str | None = None
    modality: Modality = "audio"
    speed: float | None = None
    hears: AudioFormat = PCM
    says: AudioFormat = PCM
    transcribes: bool = True
    languages: tuple[str, ...] | None = None
    prompt: str = ""
    keywords: tuple[str, ...] = ()
    turns: Turns | None = field(default_factory=Turns)
    max_tokens: int | None = None
    temperature: float | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = "auto"
    echo_cancelled: bool | None = None
    pauses: bool | None = None

    @property
    def answers(self) -> bool:
        """The daemon answers by itself when a turn ends."""
        return self.kind == "realtime" and self.turns is not None and self.turns.respond

    def patched(self, patch: RealtimePatch | TranscriptionPatch) -> Session:
        """The session after a session.update.

        Raises:
            Refused: what it asks for does not go together.
        """
        session = replace(self, kind=patch.type)
        if patch.audio is not None and patch.audio.input is not None:
            session = replace(session, **_input_changes(patch.audio.input))
        if isinstance(patch, TranscriptionPatch):
            return session
        if patch.audio is not None and patch.audio.output is not None:
            session = replace(session, **_output_changes(patch.audio.output))
        session = replace(session, **_changes(patch))
        check_choice(session.tool_choice, session.tools, param="session.tool_choice")
        return session

    def answering(self, options: ResponseOptions) -> Session:
        """The session as one answer has it."""
        changes: dict[str, Any] = {}
        if options.output_modalities is not None:
            changes["modality"] = options.output_modalities[0]
        if options.max_output_tokens is not None:
            changes["max_tokens"] = token_limit(options.max_output_tokens)
        speech = options.audio.output if options.audio else None
        if speech is not None and speech.voice is not None:
            changes["voice"] = speech.voice
        if speech is not None and speech.format is not None:
            changes["says"] = speech.format.format()
        return replace(self, **changes)

    def options(self) -> SessionOptions:
        """The same for the conversation."""
        turns = self.turns
        realtime = self.kind == "realtime"
        return SessionOptions(
            instructions=self.instructions,
            voice=self.voice,
            speed=self.speed,
            server_turns=turns is not None,
            auto_respond=self.answers,
            interruptible=turns is not None and turns.interrupt,
            floor_ms=turns.silence_ms if turns is not None else None,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            speak=self.modality == "audio",
            idle_ms=turns.idle_ms if turns is not None and realtime else None,
            languages=self.languages,
            hotwords=hotwords_of(self.prompt, *self.keywords),
            echo_cancelled=bool(self.echo_cancelled),
            pauses=bool(self.pauses),
            tools=self.tools,
            tool_choice=self.tool_choice,
        )

    def wire(self) -> dict[str, Any]:
        """The session object of the protocol."""
        session: dict[str, Any] = {
            "type": self.kind,
            "object": f"realtime.{'transcription_' * (self.kind != 'realtime')}session",
            "id": self.id,
            "audio": {"input": self._input()},
        }
        if self.kind == "transcription":
            return session
        session["audio"]["output"] = {
            "format": self.says.wire(),
            "voice": self.shown_voice,
            "speed": 1.0 if self.speed is None else self.speed,
        }
        session |= {
            "model": self.model,
            "output_modalities": [self.modality],
            "instructions": self.instructions or "",
            "tools": show_tools(self.tools),
            "tool_choice": show_choice(self.tool_choice),
            "max_output_tokens": self.shown_limit,
        }
        if self.temperature is not None:
            session["temperature"] = self.temperature
        traits = {"echo_cancelled": self.echo_cancelled, "pauses": self.pauses}
        told = {name: value for name, value in traits.items() if value is not None}
        return {**session, "duplexd": told} if told else session

    @property
    def shown_voice(self) -> str:
        """The voice that speaks."""
        return self.voice or self.default_voice

    @property
    def shown_limit(self) -> int | str:
        """The bound of an answer, tokens."""
        return self.max_tokens or "inf"

    def _input(self) -> dict[str, Any]:
        transcription: dict[str, Any] | None = None
        if self.transcribes:
            transcription = {"model": "duplexd"}
            if self.languages is not None and len(self.languages) == 1:
                transcription["language"] = self.languages[0]
            elif self.languages is not None:
                transcription["languages"] = list(self.languages)
            if self.prompt:
                transcription["prompt"] = self.prompt
            if self.keywords:
                transcription["keywords"] = list(self.keywords)
        realtime = self.kind == "realtime"
        return {
            "format": self.hears.wire(),
            "transcription": transcription,
            "noise_reduction": None,
            "turn_detection": self.turns.wire(answers=realtime) if self.turns else None,
        }


def _changes(patch: RealtimePatch) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "instructions": patch.instructions,
        "temperature": patch.temperature,
        "modality": patch.output_modalities[0] if patch.output_modalities else None,
        "tool_choice": patch.tool_choice,
    }
    if patch.duplexd is not None:
        changes["echo_cancelled"] = patch.duplexd.echo_cancelled
        changes["pauses"] = patch.duplexd.pauses
    if patch.tools is not None:
        changes["tools"] = tuple(tool.tool() for tool in patch.tools)
    changes = {name: value for name, value in changes.items() if value is not None}
    if patch.max_output_tokens is not None:
        changes["max_tokens"] = token_limit(patch.max_output_tokens)
    return changes


def _input_changes(given: AudioInput) -> dict[str, Any]:
    """Null means something for two of these, so that it cannot stand for "unchanged"."""
    changes: dict[str, Any] = {}
    if given.format is not None:
        changes["hears"] = given.format.format()
    if "turn_detection" in given.model_fields_set:
        vad = given.turn_detection
        changes["turns"] = Turns.of(vad) if vad is not None else None
    if "transcription" in given.model_fields_set:
        changes["transcribes"] = given.transcription is not None
        changes["languages"] = _languages(given.transcription)
        changes["prompt"] = (given.transcription and given.transcription.prompt) or ""
        changes["keywords"] = tuple((given.transcription and given.transcription.keywords) or ())
    return changes


def _languages(given: Transcription | None) -> tuple[str, ...] | None:
    """The languages of BCP 47 tags; None: those of the configuration."""
    tags = [*(given.languages or ()), given.language] if given else []
    languages = (tag.replace("_", "-").split("-")[0].lower() for tag in tags if tag)
    return tuple(dict.fromkeys(languages)) or None


def _output_changes(given: AudioOutput) -> dict[str, Any]:
    changes = {
        "voice": given.voice,
        "speed": given.speed,
        "says": given.format.format() if given.format else None,
    }
    return {name: value for name, value in changes.items() if value is not None}
