"""What is particular to CosyVoice 3's flow; test_flow*.py have what both generations share."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.cosyvoice.dit_case import checkouts_flow, dit_flow, plain_flow
from tests.cosyvoice.flow_case import drain, far, prompt, say, speech, upstream
from tts_engine.cosyvoice import dit_attention
from tts_engine.cosyvoice.dit_attention import Rotation
from tts_engine.cosyvoice.export import export_block
from tts_engine.cosyvoice.flow import IncrementalFlow
from tts_engine.cosyvoice.flow_block import BlockFlow
from tts_engine.cosyvoice.flow_recompute import RecomputedFlow
from tts_engine.cosyvoice.flow_stream import FlowVoice
from tts_engine.cosyvoice.loader import CosyVoice
from tts_engine.cosyvoice.tensorrt_plan import ESTIMATOR_INPUTS, ESTIMATOR_OUTPUT
from tts_engine.errors import EngineFailed

EXACT = 1e-4


@pytest.fixture(scope="module")
def module(home: Path | None) -> Any:
    return dit_flow(home)


@pytest.mark.parametrize(("prompted", "tokens"), [(1, 1), (37, 64), (62, 150)])
def test_the_plain_flow_is_a_checkouts(home: Path | None, prompted: int, tokens: int) -> None:
    if home is None:
        pytest.skip("COSYVOICE_HOME names no checkout")
    one, said = prompt(prompted), speech(tokens)
    plain, theirs = plain_flow(), checkouts_flow(home)
    assert torch.equal(plain.decoder.rand_noise, theirs.decoder.rand_noise)
    assert far(upstream(plain, one, said), upstream(theirs, one, said)) < 1e-5


@pytest.mark.parametrize("cache", ["kv", "hidden"])
def test_a_models_flow_equals_upstreams_full_pass(model3: CosyVoice, cache: str) -> None:
    """The shapes of a model's directory, of which the tiny one has a single head."""
    flow = IncrementalFlow(model3.flow, cache="kv" if cache == "kv" else "hidden", pad=True)
    one, tokens = prompt(37), speech(64)
    assert far(say(flow, one.voice(flow), tokens), upstream(model3.flow, one, tokens)) < EXACT


def test_upstreams_chunks_are_what_its_full_pass_gives(home: Path | None) -> None:
    """So equality to one is equality to both."""
    if home is None:
        pytest.skip("COSYVOICE_HOME names no checkout")
    theirs, one, tokens = checkouts_flow(home), prompt(37), speech(64)
    whole = upstream(theirs, one, tokens)
    for known in (13 + 3, 38 + 3):
        chunk = upstream(theirs, one, tokens[:known], finalize=False)
        assert chunk.shape[1] == 2 * (known - 3)
        assert far(chunk, whole[:, : chunk.shape[1]]) < EXACT


def test_positions_count_from_the_prompts_start(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, one, tokens = IncrementalFlow(module), prompt(37), speech(40)
    voice = one.voice(flow)
    expected = upstream(module, one, tokens)
    assert far(say(flow, voice, tokens), expected) < EXACT
    monkeypatch.setattr(
        dit_attention, "Rotation", lambda starts, frames: Rotation([0] * len(starts), frames)
    )
    assert far(say(flow, voice, tokens), expected) > 10 * EXACT


def test_a_turned_head_keeps_its_precision_far_from_the_start() -> None:
    x = torch.randn(2, 50, 64)
    turned = Rotation([14_950], 50)(x)
    exponents = torch.arange(0, 64, 2).double() / 64
    angles = torch.arange(14_950, 15_000).double()[:, None] * 10000.0**-exponents
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)))
    exact = torch.view_as_real(pairs * torch.exp(1j * angles)).flatten(-2)
    assert far(turned, exact) < 0.01
    assert far(Rotation([14_950], 50)(x.half()), exact) < 0.02


