"""Text that comes while it is spoken: read in upstream's order, and decoded as by one full pass."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.cosyvoice.test_decoder import ThirdKind, alone, decoded, full_pass, started
from tts_engine.cosyvoice.decoder import TokenDecoder, TokenStream
from tts_engine.cosyvoice.order import SPEECH, START, TEXT, TURN, Interleaved, LlmPrompt, Whole
from tts_engine.cosyvoice.sampling import Sampling
from tts_engine.errors import BadRequest

#: what a model says next: a token of speech, FILL when it wants text, END
Next = Callable[[Sequence[tuple[str, int]], bool], int]
FILL, END = -1, -2
GREEDY = Sampling(top_k=1, repeat_ratio=2.0)
LONGEST = 60


def upstream(
    prompt: LlmPrompt, pieces: Sequence[Sequence[int]], say: Next
) -> tuple[list[tuple[str, int]], list[int]]:
    """What upstream's loop reads and says, written down plainly.

    Two repairs: a token is not read twice before the rest of the text, and a text that is whole
    before it was begun is read as a whole.

    Args:
        prompt: what was said before.
        pieces: of the text; the next is taken where there is not enough of it.
        say: what the model says after what was read, and whether it may end there.

    Returns:
        Kinds and ids of what was read, and the speech.
    """
    coming = list(pieces)
    read = [("mark", START)]
    read += [("text", each) for each in prompt.text_ids[: prompt.told]]
    text = list(prompt.text_ids[prompt.told :])
    before, said = list(prompt.speech_tokens), list[int]()
    groups = max(1, -(-len(before) // SPEECH))
    due = SPEECH - len(before) % SPEECH

    def take(count: int) -> bool:
        while len(text) < count and coming:
            text.extend(coming.pop(0))
        return len(text) >= count

    if take(TEXT * groups):
        for _ in range(groups):
            read += [("text", text.pop(0)) for _ in range(TEXT)]
            read += [("speech", before.pop(0)) for _ in before[:SPEECH]]
        while True:
            for _ in range(due):
                token = say(read, False)
                if token == FILL:
                    break
                said.append(token)
                read.append(("speech", token))
                if len(said) == LONGEST:
                    return read, said
            due = SPEECH
            if not take(TEXT):
                break
            read += [("text", text.pop(0)) for _ in range(TEXT)]
    read += [*(("text", each) for each in text), ("mark", TURN)]
    read += [("speech", each) for each in before]
    while len(said) < LONGEST and (token := say(read, True)) != END:
        said.append(token)
        read.append(("speech", token))
    return read, said


class Reader:
    """Reads an order as the decoder does, and says what `say` says."""

    def __init__(self, prompt: LlmPrompt, say: Next) -> None:
        self.order = Interleaved(prompt)
        self.read: list[tuple[str, int]] = []
        self.said: list[int] = []
        self.over = False
        self._say = say

    def step(self) -> None:
        parts = self.order.upcoming()
        assert parts == self.order.upcoming()
        assert all(part.ids for part in parts)
        assert self.order.may_end != self.order.may_fill
        self.read += [(part.kind, each) for part in parts for each in part.ids]
        token = self._say(self.read, self.order.may_end)
        self.over = token == END or len(self.said) + (token >= 0) == LONGEST
        self.order.drawn(token if token >= 0 else None)
        if token >= 0:
            self.said.append(token)


def scripted(seed: int) -> Next:
    """A model that says something for what it read, and asks and ends at random."""

    def say(read: Sequence[tuple[str, int]], may_end: bool) -> int:
        random = Random(zlib.crc32(repr((seed, read)).encode()))
        if random.random() < 0.05:
            return END if may_end else FILL
        return random.randrange(1000)

    return say


PIECES = st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=12), min_size=1, max_size=12)


@given(
    text=st.lists(st.integers(100, 199), max_size=30),
    speech=st.lists(st.integers(200, 299), max_size=50),
    told=st.integers(0, 3),
    pieces=PIECES,
    seed=st.integers(0, 10_000),
)
def test_it_reads_and_says_what_upstream_does(
    text: list[int], speech: list[int], told: int, pieces: list[list[int]], seed: int
) -> None:
    prompt = LlmPrompt(tuple(text), tuple(speech), told=min(told, len(text)))
    reader, coming = Reader(prompt, scripted(seed)), list(pieces)
    while not reader.over:
        while not reader.order.ready:
            if coming:
                reader.order.push(coming.pop(0))
            else:
                reader.order.finish()
        reader.step()
    read, said = upstream(prompt, pieces, scripted(seed))
    assert reader.said == said
    # What the model has said last is read in a step that does not come any more.
    assert reader.read == read[: len(reader.read)]
    assert len(read) - len(reader.read) <= 1
    assert [id for kind, id in reader.read if kind == "mark"][:1] == [START]


def test_a_text_that_is_whole_in_time_is_read_as_a_whole() -> None:
    prompt = LlmPrompt((1, 2, 3), tuple(range(40)), told=1)
    order = Interleaved(prompt)
    order.push([4, 5])
    assert not order.ready
    order.push(range(6, 60))
    assert order.ready
    order.finish()
    assert order.upcoming() == Whole(prompt, range(4, 60)).upcoming()
    order.drawn(7)
    assert [part.ids for part in order.upcoming()] == [(7,)]


def rest_of(decoder: TokenDecoder, stream: TokenStream, pieces: Sequence[Sequence[int]]) -> None:
    """Feeds a stream whenever it wants more, to its end."""
    coming = list(pieces)
    while not stream.done:
        feed(stream, coming)
        if stream.ready:
            decoder.step([stream])


def feed(stream: TokenStream, coming: list[Sequence[int]]) -> None:
    while not stream.done and not stream.ready:
        if coming:
            stream.push(coming.pop(0))
        else:
            stream.finish(min_tokens=0, max_tokens=LONGEST)


def greedy(llm: Any, fill: int) -> Next:
    """The likeliest by one full pass over what was read."""

    def say(read: Sequence[tuple[str, int]], may_end: bool) -> int:
        logits = full_pass(llm, embedded(llm, read))[-1]
        size = llm.speech_token_size
        permitted = torch.full_like(logits, -torch.inf)
        permitted[:size] = 0
        if may_end:
            permitted[size:] = 0
        permitted[fill] = -torch.inf if may_end else 0
        token = int((logits + permitted).argmax())
        return token if token < size else FILL if token == fill else END

    return say


def embedded(llm: Any, read: Sequence[tuple[str, int]]) -> torch.Tensor:
    marks = llm.llm_embedding.weight if hasattr(llm, "llm_embedding") else None
    rows = []
    for kind, id in read:
        if kind == "text":
            rows.append(llm.llm.model.model.embed_tokens.weight[id])
        elif kind == "speech":
            rows.append(llm.speech_embedding.weight[id])
        elif marks is not None:
            rows.append(marks[id])
        else:
            at = llm.sos if id == START else llm.task_id
            rows.append(llm.speech_embedding.weight[at])
    return torch.stack(rows)


CASES = [
    (LlmPrompt((11, 12, 13), ()), [range(20, 24), range(30, 32), range(40, 51)]),
    (LlmPrompt(tuple(range(300, 315)), tuple(range(100, 138))), [[7]] * 12),
    (LlmPrompt(tuple(range(300, 318)), tuple(range(100, 130))), [range(50, 70), range(80, 83)]),
    (LlmPrompt((5, 6, 7), (), told=3), [range(20, 40)]),
]


@pytest.fixture
def llm(model: Any) -> Any:
    """A copy that asks for text now and then, and ends."""
    eager = copy.deepcopy(model.llm)
    with torch.inference_mode():
        size = eager.speech_token_size
        eager.llm_decoder.bias[size + 2] += 1.5
        eager.llm_decoder.bias[size] += 1.5
    return eager


@pytest.mark.parametrize("case", range(len(CASES)))
def test_decoding_is_upstream_s_loop_by_full_passes(llm: Any, case: int) -> None:
    prompt, pieces = CASES[case]
    decoder = TokenDecoder(llm, max_batch=1, sampling=GREEDY)
    stream = opened(decoder, prompt, pieces[0])
    rest_of(decoder, stream, pieces[1:])
    _, said = upstream(prompt, pieces, greedy(llm, llm.speech_token_size + 2))
    assert stream.tokens == said
    assert decoder.cache_bytes == 0


def opened(
    decoder: TokenDecoder, prompt: LlmPrompt, first: Sequence[int], *, seed: int = 0
) -> TokenStream:
    return decoder.open(prompt, first, min_tokens=0, max_tokens=LONGEST, seed=seed, more=True)


def test_marks_and_sign_of_the_third_kind(model: Any) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(2)
        third: Any = ThirdKind(model.llm)
    prompt, pieces = CASES[2]
    decoder = TokenDecoder(third, max_batch=1, sampling=GREEDY)
    stream = opened(decoder, prompt, pieces[0])
    rest_of(decoder, stream, pieces[1:])
    _, said = upstream(prompt, pieces, greedy(third, third.speech_token_size + 3))
    assert stream.tokens == said


def test_in_company_each_is_as_alone(llm: Any) -> None:
    """Texts that come in pieces beside texts that are whole, each fed when it pleases."""
    alone_said: list[list[int]] = []
    for number, (prompt, pieces) in enumerate(CASES):
        decoder = TokenDecoder(llm, max_batch=1)
        stream = opened(decoder, prompt, pieces[0], seed=number)
        rest_of(decoder, stream, pieces[1:])
        alone_said.append(stream.tokens)
    decoder = TokenDecoder(llm, max_batch=6)
    streams = [opened(decoder, p, pieces[0], seed=n) for n, (p, pieces) in enumerate(CASES)]
    coming = [list(pieces[1:]) for _, pieces in CASES]
    wholes = [started(decoder, which, seed=which, low=25, high=25) for which in (0, 2)]
    random = Random(5)
    while live := [each for each in (*streams, *wholes) if not each.done]:
        for stream, texts in zip(streams, coming, strict=True):
            if random.random() < 0.6:
                feed(stream, texts)
        decoder.step([each for each in live if each.ready and random.random() < 0.8])
    assert [stream.tokens for stream in streams] == alone_said
    for which, whole in zip((0, 2), wholes, strict=True):
        assert whole.tokens == alone(llm, which, seed=which, low=25, high=25)
    assert decoder.cache_bytes == 0


def test_a_stream_that_waits_for_text_cannot_be_stepped(llm: Any) -> None:
    decoder = TokenDecoder(llm, max_batch=1)
    stream = opened(decoder, LlmPrompt(), [1, 2])
    assert not stream.ready
    with pytest.raises(ValueError, match="ready"):
        decoder.step([stream])
    stream.push([3, 4, 5])
    assert stream.ready
    stream.close()
    assert not stream.ready


def test_a_step_that_fails_can_be_tried_again(llm: Any) -> None:
    """Also one that reads several tokens behind others."""
    prompt, pieces = CASES[0]
    calls = 0

    def fail_now_and_then(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise RuntimeError("the device hiccuped")

    decoder = TokenDecoder(llm, max_batch=1)
    stream, coming = opened(decoder, prompt, pieces[0]), list(pieces[1:])
    handle = llm.llm.model.model.layers[-1].mlp.register_forward_hook(fail_now_and_then)
    failures = 0
    while not stream.done:
        feed(stream, coming)
        try:
            decoder.step([stream])
        except RuntimeError:
            failures += 1
    handle.remove()
    other = TokenDecoder(llm, max_batch=1)
    undisturbed = opened(other, prompt, pieces[0])
    rest_of(other, undisturbed, pieces[1:])
    assert failures
    assert stream.tokens == undisturbed.tokens


def test_bounds_are_known_at_the_end(model: Any) -> None:
    llm = copy.deepcopy(model.llm)
    with torch.inference_mode():
        llm.llm_decoder.bias[llm.speech_token_size] += 1000.0  # it would end at once
    decoder = TokenDecoder(llm, max_batch=2)
    stream = opened(decoder, LlmPrompt(), range(5))
    for _ in range(SPEECH):
        assert decoder.step([stream]) != [None]
    assert not stream.ready
    stream.finish(min_tokens=18, max_tokens=30)
    while not stream.done:
        decoder.step([stream])
    assert len(stream.tokens) == 18
    late = opened(decoder, LlmPrompt(), range(5))
    for _ in range(SPEECH):
        decoder.step([late])
    late.finish(min_tokens=2, max_tokens=SPEECH)
    assert late.done
    assert decoder.cache_bytes == 0


def test_what_cannot_be_read_is_refused(llm: Any) -> None:
    decoder = TokenDecoder(llm, max_batch=1)
    stream = opened(decoder, LlmPrompt(), range(5))
    with pytest.raises(BadRequest, match="text token"):
        stream.push([10**7])
    with pytest.raises(BadRequest, match="longer than the model"):
        stream.push([1] * 10**6)
    assert decoded_after(decoder, stream)


def decoded_after(decoder: TokenDecoder, stream: TokenStream) -> list[int]:
    stream.finish(min_tokens=3, max_tokens=9)
    return decoded(decoder, stream)
