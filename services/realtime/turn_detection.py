# pyright: strict
"""Turn detection by the daemon, as a session has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from services.realtime.schema_session import Eagerness, SemanticVad, ServerVad

#: silence that ends a turn, milliseconds, by eagerness; None: the daemon's configuration. The
#: daemon waits by silence in both kinds of detection, so that eagerness is another name of it.
SILENCE_MS: dict[Eagerness, int | None] = {"high": 200, "medium": 500, "low": 1000, "auto": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """How turns are detected.

    Parameters:
        silence_ms: silence that ends a turn; None: the daemon's configuration.
        eagerness: with semantic_vad: what the client called the silence.
        respond: answer when a turn ends.
        interrupt: speech during an answer interrupts it.
        idle_ms: silence after which the daemon speaks by itself.
    """

    silence_ms: int | None = None
    eagerness: Eagerness | None = None
    respond: bool = True
    interrupt: bool = True
    idle_ms: int | None = None

    @classmethod
    def of(cls, vad: ServerVad | SemanticVad) -> Turns:
        """What a client asks for; it replaces what was."""
        respond = vad.create_response is not False
        interrupt = vad.interrupt_response is not False
        if isinstance(vad, ServerVad):
            return cls(
                silence_ms=vad.silence_duration_ms,
                respond=respond,
                interrupt=interrupt,
                idle_ms=vad.idle_timeout_ms,
            )
        eagerness = vad.eagerness or "auto"
        return cls(
            silence_ms=SILENCE_MS[eagerness],
            eagerness=eagerness,
            respond=respond,
            interrupt=interrupt,
        )

    def wire(self, *, answers: bool) -> dict[str, Any]:
        """The protocol's form.

        Args:
            answers: the session answers, and shows whether and when.
        """
        shown: dict[str, Any]
        if self.eagerness is not None:
            shown = {"type": "semantic_vad", "eagerness": self.eagerness}
        else:
            shown = {"type": "server_vad"}
            if self.silence_ms is not None:
                shown["silence_duration_ms"] = self.silence_ms
            if answers and self.idle_ms is not None:
                shown["idle_timeout_ms"] = self.idle_ms
        if answers:
            shown |= {"create_response": self.respond, "interrupt_response": self.interrupt}
        return shown
