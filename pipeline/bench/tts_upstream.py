"""Upstream's own way to speak, to be measured beside ours: same weights, prompt and machine.

With a checkout it is upstream's class `CosyVoice2Model`. The installed package carries the modules
but no working class, so there its loop is followed here, as a measuring peer and nothing else:

- the language model runs in a thread; whoever waits for its tokens looks every 100 ms;
- a chunk is 25 tokens, after it 50, then 100; the first one is longer by what completes the
  prompt's last 25. That size belongs to the model and is never set back, so the first request's
  first chunk is the only short one;
- the flow computes prompt and whole prefix again for every chunk; the vocoder gets the last 8
  frames of mel and source of the chunk before, and the seam is cross-faded.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from pipeline.bench.tts_own import DECODE_STEPS, TEXT, Meter
from pipeline.bench.tts_random import Reference, text_ids
from pipeline.bench.tts_result import Cost, SecondCost, Spoken, Step
from tts_engine.cosyvoice.loader import CosyVoice, backbone_of
from tts_engine.cosyvoice.modules import contained
from tts_engine.cosyvoice.prompt import BLOCK
from tts_engine.cosyvoice.stubs import stand_ins
from tts_engine.errors import EngineFailed

#: tokens of a chunk: of a model that has not spoken, and of one that has
FIRST_HOP, LATER_HOP = 25, 100
_GROWTH = 2
_POLL_S = 0.1
#: mel frames that the vocoder is given again, samples of a frame
_KEPT, _FRAME = 8, 480
_RATE = 24_000
#: speech tokens per text token that upstream is bound to: it must not end by itself
_ENDLESS = 1000.0
#: steps of its flow's Euler solver, and how many of them are taken where each is long
EULER_STEPS, FEW_STEPS = 10, 2


class Loop(Protocol):
    """One of upstream's loops."""

    about: str

    @property
    def hop(self) -> int:
        """Tokens of the next chunk, of whoever asks for it."""
        ...

    @hop.setter
    def hop(self, tokens: int) -> None: ...

    def speak(self, text: str, tokens: int) -> Generator[Tensor, None, None]:
        """Speaks so many tokens; samples, chunk by chunk. May be closed behind any chunk."""
        ...


@dataclass(slots=True)
class _Counted:
    """Upstream's language model, which ends after a fixed number of tokens.

    Parameters:
        llm: upstream's.
        limit: tokens of a request.
        given: tokens so far, of all requests.
        passes: of the backbone for them.
        failure: what its thread died of; upstream waits for ever then.
    """

    llm: Any
    limit: int = 0
    given: int = 0
    passes: int = 0
    failure: Exception | None = None

    def inference(self, **arguments: Any) -> Generator[int, None, None]:
        """In place of the model's own."""
        limit = self.limit
        bounds = {"min_token_text_ratio": _ENDLESS, "max_token_text_ratio": _ENDLESS}
        try:
            with closing(self.llm.inference(**arguments, **bounds)) as tokens:
                for _ in range(limit):
                    token = next(tokens)
                    self.given += 1
                    yield int(token)
        except Exception as error:
            self.failure = error

    def count_pass(self, *_: object) -> None:
        """The model has been run."""
        self.passes += 1

    def check(self) -> None:
        """Raises EngineFailed if it has failed."""
        if self.failure is not None:
            raise EngineFailed(f"Upstream's language model fails: {self.failure!r}")


class _Voice:
    """The reference, and texts, as upstream's functions take them."""

    def __init__(self, model: CosyVoice, reference: Reference) -> None:
        self._model = model
        self.prompt_text = self.row(reference.text_ids)
        self.tokens = self.row(reference.tokens)
        self.mel = reference.mel[None]
        self.embedding = reference.embedding[None]
        self.nobody = torch.zeros(0, len(reference.embedding), device=model.device)

    def row(self, ids: Sequence[int]) -> Tensor:
        """Numbers as [1, n]."""
        return torch.tensor([[*ids]], dtype=torch.int32, device=self._model.device)

    def text(self, text: str) -> Tensor:
        """A text as [1, n]."""
        return self.row(text_ids(self._model, text))

    def llm_arguments(self, text: str) -> dict[str, Tensor]:
        """Of the language model's `inference`."""
        given = {"text": self.text(text), "prompt_text": self.prompt_text}
        given["prompt_speech_token"] = self.tokens
        lengths = {f"{name}_len": length(each) for name, each in given.items()}
        return {**given, **lengths, "embedding": self.nobody}

    def mel_of(self, tokens: Sequence[int], *, final: bool) -> Tensor:
        """Mel [1, 80, frames] behind the prompt's: everything is computed."""
        row = self.row(tokens)
        flow: Any = self._model.flow
        mel, _ = flow.inference(
            token=row,
            token_len=length(row),
            prompt_token=self.tokens,
            prompt_token_len=length(self.tokens),
            prompt_feat=self.mel,
            prompt_feat_len=length(self.mel),
            embedding=self.embedding,
            streaming=not final,
            finalize=final,
        )
        return mel


