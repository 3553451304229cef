"""The flow's block of one shape by torch: compiled, recorded or plain, it gives upstream's mel."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cosyvoice.flow_case import far, prompt, say, speech
from tests.cosyvoice.recorder import Recorder
from tts_engine.cosyvoice.block_run import StepRun
from tts_engine.cosyvoice.flow import IncrementalFlow
from tts_engine.cosyvoice.flow_block import BlockFlow
from tts_engine.cosyvoice.flow_choice import build_flow
from tts_engine.cosyvoice.graphs import Graphs
from tts_engine.cosyvoice.loader import CosyVoice
from tts_engine.cosyvoice.tensorrt_run import Lanes
from tts_engine.cosyvoice.wire import Settings

EXACT = 1e-4
STEPS = 2


def block_flow(model: CosyVoice, *, compile: bool = False, graphs: Graphs | None = None) -> Any:
    run = StepRun(IncrementalFlow(model.flow).estimator, compile=compile, graphs=graphs)
    return BlockFlow(model.flow, lanes=Lanes([run]), past=150, steps=STEPS)


def test_recorded(model: CosyVoice) -> None:
    """One graph does it all: two streams of a step do not get into each other's way."""
    recorder = Recorder()
    flow = block_flow(model, graphs=Graphs(recorder))
    plain = IncrementalFlow(model.flow, steps=STEPS)
    voices = [prompt(37, seed=seed) for seed in (1, 2)]
    for first, second in (voices, voices[::-1]):
        streams = [flow.open(each.voice(flow)) for each in (first, second)]
        for number, stream in enumerate(streams):
            stream.push(speech(30, seed=number))
            stream.finish()
        found = [
            torch.cat(each, -1) for each in zip(flow.step(streams), flow.step(streams), strict=True)
        ]
        for number, each in enumerate((first, second)):
            said = speech(30, seed=number)
            assert far(found[number], say(plain, each.voice(plain), said)) < EXACT
    assert len(recorder.graphs) == 1
    assert recorder.graphs[0].replays > 8


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, IncrementalFlow),
        ({"compile": True}, BlockFlow),
        ({"cuda_graphs": True}, BlockFlow),
        ({"compile": True, "cache": "hidden"}, IncrementalFlow),
    ],
)
def test_what_is_asked_for_is_built(
    model: CosyVoice, tmp_path: Path, options: dict[str, Any], kind: type
) -> None:
    settings = Settings(model_dir="", voices_dir="", steps=STEPS, **options)
    assert type(build_flow(model, settings, "off", engines=tmp_path)) is kind


def test_compiled(model: CosyVoice, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it can be traced as a whole. Making code of it takes minutes, and is torch's matter."""
    graphs: list[Any] = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend, fullgraph=True))
    flow = block_flow(model, compile=True)
    one, said = prompt(37), speech(40)
    plain = IncrementalFlow(model.flow, steps=STEPS)
    assert far(say(flow, one.voice(flow), said), say(plain, one.voice(plain), said)) < EXACT
    assert len(graphs) == 1
