"""The embedded recogniser: Whisper on the CPU, one decoding thread for all conversations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from loguru import logger

from services.asr.asked import Answer, Asked
from services.asr.base import (
    SAMPLE_RATE,
    AsrEngine,
    OnPartial,
    Recogniser,
    Samples,
    Transcript,
)
from services.asr.turn_audio import Snapshot, TurnAudio
from services.asr.whisper_model import CTranslate2Decoder, Decoder
from services.asr.whisper_policy import Piece, WhisperPolicy
from services.asr.worker import Check, DecodeWorker, Job
from tts_engine.engine import EngineStats
from tts_engine.errors import EngineFailed, TimedOut


def load_simplifier() -> Callable[[str], str]:
    """Loads the tables that make Chinese simplified; about 0.1 s."""
    from opencc import OpenCC

    convert: Callable[[str], str] = OpenCC("t2s").convert
    convert("漢")  # it reads its tables at the first use
    return convert


class WhisperEngine(AsrEngine):
    """Whisper base on CTranslate2.

    Parameters:
        model_dir: holds model.bin, config.json, tokenizer.json, vocabulary.txt.
        threads: of one decoding; decodings run one after another.
        languages: codes that are recognised; the likeliest is chosen for each turn.
        beam: width of the beam of finals; partials are greedy.
        window_s: shortest window the encoder sees; below 8 s the model repeats itself.
        queue_limit: finals that may wait.
        min_log_prob: text of a lower mean log probability is noise and dropped.
        partial_every_s: seconds of audio between partials; None for none.
        timeout_s: bound of `finalise`, with waiting.
        max_turn_s: a longer turn keeps at least its last `max_turn_s`.
        load: makes the decoder, in a thread; for tests.
    """

    def __init__(
        self,
        *,
        model_dir: Path,
        threads: int,
        languages: Sequence[str] = ("zh", "en"),
        beam: int = 5,
        window_s: float = 12.0,
        queue_limit: int = 32,
        min_log_prob: float = -1.0,
        partial_every_s: float | None = 0.6,
        timeout_s: float = 20.0,
        max_turn_s: float = 120.0,
        load: Callable[[], Decoder] | None = None,
    ) -> None:
        self.stats = EngineStats()
        self.partial_every_s = partial_every_s
        self.timeout_s = timeout_s
        self.max_turn_s = max_turn_s
        self.worker: DecodeWorker[Transcript] = DecodeWorker(
            name="whisper", queue_limit=queue_limit, stats=self.stats
        )
        self.languages = tuple(languages)
        self._load = load or (
            lambda: CTranslate2Decoder(model_dir=model_dir, threads=threads, languages=languages)
        )
        self._beam = beam
        self._window_s = window_s
        self._min_log_prob = min_log_prob
        self._policy: WhisperPolicy | None = None

    async def start(self) -> None:
        """See AsrEngine."""
        self._policy = await asyncio.to_thread(self._prepare)
        self.worker.start()
        logger.info("whisper is ready")

    def _prepare(self) -> WhisperPolicy:
        policy = WhisperPolicy(
            decoder=self._load(),
            simplify=load_simplifier(),
            beam=self._beam,
            window_s=self._window_s,
            min_log_prob=self._min_log_prob,
        )
        # Three seconds of noise run through every step; the first real turn then costs no more
        # than the others.
        warm_up = TurnAudio(limit_s=3)
        noise = np.random.default_rng(0).standard_normal(3 * SAMPLE_RATE)
        warm_up.append((noise * 0.05).astype(np.float32))
        try:
            policy.transcribe(
                warm_up.snapshot(),
                known={},
                languages=self.languages,
                final=True,
                check=lambda: None,
            )
        except Exception as error:
            policy.decoder.close()
            raise EngineFailed(f"whisper cannot decode here: {error}") from error
        return policy

    def transcribe(
        self,
        check: Check,
        *,
        audio: Snapshot,
        known: dict[tuple[int, int], Piece],
        languages: Sequence[str],
        final: bool,
    ) -> Transcript:
        """Recognises `audio`; runs in the worker's thread."""
        assert self._policy is not None, "the worker runs from start() to close()"
        return self._policy.transcribe(
            audio, known=known, languages=languages, final=final, check=check
        )

    def open(self, *, session: str, on_partial: OnPartial | None = None) -> WhisperRecogniser:
        """See AsrEngine."""
        return WhisperRecogniser(engine=self, session=session, on_partial=on_partial)

    async def close(self) -> None:
        """See AsrEngine."""
        await self.worker.close()
        policy, self._policy = self._policy, None
        if policy is not None:
            await asyncio.to_thread(policy.decoder.close)


