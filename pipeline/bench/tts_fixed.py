"""CosyVoice with random weights, ours and upstream's, each made to speak the same number of tokens.

Random weights never end by themselves at a sensible place, so how much is said is fixed: a
character is as many speech tokens as people's are. Both sides work on the same loaded modules, in
this process, and take turns, so that what the machine does meanwhile is the same for both.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import median

import psutil
import torch
import transformers

from pipeline.bench.progress import OnProgress
from pipeline.bench.tts_own import Own
from pipeline.bench.tts_random import load_random, random_dir, reference_of
from pipeline.bench.tts_result import SECONDS, Cost, SecondCost, Step, TtsResult
from pipeline.bench.tts_sweep import SHARED, SHORT
from pipeline.bench.tts_texts import text_of
from pipeline.bench.tts_upstream import Upstream
from tts_engine.cosyvoice.make_random import Size

#: what is measured so often, and the median taken; what takes upstream longest only once: its
#: seconds, and on a CPU its later requests, each most of a minute
ROUNDS = 3
#: of computation on the CPU. Threads that wait spin, which would be counted as work, so that one
#: tells most; two are hardly sooner where cores share their units
_THREADS = 1
#: two processor times that differ by no more than this agree
_AGREE = 1.05
#: see mallopt(3)
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
#: speech tokens a character: 4.5 of them a second
_TOKENS_A_CHAR = 25 / 4.5
#: speech tokens of those that share the decoder's steps
_SHARED_TOKENS = 16
#: about how long each part takes beside the others
_LOAD, _VOICE, _OWN, _PEER, _PEER_LATER, _SHARE, _SECONDS = (
    20.0,
    20.0,
    8.0,
    27.0,
    52.0,
    40.0,
    50.0,
)
_PEER_SECONDS = 80.0

#: whoever is measured beside ours, each with what is found of it
_Others = list[tuple[TtsResult, Upstream]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedPlan:
    """What is compared.

    Parameters:
        size: of the model.
        device: as torch names them, or auto.
        home: a git checkout of CosyVoice; None: the installed modules.
        peer: upstream is measured as well.
        lengths, counts, repeat: what else is measured, see `Sweep`.
        rounds: see ROUNDS.
        cache: where random weights are kept; None is the user's cache.
    """

    size: Size
    device: str = "auto"
    home: Path | None = None
    peer: bool = False
    lengths: Sequence[int] = ()
    counts: Sequence[int] = ()
    repeat: int = 1
    rounds: int = ROUNDS
    cache: Path | None = None


def run_fixed(plan: FixedPlan, on_progress: OnProgress) -> TtsResult:
    """Runs the comparison.

    Raises:
        ModelError, EngineFailed
    """
    torch.set_num_threads(_THREADS)
    _keep_memory()
    with warnings.catch_warnings():
        # Upstream's modules use what is about to go; that is no news to whoever measures.
        warnings.simplefilter("ignore")
        return _run(plan, on_progress)


def _run(plan: FixedPlan, on_progress: OnProgress) -> TtsResult:
    progress = _Progress(on_progress, _work(plan))
    progress(_LOAD, "random weights: made once, then loaded")
    transformers.logging.set_verbosity_error()
    directory = random_dir(plan.size, home=plan.home, cache=plan.cache)
    model = load_random(directory, home=plan.home, device=plan.device)
    progress(_VOICE, "the voice")
    reference = reference_of(model)
    own = Own(model, reference, requests=max((SHARED, *plan.counts)))
    on_gpu = model.device.type == "cuda"
    about = f"CosyVoice 2, random weights, {plan.size}, fp32 on {model.device}"
    result = TtsResult(about=f"{own.about}: {about}", compare="wall" if on_gpu else "cpu")
    with ExitStack() as ending:
        others: _Others = []
        if plan.peer:
            peer = ending.enter_context(closing(Upstream(model, reference, home=plan.home)))
            result.peer = TtsResult(about=f"{peer.about}: {about}")
            others.append((result.peer, peer))
        _share(result, own, progress)
        _first_chunks(result, own, others, plan.rounds, progress)
        _seconds(result, own, others, plan.rounds, progress)
        _sweeps([(result, own), *others], plan, progress)
    progress(0.0, "done")
    return result


@dataclass(slots=True)
class _Progress:
    """How far it is.

    Parameters:
        tell: is told.
        total: work in all.
    """

    tell: OnProgress
    total: float
    done: float = field(default=0.0, init=False)

    def __call__(self, work: float, words: str) -> None:
        """So much work begins."""
        self.tell(min(1.0, self.done / self.total), words)
        self.done += work


def _work(plan: FixedPlan) -> float:
    own = _LOAD + _VOICE + _SHARE + _SECONDS + plan.rounds * _OWN
    peer = plan.rounds * _PEER + _PEER_LATER + _PEER_SECONDS if plan.peer else 0.0
    return own + peer + sum(_swept(plan))


def _swept(plan: FixedPlan) -> Iterable[float]:
    """Work of each step of the sweeps."""
    for length in plan.lengths:
        yield plan.repeat * length * (4.0 + 10.0 * plan.peer)
    for count in plan.counts:
        yield plan.repeat * count * SHORT * (4.0 + 10.0 * plan.peer)


def _share(result: TtsResult, own: Own, progress: _Progress) -> None:
    """Four requests at a time; they are also what warms everything up."""
    progress(_SHARE, f"{SHARED} requests at a time")
    texts = [text_of(SHORT, turn=turn) for turn in range(SHARED)]
    step = own.together(texts, tokens=_SHARED_TOKENS)
    result.decode_steps_per_token = step.decode_steps_per_token
    result.memory_mb = psutil.Process().memory_info().rss / 1e6


def _first_chunks(
    result: TtsResult, own: Own, others: _Others, rounds: int, progress: _Progress
) -> None:
    thrifty = result.compare == "cpu"  # by the clock, as on a GPU, they are short
    for number in range(1, rounds + 1):
        which = f"round {number} of {rounds}"
        progress(_OWN, f"first chunk, {which}")
        if not (thrifty and _agree(result.first)):
            cost = own.first_chunk()
            # Ours is the same for every request.
            result.first.append(cost)
            result.later.append(cost)
        for found, peer in others:
            progress(_PEER, f"upstream's first chunk of its first request, {which}")
            if not (thrifty and _agree(found.first)):
                found.first.append(peer.first_chunk(later=False))
    for found, peer in others:
        for number in range(1, (1 if thrifty else rounds) + 1):
            progress(_PEER_LATER, f"upstream's first chunk of a later request, {number}")
            found.later.append(peer.first_chunk(later=True))
        found.decode_steps_per_token = peer.decode_steps_per_token


def _agree(costs: Sequence[Cost]) -> bool:
    return settled([each.cpu_s for each in costs if each.cpu_s])


def settled(times: Sequence[float]) -> bool:
    """Whether two agree: the median of three lies between any two of them, whatever the third is.

    Args:
        times: those measured so far, seconds of the processor.
    """
    return len(times) > 1 and max(times) <= _AGREE * min(times)


def _keep_memory() -> None:
    """Has the C library keep what is freed. Otherwise large tensors are given back to the system
    and taken anew all the time: a fifth of what upstream takes for long utterances.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # glibc
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def _seconds(
    result: TtsResult, own: Own, others: _Others, rounds: int, progress: _Progress
) -> None:
    """What a second of speech costs early and late."""
    progress(_SECONDS, "seconds 1 and 30")
    token = own.token()
    for number in SECONDS:
        costs: list[SecondCost] = []
        with closing(own.seconds(number, token=token)) as measured:
            for cost in islice(measured, rounds):
                costs.append(cost)
                if settled([each.total for each in costs]):
                    break
        result.seconds[number] = _middle(costs)
    for found, peer in others:
        progress(_PEER_SECONDS, "upstream's seconds 1 and 30")
        token = peer.token()
        for number in SECONDS:
            found.seconds[number] = peer.second(number, token=token)


