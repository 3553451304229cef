"""One client of `bench bargein`: it asks, listens, and makes its sounds while an answer plays."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.bench.bargein_signs import Signs, noticed, told
from pipeline.bench.bargein_sounds import BargeSound
from pipeline.bench.client import PacedClient, conversation
from pipeline.bench.faces import Face
from pipeline.bench.rig import Server
from pipeline.bench.speech import Clip
from pipeline.bench.wire import News, RealtimeWire, Wire
from pipeline.talk.stereo import RATE
from tts_engine.errors import EngineFailed

#: from a question to the first sound of its answer, seconds
_ANSWER_S = 20.0
#: from the end of a sound to what becomes of it, seconds
_VERDICT_S = 3.0
#: how long an answer plays before a sound, seconds
_BEFORE_S = (0.8, 2.4)
#: what is left of an answer when a sound is made over it, seconds
_LEFT_S = 4.0
#: sounds in one conversation: what it records is looked through at every pause
_SOUNDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What every client of a bench does.

    Parameters:
        server: whom they talk to.
        face: how.
        answer_s: by the answer's first character, how long it plays.
    """

    server: Server
    face: Face
    answer_s: dict[str, float]

    def whole_s(self, answer: Heard) -> float:
        """How long an answer is, if nobody interrupts it; 0 where that is not known."""
        return self.answer_s.get(answer.text[:1], 0.0)


@dataclass(slots=True, kw_only=True, eq=False)
class Heard:
    """An answer as the client got it.

    Parameters:
        name: as the server calls it.
        text: all that was told of it.
        sent: its samples in the order of the wire.
        pieces: when the loudspeaker played something of it, (start, end) in monotonic seconds.
        status: how it ended; empty: not seen.
    """

    name: str
    text: str
    sent: NDArray[np.int16]
    pieces: list[tuple[float, float]]
    status: str


@dataclass(slots=True, kw_only=True, eq=False)
class Trial:
    """A sound that was made over an answer, and what became of it. Times are monotonic seconds.

    Parameters:
        sound: what was made.
        honours: the client falls silent at a pause.
        tag: names the conversation in the requests to the language model.
        answer: what it was made over; its pieces as they were when the conversation was over.
        onset, end: the first voiced sample and just past the last one.
        signs: what the client learned of it.
    """

    sound: BargeSound
    honours: bool
    tag: str
    answer: Heard
    onset: float
    end: float
    signs: Signs = field(default_factory=Signs)


class Caller:
    """Makes its share of the sounds, in conversations one after the other.

    Args:
        script: what all callers do.
        questions: what it asks.
        sounds: shared by the callers of a kind; each takes the next one.
        honours: falls silent at a pause, and cancels echoes, as the talk page does; False: is a
            client that knows neither, as a device.
        name: names the conversations: letters, digits, `-`.
        advance: called after every sound.
    """

    def __init__(
        self,
        *,
        script: Script,
        questions: Sequence[Clip],
        sounds: deque[BargeSound],
        honours: bool,
        name: str,
        advance: Callable[[], None],
    ) -> None:
        self._script = script
        self._questions = questions
        self._sounds = sounds
        self._honours = honours
        self._name = name
        self._advance = advance
        self._random = random.Random(name)
        self._conversations = 0
        self.trials: list[Trial] = []

    async def run(self) -> None:
        """Until no sounds are left.

        Raises:
            EngineFailed: a question was not answered, or the daemon hung up.
        """
        while self._sounds:
            self._conversations += 1
            face = self._script.face
            tag, wire = self._wire()
            async with conversation(
                face.endpoint(self._script.server, self._name),
                wire,
                frame_ms=face.frame_ms,
                honours_pauses=self._honours,
            ) as client:
                talk = _Talk(client, self._script, self._questions, self._random)
                trials = await self._converse(talk, tag)
                # The last answer is heard to its end: only then all of it can be compared.
                await talk.until_over()
            talk.settle()
            self.trials += trials

    def _wire(self) -> tuple[str, Wire]:
        """A conversation's protocol, and what names it in the requests to the language model."""
        if self._script.face.name == "xiaozhi":  # a device has no instructions of its own
            return tag_of(self._name), self._script.face.wire()
        tag = tag_of(f"{self._name}-{self._conversations}")
        wire = RealtimeWire(
            pauses=self._honours, echo_cancelled=self._honours, session={"instructions": tag}
        )
        return tag, wire

    async def _converse(self, talk: _Talk, tag: str) -> list[Trial]:
        trials: list[Trial] = []
        while self._sounds and len(trials) < _SOUNDS:
            sound = self._sounds.popleft()
            trial = await self._try(talk, sound, tag)
            while trial is None:  # the answer was over before the sound was
                trial = await self._try(talk, sound, tag)
            trials.append(trial)
            self._advance()
        return trials

    async def _try(self, talk: _Talk, sound: BargeSound, tag: str) -> Trial | None:
        answer = await talk.playing()
        await asyncio.sleep(self._random.uniform(*_BEFORE_S))
        if talk.over(answer):  # an earlier sound may still have ended it
            return None
        trial, first = talk.make(sound, answer, honours=self._honours, tag=tag)
        await talk.verdict(trial, first)
        opened = trial.signs.opened
        if opened:
            await talk.next_answer(answer)
        return trial if opened or not talk.over(answer) else None


