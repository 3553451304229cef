"""A recogniser that knows beforehand what will be said, and reveals it as it is spoken.

It keeps no audio: it counts the voice that was fed, 10 ms frames above -45 dBFS, the energy rule
of every measurement here, or reads the marks of speech that was marked. A turn lasts until `reset`,
and counts if it held enough voice to give a text: a reset without voice repeats the turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping

import numpy as np

from services.asr.base import SAMPLE_RATE, AsrEngine, OnPartial, Recogniser, Samples, Transcript
from services.language import language_of
from services.scripted.due import Due
from services.scripted.marks import MarkedSpeech
from services.scripted.spec import ScriptedTexts
from tts_engine.engine import EngineStats
from tts_engine.errors import AtCapacity, BadRequest, DuplexdError, EngineFailed, TimedOut

#: samples of a 10 ms frame
_FRAME = SAMPLE_RATE // 100
#: mean square above which a frame counts as voice: -45 dBFS RMS
_THRESHOLD = 10 ** (-45 / 10)
#: voice below which nothing was said, seconds
_LEAST_VOICE_S = 0.1
#: share of the text from which on all of it is given: people never speak at exactly the pace
_NEARLY_ALL = 0.9

_FAILURES: dict[str, type[DuplexdError]] = {
    failure.code: failure for failure in (AtCapacity, TimedOut, EngineFailed)
}


class ScriptedAsr(AsrEngine):
    """Recognises the scripted texts, whatever is said, after a set delay.

    Args:
        delay_s: seconds from `finalise` (and from a partial's audio) to the text.
        texts: what is said, by turn.
        whole_text: True: the text is there as a whole from 100 ms of voice on, and empty before.
            False: as much of it as was spoken at `texts.chars_per_second`.
        marked: the sound says what is being said, see `services.scripted.marks`, `texts` by the
            number of the clip: it is exact at every pause, and there is no text in what has no
            marks. `whole_text` and the pace of the speaker have no effect then.
        partial_every_s: seconds of audio between partials, which always grow with the voice; None
            for no partials.
        fail_turns: failures of `finalise` by turn, counted from 1: "engine_failed", "timed_out" or
            "at_capacity".
        hang_turns: turns in which `finalise` never returns.
        emotions: how the turns are said, by turn.
        events: what is heard in them beside words, by turn.

    Raises:
        BadRequest: `fail_turns` names an unknown failure.
    """

    def __init__(
        self,
        *,
        delay_s: float = 0.0,
        texts: ScriptedTexts | None = None,
        whole_text: bool = True,
        marked: bool = False,
        partial_every_s: float | None = None,
        fail_turns: Mapping[int, str] | None = None,
        hang_turns: Collection[int] = (),
        emotions: Mapping[int, str] | None = None,
        events: Mapping[int, tuple[str, ...]] | None = None,
    ) -> None:
        self.stats = EngineStats()
        self.delay_s = delay_s
        self.texts = texts or ScriptedTexts()
        self.whole_text = whole_text
        self.marked = marked
        self.partial_every_s = partial_every_s
        self.hang_turns = frozenset(hang_turns)
        self.emotions = dict(emotions or {})
        self.events = dict(events or {})
        self.fail_turns: dict[int, type[DuplexdError]] = {}
        for turn, code in (fail_turns or {}).items():
            if code not in _FAILURES:
                raise BadRequest(
                    f"a scripted recogniser cannot fail with {code!r}",
                    mend=f"Choose one of {', '.join(_FAILURES)}",
                )
            self.fail_turns[turn] = _FAILURES[code]
        self._open: set[ScriptedRecogniser] = set()

    async def start(self) -> None:
        """Nothing to load."""

    def open(self, *, session: str, on_partial: OnPartial | None = None) -> ScriptedRecogniser:
        """Opens a handle; its turns start at 1."""
        recogniser = ScriptedRecogniser(self, session, on_partial)
        self._open.add(recogniser)
        return recogniser

    async def close(self) -> None:
        """Withdraws everything in flight. Idempotent."""
        for recogniser in tuple(self._open):
            recogniser.close()

    def forget(self, recogniser: ScriptedRecogniser) -> None:
        """Called by a handle that is closed."""
        self._open.discard(recogniser)


class ScriptedRecogniser(Recogniser):
    """One conversation's handle; see `ScriptedAsr`.

    Attributes:
        turn: the turn being spoken, from 1.
        languages: what `restrict` was last told; a text's language is that of its script all the
            same.
    """

    def __init__(self, engine: ScriptedAsr, session: str, on_partial: OnPartial | None) -> None:
        self.turn = 1
        self.languages: tuple[str, ...] | None = None
        self.hotwords: tuple[str, ...] = ()
        self._engine = engine
        self._session = session
        self._on_partial = on_partial
        self._due = Due()
        self._timers: list[asyncio.TimerHandle] = []
        self._marked: MarkedSpeech | None = None
        if engine.marked:
            texts = engine.texts
            self._marked = MarkedSpeech(lambda clip: texts.transcript(session=session, turn=clip))
        self._forget_audio()

    def _forget_audio(self) -> None:
        self._rest = np.zeros(0, np.float32)
        self._fed = 0
        self._voiced = 0
        self._partial = ""
        self._next_partial = 0
        if self._marked is not None:
            self._marked.clear()

    @property
    def voiced_s(self) -> float:
        """Seconds of voice fed in this turn."""
        return self._voiced * _FRAME / SAMPLE_RATE

    @property
    def _fed_s(self) -> float:
        return self._fed / SAMPLE_RATE

    def _spoken(self) -> str:
        """The words that the voice so far amounts to."""
        if self._marked is not None:
            return self._marked.text
        text = self._engine.texts.transcript(session=self._session, turn=self.turn)
        count = round(self.voiced_s * self._engine.texts.chars_per_second)
        return text if count >= _NEARLY_ALL * len(text) else text[:count]

    def _transcript(self, text: str, *, final: bool) -> Transcript:
        return Transcript(
            text=text,
            language=language_of(text),
            final=final,
            audio_s=self._fed_s,
            compute_s=self._engine.delay_s,
            emotion=self._engine.emotions.get(self.turn, "") if final else "",
            events=self._engine.events.get(self.turn, ()) if final else (),
        )

    def _text(self) -> str:
        if self._marked is None and self._engine.whole_text:
            text = self._engine.texts.transcript(session=self._session, turn=self.turn)
        else:
            text = self._spoken()
        return text if self._was_voice else ""

    @property
    def _was_voice(self) -> bool:
        if self._marked is not None:
            return bool(self._marked.text)
        return self.voiced_s >= _LEAST_VOICE_S

    def feed(self, samples: Samples) -> None:
        """Listens to the block."""
        self._fed += len(samples)
        if self._marked is not None:
            self._marked.feed(samples)
        else:
            self._count(samples)
        if self._engine.partial_every_s is not None and self._on_partial is not None:
            every = round(self._engine.partial_every_s * SAMPLE_RATE)
            if self._fed >= max(self._next_partial, every):
                self._next_partial = (self._fed // every + 1) * every
                self._plan_partial(self._on_partial)

    def _count(self, samples: Samples) -> None:
        block = np.concatenate((self._rest, samples)) if len(self._rest) else samples
        count = len(block) // _FRAME
        # a copy: the caller may fill its block again
        self._rest = block[count * _FRAME :].copy()
        if count:
            frames = block[: count * _FRAME].reshape(count, _FRAME)
            power = np.einsum("ij,ij->i", frames, frames) / _FRAME
            self._voiced += int(np.count_nonzero(power > _THRESHOLD))

    def _plan_partial(self, on_partial: OnPartial) -> None:
        text = self._spoken()
        if text == self._partial:
            return
        self._partial = text
        loop = asyncio.get_running_loop()
        # those that have fired need no cancelling any more
        self._timers = [timer for timer in self._timers if timer.when() > loop.time()]
        partial = self._transcript(text, final=False)
        self._timers.append(loop.call_later(self._engine.delay_s, on_partial, partial))

    async def finalise(self) -> Transcript:
        """The text as far as it was spoken, `delay_s` from now."""
        engine = self._engine
        result = self._transcript(self._text(), final=True)
        failure = engine.fail_turns.get(self.turn)
        due = time.monotonic() + engine.delay_s
        if self.turn in engine.hang_turns:
            due = float("inf")
        engine.stats.depth += 1
        try:
            await self._due.until(due)
        finally:
            engine.stats.depth -= 1
        if failure is not None:
            engine.stats.errors[failure.code] = engine.stats.errors.get(failure.code, 0) + 1
            raise failure(f"the scripted recogniser fails in turn {self.turn}")
        engine.stats.jobs += 1
        return result

    def restrict(self, languages: tuple[str, ...] | None) -> None:
        """Remembers the languages: the texts are known beforehand."""
        self.languages = languages

    def hint(self, words: tuple[str, ...]) -> None:
        """Remembers the words."""
        self.hotwords = words

    def cancel(self) -> None:
        """Withdraws calls of `finalise` and partials in flight."""
        self._due.withdraw()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def reset(self) -> None:
        """Forgets the turn; the next one has the next text if this one held a voice."""
        self.cancel()
        if self._was_voice:
            self.turn += 1
        self._forget_audio()

    def close(self) -> None:
        """Ends the handle. Idempotent."""
        self.cancel()
        self._engine.forget(self)