class WhisperRecogniser(Recogniser):
    """A conversation's handle; made by `WhisperEngine.open`."""

    def __init__(
        self, *, engine: WhisperEngine, session: str, on_partial: OnPartial | None
    ) -> None:
        self._engine = engine
        self._worker = engine.worker
        self._session = session
        self._on_partial = on_partial if engine.partial_every_s is not None else None
        self._partial_step = int((engine.partial_every_s or 0.0) * SAMPLE_RATE)
        self._partial: Job[Transcript] | None = None
        #: by where the turn ended, and what might be spoken
        self._asked: Asked[tuple[int, tuple[str, ...]], Transcript] = Asked()
        self._closed = False
        self._languages = engine.languages
        self._forget()

    def _forget(self) -> None:
        self._audio = TurnAudio(limit_s=self._engine.max_turn_s)
        self._forget_results()
        self._partial_end = 0
        self._partial_text = ""

    def _forget_results(self) -> None:
        self._known: dict[tuple[int, int], Piece] = {}
        self._result = Transcript(text="")
        self._result_end = 0

    def restrict(self, languages: tuple[str, ...] | None) -> None:
        """See Recogniser."""
        known = self._engine.languages
        chosen = tuple(code for code in known if languages is None or code in languages) or known
        if chosen != self._languages:
            self._languages = chosen
            self._forget_results()

    def feed(self, samples: Samples) -> None:
        """See Recogniser."""
        self._audio.append(samples)
        due = self._audio.end - self._partial_end >= self._partial_step
        if self._on_partial is not None and due and self._partial is None:
            self._offer_partial()

    async def finalise(self) -> Transcript:
        """See Recogniser."""
        if self._closed:
            raise EngineFailed(f"The recogniser's handle of session {self._session} is closed")
        end = self._audio.end
        if end == self._result_end:
            return self._result
        question = (end, self._languages)
        try:
            result = await self._asked.answer(
                question, self._submit, timeout_s=self._engine.timeout_s
            )
        except TimeoutError:
            raise self._worker.failed(
                TimedOut(
                    f"Recognition took more than {self._engine.timeout_s:g} s",
                    mend="Serve fewer sessions, or give the recogniser more threads",
                )
            ) from None
        if end > self._result_end and question[1] == self._languages:
            self._result, self._result_end = result, end
        return result

    def cancel(self) -> None:
        """See Recogniser."""
        self._drop_partial()
        self._asked.withdraw()

    def reset(self) -> None:
        """See Recogniser."""
        self.cancel()
        self._forget()

    def close(self) -> None:
        """See Recogniser."""
        self._closed = True
        self._on_partial = None
        self.reset()

    def _submit(self) -> Answer[Transcript]:
        self._drop_partial()
        job = self._worker.submit(self._work(final=True))
        return Answer(job.future, partial(self._worker.withdraw, job))

    def _work(self, *, final: bool) -> Callable[[Check], Transcript]:
        return partial(
            self._engine.transcribe,
            audio=self._audio.snapshot(),
            known=self._known,
            languages=self._languages,
            final=final,
        )

    def _offer_partial(self) -> None:
        job = self._worker.offer(self._work(final=False))
        if job is not None:
            self._partial, self._partial_end = job, self._audio.end
            job.future.add_done_callback(self._partial_done)

    def _partial_done(self, future: asyncio.Future[Transcript]) -> None:
        if self._partial is None or self._partial.future is not future:
            return
        self._partial = None
        if future.cancelled() or future.exception() is not None or self._on_partial is None:
            return
        transcript = future.result()
        if transcript.text and transcript.text != self._partial_text:
            self._partial_text = transcript.text
            self._on_partial(transcript)

    def _drop_partial(self) -> None:
        job, self._partial = self._partial, None
        if job is not None:
            self._worker.withdraw(job)