def _middle(costs: Sequence[SecondCost]) -> SecondCost:
    """The median of each stage."""
    return SecondCost(
        llm=median(cost.llm for cost in costs),
        flow=median(cost.flow for cost in costs),
        vocoder=median(cost.vocoder for cost in costs),
    )


def _sweeps(
    sides: Sequence[tuple[TtsResult, Own | Upstream]], plan: FixedPlan, progress: _Progress
) -> None:
    work = iter(_swept(plan))
    for length in plan.lengths:
        progress(next(work), f"{length} characters")
        for found, side in sides:
            found.by_length[length] = _repeated(side, length, 1, plan.repeat)
    for count in plan.counts:
        progress(next(work), f"{count} at a time")
        for found, side in sides:
            found.by_concurrency[count] = _repeated(side, SHORT, count, plan.repeat)


def _repeated(side: Own | Upstream, length: int, count: int, repeat: int) -> Step:
    """Texts of so many characters, so many at a time."""
    tokens = round(length * _TOKENS_A_CHAR)
    steps = [
        side.together([text_of(length, turn=turn + at) for at in range(count)], tokens=tokens)
        for turn in range(repeat)
    ]
    shares = [each.decode_steps_per_token for each in steps]
    return Step(
        spoken=[spoken for step in steps for spoken in step.spoken],
        wall_s=sum(step.wall_s for step in steps),
        decode_steps_per_token=median(share for share in shares if share is not None),
    )
