"""The speech-token decoder: exact beside one full pass, whatever company a stream is in."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from tts_engine.cosyvoice.decoder import LlmPrompt, TokenDecoder, TokenStream
from tts_engine.cosyvoice.sampling import Sampling
from tts_engine.errors import AtCapacity, BadRequest, EngineFailed

#: a token of a prompt that a hook looks for
MARKED = 4242
PROMPTS = [
    LlmPrompt((11, 12, 13), tuple(range(100, 131))),
    LlmPrompt((), ()),
    LlmPrompt((900, 901), tuple(range(700, 950))),
    LlmPrompt((5, 6, 7, 8, 9, 10), tuple(range(3, 12))),
]


@pytest.fixture
def llm(model: Any) -> Iterator[Any]:
    """The session's language model; whatever hooks a test leaves are an error of the test."""
    yield model.llm
    assert not any(module._forward_hooks for module in model.llm.modules())


def sequence(llm: Any, stream: TokenStream) -> Tensor:
    """The embeddings [tokens, channels] of a stream so far, as CosyVoice2 lays them out."""
    text = torch.tensor([*stream.prompt.text_ids, *stream.text_ids])
    speech = torch.tensor([*stream.prompt.speech_tokens, *stream.tokens], dtype=torch.int64)
    start, turn = llm.llm_embedding.weight
    return torch.cat(
        (
            start[None],
            llm.llm.model.model.embed_tokens(text),
            turn[None],
            llm.speech_embedding(speech),
        )
    )


@torch.inference_mode()
def full_pass(llm: Any, inputs: Tensor) -> Tensor:
    """Logits [tokens, vocabulary] by transformers itself, without a cache."""
    hidden = llm.llm.model.model(inputs_embeds=inputs[None], use_cache=False).last_hidden_state
    return llm.llm_decoder(hidden[0])


@contextmanager
def hooked(module: nn.Module, hook: Callable[..., Any]) -> Iterator[None]:
    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def biased(llm: Any, token: int, bias: float) -> Any:
    """Within it, a token of the head is likelier by `bias`."""

    def add(_module: nn.Module, _inputs: Any, logits: Tensor) -> Tensor:
        logits[:, token] += bias
        return logits

    return hooked(llm.llm_decoder, add)


def started(
    decoder: TokenDecoder, which: int, *, seed: int = 0, low: int = 0, high: int = 30
) -> TokenStream:
    return decoder.open(
        PROMPTS[which],
        range(20 + which, 25 + 2 * which),
        min_tokens=low,
        max_tokens=high,
        seed=seed,
    )


def decoded(decoder: TokenDecoder, stream: TokenStream) -> list[int]:
    while not stream.done:
        decoder.step([stream])
    return stream.tokens


def alone(llm: Any, which: int, **options: int) -> list[int]:
    decoder = TokenDecoder(llm, max_batch=1)
    return decoded(decoder, started(decoder, which, **options))


class Logits:
    """Keeps what the head gives at each step."""

    def __init__(self) -> None:
        self.of_step: list[Tensor] = []

    def __call__(self, _module: nn.Module, _inputs: Any, logits: Tensor) -> None:
        self.of_step.append(logits.clone())


def furthest(llm: Any, stream: TokenStream, given: list[Tensor]) -> float:
    """The largest difference between the logits that gave each token and one full pass.

    A step's rows are in the decoder's own order: the nearest is the stream's.
    """
    prompt = len(sequence(llm, stream)) - len(stream.tokens)
    wanted = full_pass(llm, sequence(llm, stream))[prompt - 1 :]
    return max(
        (rows - row).abs().amax(dim=-1).min().item()
        for rows, row in zip(given, wanted, strict=False)
    )


@pytest.mark.parametrize("which", range(len(PROMPTS)))
def test_cached_decoding_is_one_full_pass(llm: Any, which: int) -> None:
    decoder = TokenDecoder(llm, max_batch=1)
    stream = started(decoder, which, low=20, high=20)
    with hooked(llm.llm_decoder, logits := Logits()):
        decoded(decoder, stream)
    assert [len(rows) for rows in logits.of_step] == [1] * 20
    assert furthest(llm, stream, logits.of_step) <= 1e-4
    # The measure is able to tell: the step before is far away.
    assert furthest(llm, stream, logits.of_step[1:]) > 1e-2


