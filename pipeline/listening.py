"""What is said: asks the recogniser, and the acoustic model if there is one, when the core does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from pipeline.answers import Accounts
from pipeline.ear import Ear
from pipeline.latency import TurnReport
from pipeline.turns.events import Event, FinalFailed, FinalText, TurnProbability
from services.turn_end.base import TurnEndEngine
from tts_engine.errors import DuplexdError, EngineFailed

#: how long before a voice what is played may come back as its echo
_BEFORE_MS = 1500.0


class Listening:
    """Asks one question at a time: a new one withdraws the last.

    Args:
        session: the conversation's id.
        ear: of the conversation.
        turn_end: says by the sound whether the user has finished; None: nobody does.
        audible: the words that were audible in the last so many milliseconds of playing.
        accounts: where failures are counted.
        on_event: is told the replies.

    Attributes:
        error: why recognition failed last.
        emotion: how that was said which was recognised last; empty where nobody knows.
    """

    def __init__(
        self,
        *,
        session: str,
        ear: Ear,
        turn_end: TurnEndEngine | None,
        audible: Callable[[float], str],
        accounts: Accounts,
        on_event: Callable[[Event], None],
    ) -> None:
        self._session = session
        self._ear = ear
        self._turn_end = turn_end
        self._audible = audible
        self._accounts = accounts
        self._on_event = on_event
        self._asking: tuple[asyncio.Task[None], ...] = ()
        self._stamps: dict[str, float] = {}
        self._compute_s = 0.0
        self.error: DuplexdError | None = None
        self.emotion = ""

    def ask(self, request: int) -> None:
        """Asks what the turn holds as far as it was heard; `FinalText` or `FinalFailed` follows."""
        self.withdraw()
        self._ear.note_speech_end()
        recognising = asyncio.create_task(self._recognise(request, time.monotonic()))
        if self._turn_end is None:
            self._asking = (recognising,)
        else:
            judging = asyncio.create_task(self._judge(request, self._turn_end))
            self._asking = (recognising, judging)

    def withdraw(self) -> None:
        """The reply is not wanted any more."""
        asking, self._asking = self._asking, ()
        pending = [task for task in asking if not task.done()]
        for task in pending:
            task.cancel()
        if pending:
            self._ear.recogniser.cancel()

    def audible(self) -> str:
        """What an echo in what is listened to would consist of."""
        return self._audible(self._ear.open_ms + _BEFORE_MS)

    def stamp(self, report: TurnReport) -> None:
        """Notes how long the text took that was recognised last."""
        for name, at in self._stamps.items():
            report.mark(name, at)
        report.work_ms["asr_decode"] = self._compute_s * 1e3

    async def _recognise(self, request: int, asked: float) -> None:
        audible = self.audible()
        try:
            transcript = await self._ear.recogniser.finalise()
        except DuplexdError as error:
            self._fail(request, error)
        except Exception as error:  # an engine's fault must not end the conversation
            self._fail(request, EngineFailed(f"Recognition failed: {error!r}"))
        else:
            self._stamps = {"asked": asked, "final": time.monotonic()}
            self._compute_s = transcript.compute_s
            self.emotion = transcript.emotion
            text = transcript.text.strip()  # as the context will have it
            laughter = "laughter" in transcript.events
            self._on_event(
                FinalText(request, text, transcript.language, audible, laughter=laughter)
            )

    def _fail(self, request: int, error: DuplexdError) -> None:
        self._accounts.error(self._session, error)
        self.error = error
        self._on_event(FinalFailed(request))

    async def _judge(self, request: int, engine: TurnEndEngine) -> None:
        probability = await engine.probability(self._ear.turn_audio(), session=self._session)
        if probability is not None:
            self._on_event(TurnProbability(request, probability))