def look_ahead_of(model: CosyVoice) -> int:
    """Speech tokens that the flow looks ahead."""
    flow: Any = model.flow
    return int(flow.pre_lookahead_len)


def length(rows: Tensor) -> Tensor:
    """Of a batch of one, [1]."""
    return torch.tensor([rows.shape[1]], dtype=torch.int32, device=rows.device)


class UpstreamClass:
    """The class of a checkout whose modules are imported.

    Raises:
        EngineFailed: the checkout has no such class.
    """

    def __init__(self, model: CosyVoice, voice: _Voice, llm: _Counted) -> None:
        try:
            with contained(), stand_ins():
                module = importlib.import_module("cosyvoice.cli.model")
        except ImportError as error:
            raise EngineFailed(f"Upstream's class cannot be imported: {error}") from error
        self.about = "upstream: CosyVoice2Model of the checkout"
        self._voice = voice
        self._llm = llm
        self._model = module.CosyVoice2Model(llm, model.flow, model.hift)
        self._model.device = model.device

    @property
    def hop(self) -> int:
        """See Loop."""
        return self._model.token_hop_len

    @hop.setter
    def hop(self, tokens: int) -> None:
        self._model.token_hop_len = tokens

    def speak(self, text: str, tokens: int) -> Generator[Tensor, None, None]:
        """See Loop."""
        self._llm.limit = tokens
        voice = self._voice
        pieces = self._model.tts(
            text=voice.text(text),
            flow_embedding=voice.embedding,
            llm_embedding=voice.nobody,
            prompt_text=voice.prompt_text,
            llm_prompt_speech_token=voice.tokens,
            flow_prompt_speech_token=voice.tokens,
            prompt_speech_feat=voice.mel,
            stream=True,
        )
        with closing(pieces):
            for piece in pieces:
                yield piece["tts_speech"][0]


class UpstreamLoop:
    """What upstream's class does, over the installed modules; see above."""

    def __init__(self, model: CosyVoice, voice: _Voice, llm: _Counted) -> None:
        self.about = "upstream: its loop, written after it, over its installed modules"
        self.hop = FIRST_HOP
        self._voice = voice
        self._llm = llm
        self._hift: Any = model.hift
        self._look_ahead = look_ahead_of(model)
        self._ratio = model.mel_ratio

    def speak(self, text: str, tokens: int) -> Generator[Tensor, None, None]:
        """See Loop."""
        self._llm.limit = tokens
        made: list[int] = []

        def decode() -> None:
            for token in self._llm.inference(**self._voice.llm_arguments(text)):
                made.append(token)  # noqa: PERF402 - it is read meanwhile

        thread = threading.Thread(target=decode, name="upstream's tokens")
        thread.start()
        try:
            yield from self._chunks(made, thread)
        finally:
            thread.join()

    def _chunks(self, made: Sequence[int], thread: threading.Thread) -> Iterator[Tensor]:
        seams, offset = _Seams(self._hift), 0
        pad = -self._voice.tokens.shape[1] % self.hop
        while True:
            time.sleep(_POLL_S)
            ended = not thread.is_alive()
            hop = self.hop + (0 if offset else pad)
            known = offset + hop + self._look_ahead
            if len(made) >= known:
                mel = self._voice.mel_of(made[:known], final=False)
                yield seams.sound(mel[:, :, offset * self._ratio :], final=False)
                offset += hop
                self.hop = min(LATER_HOP, _GROWTH * self.hop)
            elif ended:
                break
        mel = self._voice.mel_of(made, final=True)
        yield seams.sound(mel[:, :, offset * self._ratio :], final=True)


class _Seams:
    """The vocoder's part of one request: what goes from chunk to chunk."""

    def __init__(self, hift: Any) -> None:
        self._hift = hift
        self._kept: tuple[Tensor, Tensor, Tensor] | None = None

    def sound(self, mel: Tensor, *, final: bool) -> Tensor:
        """Samples of a chunk's frames [1, 80, n]; the last 8 frames' are held back."""
        source = torch.zeros(1, 1, 0)
        if self._kept is not None:
            mel, source = torch.cat([self._kept[0], mel], 2), self._kept[1]
        wave, source = self._hift.inference(speech_feat=mel, cache_source=source)
        if self._kept is not None:
            wave = _cross_faded(wave, self._kept[2])
        if final:
            return wave[0].cpu()
        held = _KEPT * _FRAME
        self._kept = mel[:, :, -_KEPT:], source[:, :, -held:], wave[:, -held:]
        return wave[0, :-held].cpu()


def _cross_faded(wave: Tensor, before: Tensor) -> Tensor:
    count = before.shape[1]
    window = torch.hamming_window(2 * count, periodic=False, device=wave.device)
    mixed = wave[:, :count] * window[:count] + before * window[count:]
    return torch.cat([mixed, wave[:, count:]], 1)