@pytest.mark.parametrize("seed", range(4))
def test_in_changing_company_each_is_as_alone(llm: Any, seed: int) -> None:
    """Streams open, pause, go on and are cancelled at random; the cache grows on the way."""
    random = Random(seed)
    decoder = TokenDecoder(llm, max_batch=5)
    live: list[tuple[TokenStream, int, list[Tensor]]] = []
    ended: list[tuple[TokenStream, int, list[Tensor]]] = []
    opened = 0
    with hooked(llm.llm_decoder, logits := Logits()):
        while opened < 9 or live:
            if opened < 9 and len(live) < 5 and random.random() < 0.5:
                stream = started(decoder, opened % 4, seed=opened, low=8, high=8 + opened)
                live.append((stream, opened, []))
                opened += 1
            now = random.sample(live, random.randint(0, len(live)))
            found = decoder.step([stream for stream, _, _ in now])
            for (stream, _, given), token in zip(now, found, strict=True):
                given.append(logits.of_step[-1])
                assert stream.done if token is None else stream.tokens[-1] == token
            if now and random.random() < 0.1:
                now[0][0].close()
            ended += [entry for entry in live if entry[0].done]
            live = [entry for entry in live if not entry[0].done]
    for stream, number, given in ended:
        assert furthest(llm, stream, given) <= 1e-4
        wanted = alone(llm, number % 4, seed=number, low=8, high=8 + number)
        assert stream.tokens == wanted[: len(stream.tokens)]
    assert decoder.cache_bytes == 0


def test_four_at_once_share_their_passes(llm: Any) -> None:
    decoder = TokenDecoder(llm, max_batch=4)
    passes = 0

    def count(*_: Any) -> None:
        nonlocal passes
        passes += 1

    streams: list[TokenStream] = []
    with hooked(llm.llm_decoder, count):
        for which in range(4):  # each two steps after the one before
            streams.append(started(decoder, which, low=20, high=20))
            for _ in range(2):
                decoder.step(streams)
        while live := [stream for stream in streams if not stream.done]:
            decoder.step(live)
    assert passes == decoder.steps
    assert decoder.steps / sum(len(stream.tokens) for stream in streams) <= 0.4


@pytest.mark.parametrize("extra", [0, 1, 2])
def test_the_speech_does_not_end_before_its_shortest(llm: Any, extra: int) -> None:
    decoder = TokenDecoder(llm, max_batch=1)
    stream = started(decoder, 0, low=6, high=30)
    with biased(llm, llm.speech_token_size + extra, 1000.0):
        found = [decoder.step([stream])[0] for _ in range(7)]
    assert None not in found[:6]
    assert all(token is not None and token < llm.speech_token_size for token in found[:6])
    assert found[6] is None
    assert stream.done
    assert stream.tokens == found[:6]
    assert decoder.cache_bytes == 0


def test_the_speech_ends_at_its_longest(llm: Any) -> None:
    decoder = TokenDecoder(llm, max_batch=1)
    stream = started(decoder, 0, low=0, high=9)
    with biased(llm, llm.speech_token_size, -1000.0):
        for _ in range(9):
            assert not stream.done
            assert decoder.step([stream])[0] is not None
    assert stream.done
    assert len(stream.tokens) == 9
    assert decoder.cache_bytes == 0


