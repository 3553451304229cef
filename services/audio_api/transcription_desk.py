"""What all requests to transcribe share: the engine, its bounds, and the accounts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from services.asr.one_shot import Transcriber
from tts_engine.service.front import Accounts, Front
from tts_engine.service.places import Places

#: requests for each recording that is being transcribed
_PLACES = 4
#: done: to the last byte; refused: a bad request or file, or no place; failed: the engine;
#: gone: the client left
TranscriptionOutcome = Literal["done", "refused", "failed", "gone"]


class TranscriptionAccounts(Accounts, Protocol):
    """Where recordings that are transcribed are counted."""

    def transcription(self, outcome: TranscriptionOutcome) -> None:
        """A request is over."""
        ...

    def transcribed(self, *, audio_s: float, took_s: float) -> None:
        """A recording of that length was transcribed to its end, in that time."""
        ...


class TranscriptionDesk(Front):
    """Has recordings transcribed.

    Parameters:
        transcriber: does it.
        accounts: counts requests.
        ready: whether the engines are warm.
        languages: that the recogniser may recognise.
        parallel: recordings that are transcribed at a time; others that are there wait.
        max_upload: bytes of one.
    """

    def __init__(
        self,
        *,
        transcriber: Transcriber,
        accounts: TranscriptionAccounts,
        ready: Callable[[], bool],
        languages: Sequence[str],
        parallel: int,
        max_upload: int,
    ) -> None:
        super().__init__(ready=ready, accounts=accounts)
        self.transcriber = transcriber
        self.accounts = accounts
        self.languages = tuple(languages)
        self.max_upload = max_upload
        #: of requests, from their first byte to the last of the answer: who uploads slowly takes
        #: nothing from those whose recordings are there
        self.places = Places(
            _PLACES * parallel,
            what="recordings are being received or transcribed",
            mend="Try again later, or raise transcription.parallel",
        )
        self.turns = asyncio.Semaphore(parallel)
