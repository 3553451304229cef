"""`bench bargein`: what becomes of an answer when somebody makes a sound over it.

Engines are scripted, the detector is the real one. While answers play, clients make at least 200
backchannels (嗯, 好的, uh-huh, in several embedded voices), 200 coughs, cleared throats and knocks
of which the detector fires (they are made until so many are found), and 200 interruptions. The
recogniser reads what is said from marks in the sound (`services.scripted.marks`); a noise has none.
Half of the clients honour a pause and cancel echoes, as the talk page does; half know neither.

- `stop_ms`: from the interruption's voiced onset (energy rule, on what was sent) to the last sample
  of the answer that was played, with clients that honour a pause;
- `stop_plain_ms`: the same with the others, which play out what they have; `stop_plain_beyond_ms`
  from when they were told of the pause, less the lead: at most 60 ms are allowed;
- `resume_ms`: from the end of a backchannel or noise to the end of the silence that its pause
  made, 0 if the answer was not silent by then; of those that paused the answer;
- `resume_exact_rate`: of these, those whose answer came over the wire sample by sample as the
  voice makes it without a pause, from its start to its end: no gap, no repeat;
- `resumed_rate`: backchannels and noises after which the answer went on, of those that paused it;
  `false_interruption_rate`: those that interrupted it, of all; `unnoticed_rate`: of all, those that
  did not pause it, which is no fault;
- `taken_rate`: interruptions that interrupted;
Devices (`face`) listen in realtime mode. They are told of nothing, so what became of a sound is
read from what comes: see `pipeline.bench.bargein_signs`. They are all among those that know no
pause, and `stop_decoded_ms` counts two frames more, which some have decoded by then.

- `truncation_chars`: characters that the next request to the language model holds of the
  interrupted answer, less those that the client played completely, by the client's own clock and
  the voice's table of character times (80 to 239 ms each); absolute.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.bench import rig
from pipeline.bench.bargein_measure import (
    Outcome,
    Reference,
    heard_in_context,
    outcome_of,
    quantiles,
    reference_of,
)
from pipeline.bench.bargein_noises import firing_noises
from pipeline.bench.bargein_sounds import (
    ANSWERS,
    BACKCHANNELS,
    INTERRUPTIONS,
    QUESTIONS,
    BargeSound,
    Kind,
    lines,
    marked,
    noise_clip,
    tagged,
)
from pipeline.bench.bargein_trials import Caller, Script, Trial, tag_of
from pipeline.bench.faces import Face, Name
from pipeline.bench.progress import OnProgress
from pipeline.bench.speech import Clip, synthesise
from pipeline.bench.xiaozhi_wire import DOWNLINK_MS
from pipeline.device.model import DECODED
from services.scripted.llm_script import LlmRequest, LlmScript
from services.scripted.llm_server import ScriptedLlmServer
from services.scripted.spec import LlmSpec, ScriptedSpec, ScriptedTexts, parse_spec
from services.vad.silero import SileroVad
from tts_engine.errors import DuplexdError

if TYPE_CHECKING:
    from pipeline.config import Config

#: sounds of each kind
SOUNDS, QUICK_SOUNDS = 200, 20
ENGINES = "scripted:asr=60,llm=150@50,tts=150"
#: the environment's language model goes before the configuration's
_ENVIRONMENT = ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL")


@dataclass(slots=True, kw_only=True)
class BargeInResult:
    """What `bench bargein` found out.

    Parameters:
        outcomes: of every sound.
        lead_ms: how far the daemon's sending ran ahead of playing.
        face: by which protocol the daemon was asked.
    """

    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    lead_ms: float
    face: Name = "realtime"

    def _some(self, *kinds: Kind, honours: bool | None = None) -> list[Outcome]:
        return [
            each
            for each in self.outcomes
            if each.kind in kinds and (honours is None or each.honours == honours)
        ]

    def to_json(self) -> dict[str, Any]:
        """The one object that --json prints; see the module."""
        ours = self._some("interruption", honours=True)
        plain = self._some("interruption", honours=False)
        passing = self._some("backchannel", "noise")
        paused = [each for each in passing if each.fate != "unnoticed"]
        resumed = [each for each in paused if each.fate == "resumed"]
        both = (("p50", 50.0), ("p95", 95.0))
        cut = [abs(each.truncation) for each in self.outcomes if each.truncation is not None]
        held = [each.prefix for each in self.outcomes if each.prefix is not None]
        stops = _known(each.stop_ms for each in plain)
        device = self.face == "xiaozhi"
        # A device does not know when the answer was paused: it only notices that nothing comes.
        beyond = [] if device else _known(each.beyond_ms for each in plain)
        deeper = [ms + DECODED * DOWNLINK_MS for ms in stops] if device else []
        return {
            "face": self.face,
            "stop_ms": quantiles(_known(each.stop_ms for each in ours), *both),
            "stop_plain_ms": quantiles(stops, *both),
            "stop_plain_beyond_ms": quantiles((ms - self.lead_ms for ms in beyond), *both),
            "stop_decoded_ms": quantiles(deeper, *both),
            "resume_ms": quantiles(_known(each.resume_ms for each in resumed), *both),
            "resume_exact_rate": _rate(bool(each.exact) for each in resumed),
            "resumed_rate": _rate(each.fate == "resumed" for each in paused),
            "false_interruption_rate": _rate(each.fate == "interrupted" for each in passing),
            "unnoticed_rate": _rate(each.fate == "unnoticed" for each in passing),
            "taken_rate": _rate(each.fate == "interrupted" for each in [*ours, *plain]),
            "truncation_chars": quantiles(map(float, cut), ("median", 50.0), ("p95", 95.0)),
            "context_is_prefix_rate": _rate(held),
            "sounds": {
                kind: self._counts(kind) for kind in ("backchannel", "noise", "interruption")
            },
        }

    def _counts(self, kind: Kind) -> dict[str, int]:
        some = self._some(kind)
        fates = ("unnoticed", "resumed", "interrupted", "lost")
        return {fate: sum(each.fate == fate for each in some) for fate in fates}


def _known(values: Iterator[float | None]) -> list[float]:
    return [each for each in values if each is not None]


def _rate(hits: Iterator[bool] | Sequence[bool]) -> float | None:
    """Share of True; None of nothing."""
    found = list(hits)
    return round(sum(found) / len(found), 4) if found else None


def run_bargein(
    config: Config,
    *,
    options: Sequence[str] = ("--engines", ENGINES),
    spec: ScriptedSpec | None = None,
    face: Name = "realtime",
    sounds: int = SOUNDS,
    clients: int = 12,
    quick: bool = False,
    log: Path | None = None,
    on_progress: OnProgress = lambda share, words: None,
) -> BargeInResult:
    """Runs the bench.

    Args:
        config: names the folder of the embedded voice, which speaks.
        options: of `run.py serve`; recogniser and voice must be scripted.
        spec: delays of the language model, which answers from here; None: those of ENGINES.
        face: by which protocol the daemon is asked.
        sounds: of each kind.
        clients: conversations at a time.
        quick: QUICK_SOUNDS of each kind.
        log: the daemon's log.
        on_progress: told what goes on.

    Raises:
        DuplexdError: the voice or the daemon does not start, or a conversation breaks.
    """
    count = QUICK_SOUNDS if quick else sounds
    questions, made = _sounds(config, count, on_progress)
    if face == "xiaozhi":
        questions = [tagged(each, tag_of(name)) for name in _names(clients) for each in questions]
        spoken_to = Face(name=face, frame_ms=DOWNLINK_MS, mode="realtime", codec="pcm")
    else:
        spoken_to = Face()
    clips, texts = marked([*questions, *(sound.clip for sound in made)])
    made = [
        BargeSound(kind=sound.kind, clip=clip)
        for sound, clip in zip(made, clips[len(questions) :], strict=True)
    ]
    bench = BargeInBench(
        options=options,
        llm=(spec or parse_spec(ENGINES)).llm or LlmSpec(),
        face=spoken_to,
        sets=_sets(texts),
        lead_ms=spoken_to.lead_ms(config),
        questions=tuple(clips[: len(questions)]),
        clients=clients,
        log=log,
        on_progress=on_progress,
    )
    return asyncio.run(bench.run(made))


def _sounds(
    config: Config, count: int, on_progress: OnProgress
) -> tuple[list[Clip], list[BargeSound]]:
    """The questions, and `count` sounds of each kind."""
    groups = [lines(QUESTIONS, len(QUESTIONS)), lines(BACKCHANNELS, count)]
    groups.append(lines(INTERRUPTIONS, count))
    told = itertools.count()

    def advance(_: object) -> None:
        on_progress(0.08 * next(told) / (2 * count + len(QUESTIONS)), "making the sounds")

    every = [line for group in groups for line in group]
    clips = iter(synthesise(every, config, advance=advance))
    questions, backchannels, interruptions = ([next(clips) for _ in group] for group in groups)
    noises = [noise_clip(noise, at) for at, noise in enumerate(asyncio.run(_noises(count)), 1)]
    kinds: dict[Kind, list[Clip]] = {
        "backchannel": backchannels,
        "noise": noises,
        "interruption": interruptions,
    }
    return questions, [
        BargeSound(kind=kind, clip=clip) for kind, some in kinds.items() for clip in some
    ]


async def _noises(count: int) -> list[Any]:
    vad = SileroVad(batch_window_s=0.0)
    await vad.start()
    try:
        return await firing_noises(vad, count)
    finally:
        await vad.close()


def _sets(texts: Sequence[str]) -> dict[str, str]:
    """The real detector, and a recogniser that reads the marks."""
    return {
        "vad.provider": "silero",
        "scripted.marked": "true",
        "scripted.transcripts": json.dumps(texts, ensure_ascii=False),
    }


@dataclass(kw_only=True, slots=True)
class BargeInBench:
    """Clients that make sounds over the answers of one daemon.

    Parameters:
        options: of `run.py serve`.
        llm: delays of the language model.
        face: by which protocol the daemon is asked.
        sets: keys of the daemon's configuration, which go before those of `options`.
        lead_ms: how far the daemon's sending runs ahead of playing.
        questions: what is asked, marked; one that is tagged only by its client.
        answers: what is answered; they begin differently.
        clients: conversations at a time; every other one honours pauses, no device does.
        log: the daemon's log.
        on_progress: told what goes on.
    """

    options: Sequence[str]
    llm: LlmSpec
    face: Face = field(default_factory=Face)
    sets: dict[str, str]
    lead_ms: float
    questions: tuple[Clip, ...]
    answers: tuple[str, ...] = ANSWERS
    clients: int = 12
    log: Path | None = None
    on_progress: OnProgress = lambda share, words: None

    async def run(self, sounds: Sequence[BargeSound]) -> BargeInResult:
        """Makes all sounds, and measures what came of them.

        Raises:
            DuplexdError: the daemon does not start, or a conversation breaks.
        """
        references = {text[0]: await reference_of(text) for text in self.answers}
        script = LlmScript(
            first_token_s=self.llm.first_token_s,
            tokens_per_s=self.llm.tokens_per_s,
            texts=ScriptedTexts(replies=list(self.answers)),
            keep=100_000,
        )
        async with ScriptedLlmServer(script=script) as server:
            sets = {
                **self.sets,
                **self.face.sets,
                "llm.provider": "openai",
                "llm.base_url": server.base_url,
                "llm.api_key": "scripted",
                "llm.max_tokens": "1000",
            }
            self.on_progress(0.1, "starting the daemon")
            async with _entered(self.options, sets, self.log) as daemon:
                trials = await self._converse(daemon, sounds, references)
        result = BargeInResult(lead_ms=self.lead_ms, face=self.face.name)
        for trial in trials:
            reference = references[trial.answer.text[0]]
            context = _context(script.requests, trial)
            result.outcomes.append(outcome_of(trial, reference, context=context))
        self.on_progress(1.0, "done")
        return result

    async def _converse(
        self, daemon: rig.Server, sounds: Sequence[BargeSound], references: dict[str, Reference]
    ) -> list[Trial]:
        script = Script(
            server=daemon,
            face=self.face,
            answer_s={first: each.seconds for first, each in references.items()},
        )
        made = 0

        def advance() -> None:
            nonlocal made
            made += 1
            self.on_progress(0.1 + 0.9 * made / len(sounds), f"{made} of {len(sounds)} sounds")

        if self.face.name == "xiaozhi":
            kinds = [(False, deque(sounds))]
        else:  # every other sound of a kind for each kind of client
            kinds = [(True, deque(sounds[::2])), (False, deque(sounds[1::2]))]
        callers: list[Caller] = []
        for name, (honours, share) in zip(_names(self.clients), itertools.cycle(kinds)):
            questions = [each for each in self.questions if tag_of(name) in each.text]
            caller = Caller(
                script=script,
                questions=questions or self.questions,
                sounds=share,
                honours=honours,
                name=name,
                advance=advance,
            )
            callers.append(caller)
        try:
            async with asyncio.TaskGroup() as group:
                for caller in callers:
                    group.create_task(caller.run())
        except BaseExceptionGroup as failed:
            expected, _ = failed.split(DuplexdError)
            raise (expected or failed).exceptions[0] from None
        return [trial for caller in callers for trial in caller.trials]


def _names(clients: int) -> list[str]:
    return [f"caller-{number}" for number in range(clients)]


@asynccontextmanager
async def _entered(
    options: Sequence[str], sets: dict[str, str], log: Path | None
) -> AsyncIterator[rig.Server]:
    """A daemon. While it starts it asks for the language model, so our loop must go on."""
    context = rig.daemon(options, sets=sets, log=log)
    with _no_other_llm():
        server = await asyncio.to_thread(context.__enter__)
    try:
        yield server
    finally:
        await asyncio.to_thread(context.__exit__, None, None, None)


@contextmanager
def _no_other_llm() -> Iterator[None]:
    """A daemon that is started here asks the language model of the bench, and no other."""
    kept = {name: os.environ.pop(name) for name in _ENVIRONMENT if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


def _context(requests: Sequence[LlmRequest], trial: Trial) -> str | None:
    """What the first request after a sound with words holds of the answer before it; None: there
    is no such request.
    """
    if not trial.sound.clip.text:
        return None
    for request in requests:
        messages = request.messages
        ours = any(trial.tag in str(each.get("content")) for each in messages)
        if ours and request.started >= trial.onset:
            return heard_in_context(messages)
    return None