def test_a_seed_gives_its_tokens_again(llm: Any) -> None:
    first, again, other = (alone(llm, 0, seed=seed, low=12, high=12) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_how_tokens_are_drawn_can_be_chosen(llm: Any) -> None:
    """With a nucleus of one and no bound on repetition every seed takes the likeliest."""
    greedy = Sampling(top_k=1, repeat_ratio=2.0)
    decoder = TokenDecoder(llm, max_batch=2, sampling=greedy)
    one, other = (started(decoder, 0, seed=seed, low=10, high=10) for seed in (1, 2))
    assert decoded(decoder, one) == decoded(decoder, other)
    inputs = sequence(llm, one)
    speech = full_pass(llm, inputs)[-11:-1, : llm.speech_token_size]
    assert speech.argmax(dim=-1).tolist() == one.tokens


def test_closing_frees_the_cache(llm: Any) -> None:
    decoder = TokenDecoder(llm, max_batch=3)
    assert decoder.cache_bytes == 0
    streams = [started(decoder, which) for which in (0, 1, 2)]
    waiting = streams[2]
    for _ in range(3):
        decoder.step(streams[:2])
    assert decoder.cache_bytes >= decoder.bytes_per_token * 2 * (31 + 3)
    caches = [weakref.ref(each) for each in gc.get_objects() if is_cache(each)]
    rows = [weakref.ref(stream.row) for stream in streams if stream.row]
    assert caches
    assert len(rows) == 2
    waiting.close()
    streams[0].close()
    assert [row() is None for row in rows] == [True, False]
    assert streams[0].done
    streams[1].close()
    streams[1].close()
    assert [row() for row in rows] == [None, None]
    assert [cache() for cache in caches] == [None] * len(caches)
    assert decoder.cache_bytes == 0
    gone = weakref.ref(streams.pop())
    del waiting
    assert gone() is None


def is_cache(thing: object) -> bool:
    # By its type alone: asking some lazy modules of torch for their class warns.
    return type(thing) is Tensor and thing.dim() == 5 and thing.numel() > 0


def test_a_failed_step_happened_for_nobody(llm: Any) -> None:
    """Stepping each alone tells who is at fault; the others give what they give undisturbed."""

    def fail(_module: nn.Module, inputs: tuple[Tensor], _output: Tensor) -> None:
        if MARKED in inputs[0]:
            raise MemoryError("no room for this one")

    decoder = TokenDecoder(llm, max_batch=3)
    early = started(decoder, 0, seed=5, low=9, high=9)
    decoder.step([early])
    bad = decoder.open(LlmPrompt((), (MARKED,)), [1], min_tokens=1, max_tokens=9, seed=0)
    late = started(decoder, 3, seed=6, low=9, high=9)
    with hooked(llm.speech_embedding, fail):
        for batch in ([early, bad, late], [bad]):
            with pytest.raises(MemoryError):
                decoder.step(batch)
        assert len(early.tokens) == 1
        for batch in ([early], [late]):
            decoder.step(batch)
    bad.close()
    while not late.done:
        decoder.step([stream for stream in (early, late) if not stream.done])
    assert early.tokens == alone(llm, 0, seed=5, low=9, high=9)
    assert late.tokens == alone(llm, 3, seed=6, low=9, high=9)


def test_a_failure_deep_in_the_model_can_be_tried_again(llm: Any) -> None:
    calls = 0

    def fail_once(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise RuntimeError("the device hiccuped")

    decoder = TokenDecoder(llm, max_batch=2)
    streams = [started(decoder, which, seed=which, low=9, high=9) for which in (0, 3)]
    failures = 0
    with hooked(llm.llm.model.model.layers[-1].mlp, fail_once):
        while not streams[0].done:
            try:
                decoder.step(streams)
            except RuntimeError:
                failures += 1
    assert failures == 1
    for which, stream in zip((0, 3), streams, strict=True):
        assert stream.tokens == alone(llm, which, seed=which, low=9, high=9)


def test_numbers_that_break_stay_with_their_stream(llm: Any) -> None:
    def spoil(_module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        return output.masked_fill((inputs[0] == MARKED)[:, None], torch.nan)

    decoder = TokenDecoder(llm, max_batch=3)
    good = started(decoder, 2, seed=7, low=9, high=9)
    bad = decoder.open(LlmPrompt((), (MARKED,) * 200), [1], min_tokens=1, max_tokens=9, seed=0)
    with hooked(llm.speech_embedding, spoil):
        for batch in ([good, bad], [bad]):
            with pytest.raises(EngineFailed, match="not finite"):
                decoder.step(batch)
        decoder.step([good])
    bad.close()
    # The next one takes the place that was spoiled, and is masked there beside the longer one.
    late = started(decoder, 0, seed=8, low=8, high=8)
    while not good.done:
        decoder.step([good, late])
    assert good.tokens == alone(llm, 2, seed=7, low=9, high=9)
    assert late.tokens == alone(llm, 0, seed=8, low=8, high=8)


class Awaited(TorchDispatchMode):
    """Keeps the names of operations whose result the host, on a GPU, would wait for."""

    names = ("_local_scalar_dense", "item", "nonzero", "masked_select", "unique", "equal")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = func.overloadpacket.__name__
        indices = args[1] if name in ("index", "index_put_") else ()
        by_mask = any(index is not None and index.dtype == torch.bool for index in indices)
        if by_mask or name.startswith(self.names):
            self.found.append(name)
        return func(*args, **(kwargs or {}))


def test_nothing_within_a_step_waits_for_the_device(llm: Any) -> None:
    decoder = TokenDecoder(llm, max_batch=3)
    streams = [started(decoder, which, low=9, high=9) for which in range(3)]
    with Awaited() as awaited:
        decoder.step(streams[:2])
        decoder.step(streams)
        decoder.step([streams[0], streams[2]])
    assert awaited.found == []
    with awaited:
        torch.ones(2)[torch.tensor([True, False])]
        torch.ones(()).item()
    assert awaited.found == ["index", "_local_scalar_dense"]


def test_the_text_head_is_not_computed(llm: Any) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("computed for nothing")

    causal = llm.llm.model
    with hooked(causal, refuse), hooked(causal.lm_head, refuse), hooked(causal.model, refuse):
        assert len(alone(llm, 0, low=3, high=3)) == 3


@pytest.mark.parametrize(
    ("prompt", "text", "bounds", "message"),
    [
        (LlmPrompt(), [], (0, 5), "no text"),
        (LlmPrompt(), [1], (6, 5), "Between 6 and 5"),
        (LlmPrompt(), [1], (-1, 5), "Between -1 and 5"),
        (LlmPrompt(), [1], (0, 0), "Between 0 and 0"),
        (LlmPrompt((10**7,)), [1], (0, 5), "text token"),
        (LlmPrompt(), [-1], (0, 5), "text token"),
        (LlmPrompt((), (6561,)), [1], (0, 5), "speech token"),
        (LlmPrompt((), (-1,)), [1], (0, 5), "speech token"),
        (LlmPrompt(), [1], (0, 10**6), "longer than the model"),
    ],
)
def test_what_cannot_be_decoded_is_refused(
    llm: Any, prompt: LlmPrompt, text: list[int], bounds: tuple[int, int], message: str
) -> None:
    decoder = TokenDecoder(llm, max_batch=1)
    low, high = bounds
    with pytest.raises(BadRequest, match=message):
        decoder.open(prompt, text, min_tokens=low, max_tokens=high, seed=0)
    started(decoder, 0)  # the place is still free


def test_places_are_counted(llm: Any) -> None:
    decoder = TokenDecoder(llm, max_batch=2)
    first, _ = started(decoder, 0), started(decoder, 1)
    with pytest.raises(AtCapacity):
        started(decoder, 2)
    first.close()
    third = started(decoder, 2, high=1)
    with pytest.raises(AtCapacity):
        started(decoder, 3)
    decoded(decoder, third)
    started(decoder, 3)


def test_only_live_streams_are_stepped(llm: Any) -> None:
    decoder = TokenDecoder(llm, max_batch=2)
    one, other = started(decoder, 0), started(decoder, 1)
    assert decoder.step([]) == []
    other.close()
    for streams in ([one, other], [one, one]):
        with pytest.raises(ValueError, match="each once"):
            decoder.step(streams)
    assert decoder.steps == 0


class ThirdKind(nn.Module):
    """CosyVoice3's language model: its marks lie among the speech tokens, its head has no bias."""

    def __init__(self, llm: Any) -> None:
        super().__init__()
        size = llm.speech_token_size
        channels = llm.speech_embedding.embedding_dim
        self.llm = llm.llm
        self.speech_token_size = size
        self.sos, self.task_id = size, size + 2
        self.speech_embedding = nn.Embedding(size + 200, channels)
        self.llm_decoder = nn.Linear(channels, size + 200, bias=False)


def test_marks_of_the_third_kind(llm: Any) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        third = ThirdKind(llm)
    decoder = TokenDecoder(third, max_batch=1)
    stream = started(decoder, 0, low=3, high=3)
    with hooked(third.llm_decoder, logits := Logits()):
        decoder.step([stream])
    text = torch.tensor([*PROMPTS[0].text_ids, *stream.text_ids])
    size = third.speech_token_size
    inputs = torch.cat(
        (
            third.speech_embedding(torch.tensor([size])),
            cast("Any", third.llm).model.model.embed_tokens(text),
            third.speech_embedding(torch.tensor([size + 2, *PROMPTS[0].speech_tokens])),
        )
    )
    wanted = full_pass(third, inputs)[-1:]
    assert (wanted - logits.of_step[0]).abs().max() <= 1e-4


def test_half_precision(llm: Any) -> None:
    half = copy.deepcopy(llm).to(torch.bfloat16)
    decoder = TokenDecoder(half, max_batch=2)
    assert decoder.bytes_per_token * 2 == TokenDecoder(llm, max_batch=1).bytes_per_token
    streams = [started(decoder, which, low=5, high=5) for which in (0, 1)]
    while not streams[0].done:
        decoder.step(streams)
    assert [len(stream.tokens) for stream in streams] == [5, 5]