@contextmanager
def few_steps(flow: Any, steps: int) -> Iterator[list[float]]:
    """Has upstream's flow take so many steps of its solver; gives the processor time of each.

    Args:
        flow: upstream's.
        steps: at least one.
    """
    decoder = flow.decoder
    solve, estimate = decoder.forward, decoder.forward_estimator
    taken: list[float] = []

    def shortened(**arguments: Any) -> Any:
        return solve(**{**arguments, "n_timesteps": steps})

    def metered(*arguments: Any) -> Any:
        began = time.process_time()
        velocity = estimate(*arguments)
        taken.append(time.process_time() - began)
        return velocity

    decoder.forward, decoder.forward_estimator = shortened, metered
    try:
        yield taken
    finally:
        del decoder.forward, decoder.forward_estimator


class Upstream:
    """Upstream over a loaded model, measured as `tts_own.Own` is.

    Parameters:
        model: shared; its vocoder's weight norms are folded, which makes it a little faster.
        reference: of the voice, which upstream does not trim.
        home: the checkout whose modules are imported; None: the installed ones.
    """

    def __init__(self, model: CosyVoice, reference: Reference, *, home: Path | None) -> None:
        self._model = model
        self._voice = _Voice(model, reference)
        self._llm = _Counted(model.llm)
        # Ours takes the backbone's layers one by one, and never goes through here.
        self._watch = backbone_of(model.llm).register_forward_hook(self._llm.count_pass)
        kind = UpstreamLoop if home is None else UpstreamClass
        self._loop: Loop = kind(model, self._voice, self._llm)
        self._look_ahead = look_ahead_of(model)
        self._prompt = reference.tokens
        self.about = self._loop.about

    def close(self) -> None:
        """Leaves the model as it was. Idempotent."""
        self._watch.remove()

    def first_chunk(self, *, later: bool) -> Cost:
        """From a request to its first audio.

        Args:
            later: the model has spoken before.

        Raises:
            EngineFailed
        """
        hop = LATER_HOP if later else FIRST_HOP
        self._loop.hop = hop
        pad = -len(self._prompt) % hop
        meter = Meter()
        pieces = self._loop.speak(TEXT, hop + pad + self._look_ahead)
        with closing(pieces):
            with meter.running():
                next(pieces)
            self._llm.check()
        return meter.cost

    def together(self, texts: Sequence[str], *, tokens: int) -> Step:
        """Texts that are asked for at the same time, each in a thread of its own, of a model that
        has spoken before.

        Raises:
            EngineFailed
        """
        self._loop.hop = LATER_HOP
        given, passes = self._llm.given, self._llm.passes
        began = time.perf_counter()
        with ThreadPoolExecutor(len(texts)) as pool:
            spoken = [*pool.map(lambda text: self._spoken(text, tokens), texts)]
        took = time.perf_counter() - began
        self._llm.check()
        return Step(
            spoken=spoken,
            wall_s=took,
            decode_steps_per_token=(self._llm.passes - passes) / (self._llm.given - given),
        )

    @property
    def decode_steps_per_token(self) -> float:
        """Of all requests so far; each has its own, so that several at a time change nothing."""
        return self._llm.passes / self._llm.given

    def token(self) -> Cost:
        """A speech token, behind the prompt."""
        self._llm.limit = DECODE_STEPS + 1
        meter = Meter()
        with closing(self._llm.inference(**self._voice.llm_arguments(TEXT))) as tokens:
            next(tokens, None)
            with meter.running():
                for _ in tokens:
                    pass
        self._llm.check()
        return Cost(wall_s=meter.cost.wall_s / DECODE_STEPS, cpu_s=meter.cpu_s / DECODE_STEPS)

    def second(self, number: int, *, token: Cost) -> SecondCost:
        """The n-th second of an utterance behind its first chunk: one call of the flow.

        A late one takes minutes, nearly all of them in the solver, whose steps are all the same
        work. So the first two are taken, and the rest counted as the second.

        Args:
            number: from 1.
            token: see `token`; where in the utterance it is hardly matters.
        """
        count = -len(self._prompt) % BLOCK + number * BLOCK + self._look_ahead
        tokens = [self._prompt[at % len(self._prompt)] for at in range(count)]
        flow, sound = Meter(), Meter()
        few = number > 1
        steps = FEW_STEPS if few else EULER_STEPS
        with few_steps(self._model.flow, steps) as taken, flow.running():
            mel = self._voice.mel_of(tokens, final=False)
        seams, frames = _Seams(self._model.hift), BLOCK * self._model.mel_ratio
        seams.sound(mel[:, :, -frames:], final=False)
        with sound.running():
            seams.sound(mel[:, :, -frames:], final=False)
        return SecondCost(
            llm=BLOCK * (token.cpu_s or 0.0),
            flow=flow.cpu_s + (EULER_STEPS - steps) * taken[-1],
            vocoder=sound.cpu_s,
            euler_steps=steps,
        )

    def _spoken(self, text: str, tokens: int) -> Spoken:
        asked, first, samples = time.perf_counter(), 0.0, 0
        with closing(self._loop.speak(text, tokens)) as pieces:
            for piece in pieces:
                first = first or time.perf_counter() - asked
                samples += len(piece)
        return Spoken(first_s=first, total_s=time.perf_counter() - asked, audio_s=samples / _RATE)