def tag_of(name: str) -> str:
    """What names a conversation in the requests to the language model."""
    return f"[{name}]"


class _Talk:
    """A conversation as its client follows it."""

    def __init__(
        self,
        client: PacedClient,
        script: Script,
        questions: Sequence[Clip],
        chance: random.Random,
    ) -> None:
        self._client = client
        self._script = script
        self._questions = questions
        self._chance = chance
        #: answers by name, in the order of their beginning
        self.heard: dict[str, Heard] = {}
        self._read = 0  # news that are in `heard`
        self._audio: dict[str, list[NDArray[np.int16]]] = {}
        self._samples = 0  # of the last answer

    def _news(self) -> list[News]:
        """Takes in what is new, and gives all."""
        news = self._client.news
        for each in news[self._read :]:
            self._take(each)
        self._read = len(news)
        return news

    def _take(self, news: News) -> None:
        match news.kind:
            case "answer":
                self.heard[news.answer] = Heard(
                    name=news.answer, text="", sent=np.zeros(0, np.int16), pieces=[], status=""
                )
                self._audio[news.answer] = []
                self._samples = 0
            case "text":
                self.heard[news.answer].text += news.text
            case "audio":
                assert news.samples is not None
                self._audio[news.answer].append(news.samples)
                self._samples += len(news.samples)
            case "done":
                self.heard[news.answer].status = news.text
            case _:
                pass

    def _now(self) -> Heard | None:
        """The answer that is being sent."""
        self._news()
        last = next(reversed(self.heard.values()), None)
        return last if last is not None and not last.status else None

    def over(self, answer: Heard) -> bool:
        """The server has said how it ended."""
        self._news()
        return bool(answer.status)

    def _sounding(self) -> Heard | None:
        """An answer of which something was heard, and enough is left."""
        answer = self._now()
        if answer is None or not answer.text or not self._samples:
            return None
        left_s = self._script.whole_s(answer) - self._samples / RATE
        return answer if left_s > _LEFT_S else None

    async def playing(self) -> Heard:
        """The answer that plays, after a question if there is none with enough left."""
        if self._now() is not None:
            # One that is about to begin is waited for, one that is about to end as well.
            await self._client.until(
                lambda: self._now() is None or self._sounding() is not None, timeout_s=_ANSWER_S
            )
        while (answer := self._sounding()) is None:
            question = self._chance.choice(self._questions)
            self._client.say(self._client.sound(question.samples))
            if not await self._client.until(
                lambda: self._sounding() is not None, timeout_s=_ANSWER_S
            ):
                raise EngineFailed(
                    f"The question {question.text!r} was not answered", mend="Look into its log"
                )
        return answer

    async def next_answer(self, answer: Heard) -> None:
        """Until the answer to an interruption begins; of one without words there is none."""

        def begun() -> bool:
            self._news()
            return next(reversed(self.heard)) != answer.name

        await self._client.until(begun, timeout_s=_VERDICT_S)

    async def until_over(self) -> None:
        """Until nothing more comes of the last answer."""
        longest = max(self._script.answer_s.values(), default=0.0)
        await self._client.until(lambda: self._now() is None, timeout_s=longest + _ANSWER_S)

    def make(
        self, sound: BargeSound, answer: Heard, *, honours: bool, tag: str
    ) -> tuple[Trial, int]:
        """Makes a sound; gives the trial, and where its news begin."""
        first = len(self._news())
        said = self._client.say(self._client.sound(sound.clip.samples))
        return (
            Trial(
                sound=sound,
                honours=honours,
                tag=tag,
                answer=answer,
                onset=said.start + sound.clip.start,
                end=said.start + sound.clip.end,
            ),
            first,
        )

    async def verdict(self, trial: Trial, first: int) -> None:
        """Waits for what becomes of a sound, and notes it."""

        def settled() -> bool:
            self._note(trial, first)
            signs = trial.signs
            return bool(signs.opened) or (
                time.monotonic() > trial.end
                and bool(signs.paused)
                and len(signs.resumed) == len(signs.paused)
                and self._waited(trial, _VERDICT_S / 3)
            )

        left = trial.end + _VERDICT_S - time.monotonic()
        await self._client.until(settled, timeout_s=max(left, 0.1))
        self._note(trial, first)

    def _waited(self, trial: Trial, seconds: float) -> bool:
        """So much has passed since it went on: a verdict may come after that."""
        return time.monotonic() > max(trial.end, trial.signs.resumed[-1]) + seconds

    def _note(self, trial: Trial, first: int) -> None:
        news = self._news()
        if self._script.face.name == "realtime":
            trial.signs = told(news[first:], since=trial.onset)
            return
        trial.signs = noticed(
            news,
            answer=trial.answer.name,
            whole_s=self._script.whole_s(trial.answer),
            since=trial.onset,
            now=time.monotonic(),
        )

    def settle(self) -> None:
        """The conversation is over: notes what was sent and what was played of each answer."""
        self._news()
        client = self._client
        for answer in self.heard.values():
            parts = self._audio[answer.name]
            answer.sent = np.concatenate(parts) if parts else answer.sent
            answer.pieces = [
                (client.time(piece.start), client.time(piece.end))
                for piece in client.recording.heard.of(client.source(answer.name))
            ]
