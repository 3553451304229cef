"""A conversation with a turn core, window by window."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipeline.turns.actions import Action, Finalise
from pipeline.turns.core import step
from pipeline.turns.events import (
    Event,
    FinalText,
    PlaybackStarted,
    RespondRequested,
    Window,
)
from pipeline.turns.settings import WINDOW_MS, TurnSettings
from pipeline.turns.state import TurnState

#: levels of a quiet room, and of somebody who speaks in it, decibels of full scale
QUIET_DB, VOICE_DB = -70.0, -20.0
#: an ask that no test uses for anything else
ASK = 1000


class Talk:
    """Steps a core through windows and remembers what it did."""

    def __init__(self, **settings: Any) -> None:
        self.state = TurnState(settings=TurnSettings(**settings))
        self.actions: list[Action] = []
        self.at = 0.0

    def tell(self, event: Event) -> list[Action]:
        self.state, actions = step(self.state, event)
        self.actions += actions
        return list(actions)

    def configure(self, **settings: Any) -> None:
        self.state = replace(self.state, settings=replace(self.state.settings, **settings))

    def voice(self, windows: int = 10, *, level_db: float = VOICE_DB) -> list[Action]:
        return self._windows(windows, 1.0, level_db)

    def silence(self, windows: int) -> list[Action]:
        return self._windows(windows, 0.0, QUIET_DB)

    def hears(self, text: str, *, audible: str = "", request: int | None = None) -> list[Action]:
        """The recogniser answers the last question, or an older one."""
        number = self.state.request if request is None else request
        return self.tell(FinalText(number, text, "zh" if text > "z" else "en", audible))

    def asks(self) -> list[Action]:
        """Silence until the recogniser is asked, which happens after 128 ms."""
        done = self.silence(4)
        assert isinstance(done[-1], Finalise)
        return done

    def says(self, text: str, **reply: Any) -> list[Action]:
        """A turn: voice, the silence that asks for its text, the text; and the rest of the floor.

        Returns what the last of these did.
        """
        self.voice()
        self.asks()
        self.hears(text, **reply)
        return self.silence(3)

    def answers(self) -> None:
        """An answer plays."""
        self.tell(RespondRequested(ASK))
        self.tell(PlaybackStarted())

    def _windows(self, count: int, probability: float, level_db: float) -> list[Action]:
        done: list[Action] = []
        for _ in range(count):
            self.at += WINDOW_MS
            done += self.tell(Window(self.at, probability, level_db))
        return done
