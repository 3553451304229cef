"""The exported block, in onnxruntime, computes what the eager one does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor

from tests.cosyvoice.flow_case import far, prompt, speech
from tts_engine.cosyvoice.export import INPUTS, OUTPUTS, export_block
from tts_engine.cosyvoice.flow import IncrementalFlow
from tts_engine.cosyvoice.flow_attention import Attention
from tts_engine.cosyvoice.flow_stream import FlowStream
from tts_engine.cosyvoice.loader import CosyVoice

PAST = 220


@dataclass
class _Watched:
    """An estimator that notes what it is given and what it gives, at every Euler step."""

    flow: IncrementalFlow
    given: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)
    gave: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._estimator = self.flow.estimator

    def __call__(
        self, x: Tensor, times: Tensor, contexts: Tensor, attend: Attention
    ) -> tuple[Tensor, Tensor]:
        self.given.append((x.clone(), times.clone(), contexts.clone()))
        self.gave.append(self._estimator(x, times, contexts, attend))
        return self.gave[-1]


@pytest.fixture(scope="module")
def exported(model: CosyVoice, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "block.onnx"
    export_block(IncrementalFlow(model.flow), path, streams=2, past=PAST)
    return path


@pytest.fixture(scope="module")
def session(exported: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(exported), options, providers=["CPUExecutionProvider"])


def _stream(flow: IncrementalFlow, prompted: int, tokens: int) -> FlowStream:
    stream = flow.open(prompt(prompted).voice(flow))
    stream.push(speech(tokens))
    stream.finish()
    return stream


def _cache(streams: Sequence[FlowStream], step: int, fill: float) -> Tensor:
    """Keys and values of the past, behind which there is something that nobody may look at."""
    rows: list[Tensor] = []
    for stream in streams:
        store = stream.cache.estimator[step]
        kept = torch.cat([store.prefix, store.with_next(0)], -2)
        whole = kept.new_full((*kept.shape[:-2], PAST, kept.shape[-1]), fill)
        whole[..., : kept.shape[-2], :] = kept
        rows.append(whole)
    return torch.cat(rows, 2)


@pytest.mark.parametrize("step", [0, 3, 9])
def test_it_equals_the_eager_block(
    model: CosyVoice,
    session: onnxruntime.InferenceSession,
    step: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two streams with pasts of 150 and 50 frames; the second is in its last, padded block."""
    flow = IncrementalFlow(model.flow, pad=True)
    streams = [_stream(flow, 62, 80), _stream(flow, 37, 20)]
    flow.step(streams)
    cache = _cache(streams, step, fill=3.0)
    past = [store.total for store in (each.cache.estimator[step] for each in streams)]
    assert past == [150, 100]
    counts = [2 * each.count for each in streams]
    assert counts == [50, 14]
    watched = _Watched(flow)
    monkeypatch.setattr(flow, "estimator", watched)
    flow.step(streams)
    x, times, contexts = watched.given[step]
    values = (x, times, contexts, cache, _rows(past), _rows(counts))
    fed = {name: value.numpy() for name, value in zip(INPUTS, values, strict=True)}
    velocity, after, kept = (
        torch.from_numpy(np.asarray(each)) for each in session.run(list(OUTPUTS), fed)
    )
    whole = _cache(streams, step, fill=0.0)
    for row, (start, count) in enumerate(zip(past, counts, strict=True)):
        mine = slice(2 * row, 2 * row + 2)
        assert far(velocity[mine, :count], watched.gave[step][0][mine, :count]) < 1e-4
        added = whole[:, :, mine, :, start : start + count]
        assert far(kept[:, :, mine, :, :count], added) < 1e-4
    assert far(after[:2], watched.gave[step][1][:2]) < 1e-4


def test_its_shapes_are_fixed(session: onnxruntime.InferenceSession) -> None:
    found = {each.name: each.shape for each in session.get_inputs()}
    assert list(found) == list(INPUTS)
    assert found["cache"][2:5] == [4, 2, PAST]
    assert found["x"][:2] == [4, 50]
    assert [each.name for each in session.get_outputs()] == list(OUTPUTS)
    assert all(isinstance(size, int) for shape in found.values() for size in shape)


def _rows(values: Sequence[int]) -> Tensor:
    """One value a stream, for both its rows."""
    return torch.tensor(values).repeat_interleave(2)
