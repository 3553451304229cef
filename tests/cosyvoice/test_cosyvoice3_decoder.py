"""CosyVoice 3's language model, from a checkout: exact beside one full pass, in any company."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.cosyvoice.test_decoder import Logits, biased, decoded, full_pass, hooked, started
from tts_engine.cosyvoice.decoder import TokenDecoder, TokenStream
from tts_engine.cosyvoice.loader import CosyVoice
from tts_engine.cosyvoice.style import END_OF_PROMPT, word


@pytest.fixture
def llm(model3: CosyVoice) -> Any:
    return model3.llm


def sequence(llm: Any, stream: TokenStream) -> Tensor:
    """The embeddings [tokens, channels] of a stream so far: the marks are speech tokens here."""
    text = torch.tensor([*stream.prompt.text_ids, *stream.text_ids])
    before = torch.tensor([llm.sos])
    after = torch.tensor([llm.task_id, *stream.prompt.speech_tokens, *stream.tokens])
    embedded = llm.llm.model.model.embed_tokens(text)
    return torch.cat((llm.speech_embedding(before), embedded, llm.speech_embedding(after)))


def furthest(llm: Any, stream: TokenStream, given: list[Tensor]) -> float:
    """The largest difference between the logits that gave each token and one full pass."""
    inputs = sequence(llm, stream)
    wanted = full_pass(llm, inputs)[len(inputs) - len(stream.tokens) - 1 :]
    return max(
        (rows - row).abs().amax(dim=-1).min().item()
        for rows, row in zip(given, wanted, strict=False)
    )


def test_the_marks_are_where_the_model_has_them(llm: Any) -> None:
    size = llm.speech_token_size
    assert (llm.sos, llm.eos_token, llm.task_id) == (size, size + 1, size + 2)
    assert not hasattr(llm, "llm_embedding")
    assert llm.llm_decoder.bias is None


@torch.inference_mode()
def test_a_batch_is_each_alone_and_one_full_pass(llm: Any) -> None:
    decoder = TokenDecoder(llm, max_batch=4)
    streams: list[TokenStream] = []
    given: list[list[Tensor]] = [[], [], [], []]
    with hooked(llm.llm_decoder, logits := Logits()):
        while not streams or not all(stream.done for stream in streams):
            if len(streams) < 4:  # each joins a step after the one before
                count = len(streams)
                streams.append(started(decoder, count, seed=count, low=15, high=15 + count))
            live = [number for number, stream in enumerate(streams) if not stream.done]
            decoder.step([streams[number] for number in live])
            for number in live:
                given[number].append(logits.of_step[-1])
    for number, stream in enumerate(streams):
        assert furthest(llm, stream, given[number]) <= 1e-4
        assert furthest(llm, stream, given[number][1:]) > 1e-2  # the measure is able to tell
        single = TokenDecoder(llm, max_batch=1)
        one = started(single, number, seed=number, low=15, high=15 + number)
        assert decoded(single, one) == stream.tokens


@pytest.mark.parametrize("extra", [0, 1, 3, 199])
def test_every_id_beyond_speech_ends_it_and_none_before_its_shortest(llm: Any, extra: int) -> None:
    decoder = TokenDecoder(llm, max_batch=1)
    stream = started(decoder, 0, low=4, high=30)
    with biased(llm, llm.speech_token_size + extra, 1000.0):
        found = [decoder.step([stream])[0] for _ in range(5)]
    assert all(token is not None and token < llm.speech_token_size for token in found[:4])
    assert found[4] is None
    assert stream.done


@pytest.mark.parametrize("style", ["", "开心", "用四川话说", "laughter"])
def test_every_prompt_has_its_end_mark_once(model3: CosyVoice, style: str) -> None:
    said = word("你好。", style=style, voice_text="今天<|endofprompt|>天气好。", kind="cosyvoice3")
    [mark] = model3.tokenizer.encode(END_OF_PROMPT)
    system = model3.tokenizer.encode("You are a helpful assistant.")
    ids = model3.tokenizer.encode(said.prompt_text)
    assert ids[: len(system)] == system
    assert [*ids, *model3.tokenizer.encode(said.text)].count(mark) == 1
