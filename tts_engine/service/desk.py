# pyright: strict
"""What all ways to have a text spoken share: the engine, its bounds, and the accounts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from tts_engine.engine import SpeechEngine
from tts_engine.errors import BadRequest, UnknownVoice
from tts_engine.service.api_errors import ApiError
from tts_engine.service.feed import TextFeed, TextTooLong
from tts_engine.service.front import Accounts, Front
from tts_engine.service.places import Places
from tts_engine.service.speaker import Speaker
from tts_engine.service.words import TextCheck, allow_all

#: done: to the last byte; refused: never begun; failed: the engine; gone: the client left;
#: stalled: the client took nothing for too long; cancelled: by the client, on its socket
SpeechOutcome = Literal["done", "refused", "failed", "gone", "stalled", "cancelled"]


class SpeechAccounts(Accounts, Protocol):
    """Where texts that are spoken are counted."""

    def speech(self, outcome: SpeechOutcome) -> None:
        """A request is over."""
        ...

    def speech_began(self, first_byte_s: float) -> None:
        """Its first audio was handed to the socket, so long after the request was there."""
        ...

    def speech_ended(self, *, chars: int, audio_s: float, took_s: float) -> None:
        """A text was spoken to its end: so long a text, so much audio, in so much time."""
        ...


class SpeechDesk(Front):
    """Has texts spoken; one for all routes of a process.

    Parameters:
        engine: the voice.
        accounts: counts requests.
        ready: whether the engine is warm, and takes jobs now.
        voices: its voices, the default first; asked each time, as they may be registered.
        check: raises what must not be said.
        speed: where a request names none.
        parallel: texts that are spoken at a time.
        jobs: their clauses that are in the engine at a time.
        ahead_s: speech made ahead of what the client has taken, seconds; a clause is finished.
        chunk_timeout_s: limit for the engine's next piece.
        stall_s: a client that takes nothing for so long is cut.
        log_texts: the log shows texts; otherwise their length, and a hash that tells them apart.
    """

    def __init__(
        self,
        *,
        engine: SpeechEngine,
        accounts: SpeechAccounts,
        ready: Callable[[], bool],
        voices: Callable[[], Sequence[str]],
        check: TextCheck = allow_all,
        speed: float = 1.0,
        parallel: int = 4,
        jobs: int = 1,
        ahead_s: float = 10.0,
        chunk_timeout_s: float = 20.0,
        stall_s: float = 30.0,
        log_texts: bool = False,
    ) -> None:
        super().__init__(ready=ready, accounts=accounts)
        self.engine = engine
        self.accounts = accounts
        self.check = check
        self.speed = speed
        self.stall_s = stall_s
        self.log_texts = log_texts
        self.places = Places(
            parallel,
            what="texts are being spoken",
            mend="Try again later, or raise speech.parallel",
        )
        self.speaker = Speaker(
            engine=engine, ahead_s=ahead_s, chunk_timeout_s=chunk_timeout_s, jobs=jobs
        )
        self._voices = voices

    def accept(self, text: str, *, most: int) -> None:
        """Raises ApiError or BlockedText if a text is not one to be spoken.

        Args:
            text: the whole of it.
            most: characters that it may have.
        """
        if not text.strip():
            failure = BadRequest("The text is empty")
            raise ApiError(failure, 400, param="text", code="invalid_value")
        if len(text) > most:
            raise ApiError(TextTooLong(most), 400, param="text")
        self.check(text)

    @property
    def voices(self) -> tuple[str, ...]:
        """The voices, the default first."""
        return tuple(self._voices())

    def voice(self, name: str | None) -> str:
        """The voice of that name; None: the default.

        Raises:
            UnknownVoice: there is none.
        """
        voices = self.voices
        if not voices:
            raise UnknownVoice("There is no voice yet", mend="Register one")
        if name is None:
            return voices[0]
        if name not in voices:
            raise UnknownVoice(f"There is no voice {name!r}", mend="See the list of voices")
        return name

    def trace(self, feed: TextFeed) -> str:
        """How the log calls a text."""
        shown = f": {feed.text!r}" if self.log_texts else ""
        return f"text {feed.digest} ({feed.chars} characters{shown})"
