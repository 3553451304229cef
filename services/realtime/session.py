# pyright: strict
"""The effective session: what the client chose, over the daemon's configuration."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from services.face import SessionOptions
from services.realtime.events import (
    AudioConfig,
    Modality,
    ServerVad,
    SessionPatch,
    not_supported,
)

_PCM = {"type": "audio/pcm", "rate": 24_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Turn detection by the daemon.

    Parameters:
        silence_ms: silence that ends a turn; None: the daemon's configuration.
        respond: answer when a turn ends.
        interrupt: speech during an answer interrupts it.
    """

    silence_ms: int | None = None
    respond: bool = True
    interrupt: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Session state; None where the client left the daemon's configuration.

    Parameters:
        id: the conversation's id.
        model: what the client called the model in the address; shown back, without effect.
        default_voice: the voice that speaks when none was chosen.
        turns: None: the client commits turns itself.
    """

    id: str
    model: str = ""
    default_voice: str = ""
    voice: str | None = None
    instructions: str | None = None
    modality: Modality = "audio"
    speed: float | None = None
    turns: Turns | None = field(default_factory=Turns)
    max_tokens: int | None = None
    temperature: float | None = None

    def patched(self, patch: SessionPatch) -> Session:
        """The session after a session.update.

        Raises:
            Refused: the update asks for something that is not supported.
        """
        if patch.tools:
            raise not_supported("Calling tools of the client", param="session.tools")
        if patch.tool_choice not in (None, "auto", "none"):
            raise not_supported("Choosing a tool", param="session.tool_choice")
        changes: dict[str, Any] = {
            "instructions": patch.instructions,
            "temperature": patch.temperature,
            "modality": patch.output_modalities[0] if patch.output_modalities else None,
        }
        if patch.audio is not None:
            changes |= _audio_changes(patch.audio)
        session = replace(self, **{k: v for k, v in changes.items() if v is not None})
        # null means something for these two, so that it cannot stand for "unchanged"
        if patch.max_output_tokens is not None:
            limit = patch.max_output_tokens
            session = replace(session, max_tokens=None if limit == "inf" else limit)
        if _mentions_turns(patch):
            session = replace(session, turns=_turns(patch))
        return session

    def options(self) -> SessionOptions:
        """The same for the conversation."""
        turns = self.turns
        return SessionOptions(
            instructions=self.instructions,
            voice=self.voice,
            speed=self.speed,
            server_turns=turns is not None,
            auto_respond=turns is not None and turns.respond,
            interruptible=turns is not None and turns.interrupt,
            floor_ms=turns.silence_ms if turns is not None else None,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            speak=self.modality == "audio",
        )

    def wire(self) -> dict[str, Any]:
        """The session object of the protocol."""
        session: dict[str, Any] = {
            "type": "realtime",
            "object": "realtime.session",
            "id": self.id,
            "model": self.model,
            "output_modalities": [self.modality],
            "instructions": self.instructions,
            "tools": [],
            "tool_choice": "auto",
            "max_output_tokens": self.max_tokens or "inf",
            "audio": {
                "input": {
                    "format": _PCM,
                    "transcription": {"model": "duplexd"},
                    "noise_reduction": None,
                    "turn_detection": self._turn_detection(),
                },
                "output": {
                    "format": _PCM,
                    "voice": self.voice or self.default_voice,
                    "speed": 1.0 if self.speed is None else self.speed,
                },
            },
        }
        if self.temperature is not None:
            session["temperature"] = self.temperature
        return session

    def _turn_detection(self) -> dict[str, Any] | None:
        if self.turns is None:
            return None
        shown: dict[str, Any] = {
            "type": "server_vad",
            "create_response": self.turns.respond,
            "interrupt_response": self.turns.interrupt,
        }
        if self.turns.silence_ms is not None:
            shown["silence_duration_ms"] = self.turns.silence_ms
        return shown


def _audio_changes(audio: AudioConfig) -> dict[str, Any]:
    if audio.output is None:
        return {}
    return {"voice": audio.output.voice, "speed": audio.output.speed}


def _mentions_turns(patch: SessionPatch) -> bool:
    return (
        patch.audio is not None
        and patch.audio.input is not None
        and "turn_detection" in patch.audio.input.model_fields_set
    )


def _turns(patch: SessionPatch) -> Turns | None:
    vad: ServerVad | None = (
        patch.audio.input.turn_detection if patch.audio and patch.audio.input else None
    )
    if vad is None:
        return None
    return Turns(
        silence_ms=vad.silence_duration_ms,
        respond=vad.create_response is not False,
        interrupt=vad.interrupt_response is not False,
    )