@pytest.mark.parametrize(("cache", "values"), [("kv", 2 * 128), ("hidden", 64 + 64)])
def test_what_a_frame_takes(module: Any, cache: str, values: int) -> None:
    """Two heads of 64, 64 channels, two layers; nothing else grows."""
    flow = IncrementalFlow(module, steps=10, cache="kv" if cache == "kv" else "hidden")
    assert flow.bytes_per_second() == 50 * 10 * 2 * 2 * values * 4
    voice = prompt(53).voice(flow)
    assert voice.start.encoder == ()
    assert sum(each.nbytes for each in voice.start.estimator) == 2 * flow.bytes_per_second()


def test_a_cancelled_utterance_leaves_nothing(module: Any) -> None:
    flow = IncrementalFlow(module)
    voice = prompt(37).voice(flow)
    stream = flow.open(voice)
    stream.push(speech(45))
    drain(flow, stream)
    cache = stream.cache
    stores = [store.with_next(0).untyped_storage() for store in cache.estimator]
    held = [weakref.ref(each) for each in (cache, cache.contexts, *cache.estimator)]
    held += [weakref.ref(each) for each in cache.encoder_contexts]
    assert all(store.nbytes() for store in stores)
    del cache, stores
    stream.close()
    gc.collect()
    assert [each() for each in held] == [None] * len(held)


class _Lanes:
    """The module's own estimator in an engine's place."""

    def __init__(self, flow: Any) -> None:
        self._estimator = flow.decoder.estimator

    def __len__(self) -> int:
        return 1

    def each(self, jobs: list[Callable[..., Any]]) -> list[Any]:
        return [job(0, self._run) for job in jobs]

    def _run(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        values = [given[name] for name in ESTIMATOR_INPUTS]
        return {ESTIMATOR_OUTPUT: self._estimator(*values, streaming=True)}


def test_with_a_streaming_estimator_recomputing_is_exact(module: Any) -> None:
    lanes: Any = _Lanes(module)
    flow, one, tokens = RecomputedFlow(module, lanes=lanes), prompt(37), speech(29)
    voice: FlowVoice = one.voice(flow)
    assert voice.start.estimator[0].shape == (50, 80)
    assert far(say(flow, voice, tokens), upstream(module, one, tokens)) < EXACT


def test_the_block_that_is_exported_is_not_of_this_flow(module: Any, tmp_path: Path) -> None:
    lanes: Any = _Lanes(module)
    with pytest.raises(EngineFailed, match="CosyVoice 2"):
        BlockFlow(module, lanes=lanes, past=100)
    with pytest.raises(EngineFailed, match="CosyVoice 2"):
        export_block(IncrementalFlow(module), tmp_path / "block.onnx", streams=1, past=100)
    assert not any(tmp_path.iterdir())


def _estimator(**changed: object) -> Callable[[Any], object]:
    return lambda flow: _with(flow.decoder.estimator, **changed)


@pytest.mark.parametrize(
    "strange",
    [
        lambda flow: _with(flow.decoder, estimator=torch.nn.Identity()),
        _estimator(static_chunk_size=49),
        _estimator(long_skip_connection=torch.nn.Identity()),
        lambda flow: _with(flow.decoder.estimator.rotary_embed, interpolation_factor=2.0),
        lambda flow: _with(flow.decoder.estimator.rotary_embed, scale=torch.ones(32)),
        lambda flow: flow.decoder.estimator.rotary_embed.inv_freq.mul_(0.5),
        lambda flow: _with(flow.decoder.estimator.input_embed.proj, in_features=240),
        lambda flow: _with(
            flow.decoder.estimator.transformer_blocks[1].ff.ff[0][1], approximate="none"
        ),
        lambda flow: _with(
            flow.decoder.estimator.transformer_blocks[0].attn, processor=SimpleNamespace()
        ),
    ],
)
def test_another_architecture_is_refused(module: Any, strange: Callable[[Any], object]) -> None:
    flow = copy.deepcopy(module)
    strange(flow)
    with pytest.raises(EngineFailed, match="CosyVoice 3"):
        IncrementalFlow(flow)


def _with(module: torch.nn.Module, **changed: object) -> None:
    for name, value in changed.items():
        setattr(module, name, value)
