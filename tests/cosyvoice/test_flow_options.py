"""The flow's options: kinds of caches, steps, precision; trimming prompts; what it refuses."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.cosyvoice.flow_case import far, prompt, say, speech, upstream
from tts_engine.cosyvoice.flow import IncrementalFlow
from tts_engine.cosyvoice.loader import CosyVoice
from tts_engine.cosyvoice.prompt import trim_prompt
from tts_engine.errors import EngineFailed

EXACT = 1e-4


@pytest.fixture(scope="module")
def flow(module: Any) -> IncrementalFlow:
    return IncrementalFlow(module, pad=False)


def test_hidden_states_in_the_cache_give_the_same_as_keys_and_values(
    module: Any, flow: IncrementalFlow
) -> None:
    hidden, one, tokens = IncrementalFlow(module, cache="hidden"), prompt(62), speech(90)
    expected = upstream(module, one, tokens)
    assert far(say(hidden, one.voice(hidden), tokens), expected) < EXACT
    assert far(say(flow, one.voice(flow), tokens), expected) < EXACT


@pytest.mark.parametrize(("steps", "schedule"), [(1, "cosine"), (5, "cosine"), (4, "linear")])
def test_other_steps_are_upstreams_with_the_same(
    module: Any, steps: int, schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder: Any = module.decoder
    decode = decoder.forward
    monkeypatch.setattr(
        decoder, "forward", lambda **given: decode(**(given | {"n_timesteps": steps}))
    )
    monkeypatch.setattr(decoder, "t_scheduler", schedule)
    flow, one, tokens = IncrementalFlow(module, steps=steps), prompt(37), speech(40)
    assert far(say(flow, one.voice(flow), tokens), upstream(module, one, tokens)) < EXACT


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_time_and_state_are_in_single_precision_when_the_rest_is_in_half(
    module: Any, dtype: torch.dtype
) -> None:
    one, tokens = prompt(12), speech(13)
    exact = upstream(module, one, tokens)
    half = copy.deepcopy(module).to(dtype)
    flow = IncrementalFlow(half)
    ours = say(flow, one.voice(flow), tokens)
    assert ours.dtype == torch.float32
    assert far(ours, exact) < far(upstream(half, one, tokens), exact) / 2


def test_a_flow_may_be_in_another_precision_than_its_module(module: Any) -> None:
    one, tokens = prompt(12), speech(13)
    half = IncrementalFlow(copy.deepcopy(module).half())
    cast = IncrementalFlow(module, dtype=torch.float16)
    assert half.bytes_per_second() == cast.bytes_per_second()
    assert far(say(half, one.voice(half), tokens), say(cast, one.voice(cast), tokens)) < 0.02


def test_a_voice_without_complete_blocks_holds_no_frames(flow: IncrementalFlow) -> None:
    voice = prompt(27).voice(flow)
    assert voice.tail == tuple(prompt(27).tokens)
    assert all(store.shape[-2] == 0 for store in (*voice.start.encoder, *voice.start.estimator))


@given(st.integers(0, 400))
def test_trimming_leaves_ten_to_fifteen_tokens_to_the_first_block(tokens: int) -> None:
    cut = trim_prompt(tokens)
    left = -(tokens - cut) % 25
    assert 0 <= cut <= max(0, tokens - 1)
    assert left in range(10, 16) or (tokens < 10 and cut == 0)
    assert all(-(tokens - less) % 25 not in range(10, 16) for less in range(cut))


def test_a_trimmed_voice_speaks_after_thirteen_to_eighteen_tokens(flow: IncrementalFlow) -> None:
    one = prompt(87 - trim_prompt(87))
    stream = flow.open(one.voice(flow))
    needed = stream.need
    assert 13 <= needed <= 18
    stream.push(speech(needed))
    (mel,) = flow.step([stream])
    assert mel.shape == (80, 2 * (needed - 3))


@pytest.mark.parametrize(
    "strange",
    [
        lambda flow: SimpleNamespace(encoder=None),
        lambda flow: _with(flow.encoder.encoders[0], conv_module=torch.nn.Identity()),
        lambda flow: _with(flow.decoder.estimator, static_chunk_size=30),
        lambda flow: _with(
            flow.decoder.estimator.down_blocks[0][1][0].ff.net[0], approximate="tanh"
        ),
        lambda flow: flow.decoder.estimator.down_blocks[0].__setitem__(2, torch.nn.Identity()),
    ],
)
def test_another_architecture_is_refused(
    model: CosyVoice, strange: Callable[[Any], object]
) -> None:
    flow = copy.deepcopy(model.flow)
    changed = strange(flow)
    with pytest.raises(EngineFailed, match="CosyVoice 2"):
        IncrementalFlow(changed if isinstance(changed, SimpleNamespace) else flow)


def _with(module: torch.nn.Module, **changed: object) -> None:
    for name, value in changed.items():
        setattr(module, name, value)
