"""The flow, block by block, gives what upstream's full streaming pass gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.cosyvoice.flow_case import drain, far, prompt, say, speech, upstream
from tts_engine.cosyvoice.flow import IncrementalFlow
from tts_engine.cosyvoice.flow_cache import Cache

EXACT = 1e-4
REMAINDERS = (0, 1, 2, 3, *range(10, 16), 24)


@pytest.fixture(scope="module")
def flow(module: Any) -> IncrementalFlow:
    return IncrementalFlow(module, pad=False)


@pytest.mark.parametrize("remainder", REMAINDERS)
def test_every_length_equals_upstreams_full_pass(
    module: Any, flow: IncrementalFlow, remainder: int
) -> None:
    one = prompt(25 + remainder)
    voice = one.voice(flow)
    pad = -remainder % 25
    for length in {1, pad - 1, pad, pad + 3, pad + 25, pad + 27, pad + 28} - {-1, 0}:
        tokens = speech(length, seed=length)
        assert far(say(flow, voice, tokens), upstream(module, one, tokens)) < EXACT, length


@pytest.mark.parametrize("prompted", [1, 10, 27, 28, 75, 76, 78, 137])
def test_prompts_of_any_length_equal_upstreams(
    module: Any, flow: IncrementalFlow, prompted: int
) -> None:
    one, tokens = prompt(prompted), speech(60)
    voice = one.voice(flow)
    assert voice.start.tokens == max(0, prompted - 3) // 25 * 25
    assert far(say(flow, voice, tokens), upstream(module, one, tokens)) < EXACT


def test_a_long_utterance_stays_equal(module: Any, flow: IncrementalFlow) -> None:
    one, tokens = prompt(62), speech(260)
    assert far(say(flow, one.voice(flow), tokens), upstream(module, one, tokens)) < EXACT


@pytest.mark.parametrize("by", [1, 7, 40])
def test_tokens_in_pieces_give_the_same_as_all_at_once(flow: IncrementalFlow, by: int) -> None:
    voice, tokens = prompt(37).voice(flow), speech(70)
    assert torch.equal(say(flow, voice, tokens, by=by), say(flow, voice, tokens))


def test_a_padded_last_block_gives_the_same(module: Any, flow: IncrementalFlow) -> None:
    padded, one = IncrementalFlow(module, pad=True), prompt(37)
    voices = one.voice(flow), one.voice(padded)
    for length in (1, 12, 13, 14, 40, 41):
        tokens = speech(length, seed=length)
        assert far(say(flow, voices[0], tokens), say(padded, voices[1], tokens)) < EXACT


@pytest.mark.parametrize("kind", ["kv", "hidden"])
def test_a_dropped_cache_is_noticed(module: Any, kind: str) -> None:
    flow = IncrementalFlow(module, cache="hidden" if kind == "hidden" else "kv")
    one, tokens = prompt(37), speech(64)
    voice, nobody = one.voice(flow), prompt(1).voice(flow)
    expected = upstream(module, one, tokens)
    drops = ["estimator", "contexts", *range(len(voice.start.encoder_contexts))]
    for part in [*drops, "encoder"] if voice.start.encoder else drops:
        stream, fresh = flow.open(voice), Cache(nobody.start)
        stream.push(tokens)
        stream.finish()
        blocks = flow.step([stream])
        if isinstance(part, int):
            contexts = list(stream.cache.encoder_contexts)
            contexts[part] = fresh.encoder_contexts[part]
            stream.cache.encoder_contexts = tuple(contexts)
        else:
            setattr(stream.cache, part, getattr(fresh, part))
        blocks += drain(flow, stream)
        assert far(torch.cat(blocks, -1), expected) > 10 * EXACT, part


def test_equality_does_not_hold_for_another_voice(module: Any, flow: IncrementalFlow) -> None:
    one, tokens = prompt(37), speech(40)
    other = replace(one, embedding=-one.embedding)
    assert far(say(flow, other.voice(flow), tokens), upstream(module, one, tokens)) > 0.01
