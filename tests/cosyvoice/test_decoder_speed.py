"""The decoder's passes compiled, and recorded: they give what the plain ones give."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from tests.cosyvoice.recorder import Recorder
from tests.cosyvoice.test_decoder import decoded, started
from tts_engine.cosyvoice.decoder import TokenDecoder
from tts_engine.cosyvoice.graphs import Graphs, check_graphs, record_cuda
from tts_engine.errors import ConfigError


def conversation(decoder: TokenDecoder) -> list[list[int]]:
    """Streams that come and go, one of them longer than the cache's first room."""
    streams = [started(decoder, which, seed=which, low=12, high=12) for which in (0, 2)]
    for _ in range(4):
        decoder.step(streams)
    streams.append(started(decoder, 3, seed=3, low=9, high=9))
    while live := [each for each in streams if not each.done]:
        decoder.step(live)
    again = started(decoder, 1, seed=7, low=8, high=8)
    return [*(each.tokens for each in streams), decoded(decoder, again)]


def test_recorded_passes_give_the_same(model: Any) -> None:
    recorder = Recorder()
    decoder = TokenDecoder(model.llm, max_batch=3, graphs=Graphs(recorder))
    wanted = conversation(TokenDecoder(model.llm, max_batch=3))
    assert conversation(decoder) == wanted
    first = [graph.replays for graph in recorder.graphs]
    assert sum(first) >= 12
    # The cache keeps its size, so that nothing has to be recorded again.
    held = decoder.cache_bytes
    assert held
    assert conversation(decoder) == wanted
    assert decoder.cache_bytes == held
    recorded = len(recorder.graphs)
    assert conversation(decoder) == wanted
    assert len(recorder.graphs) == recorded


def test_streams_that_do_not_lie_together_are_decoded_without(model: Any) -> None:
    recorder = Recorder()
    decoder = TokenDecoder(model.llm, max_batch=3, graphs=Graphs(recorder))
    plain = TokenDecoder(model.llm, max_batch=3)
    found = []
    for each in (decoder, plain):
        streams = [started(each, which, seed=which, low=6, high=6) for which in (0, 1, 3)]
        each.step(streams)
        for _ in range(3):
            each.step([streams[0], streams[2]])
        found.append([stream.tokens for stream in streams])
        for stream in streams:
            stream.close()
    assert found[0] == found[1]
    assert recorder.graphs == []


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_graphs_are_for_gpus(device: str) -> None:
    check_graphs(device)
    with pytest.raises(ConfigError, match="need a GPU"):
        check_graphs("cpu")


def test_recording_warms_up_beside_and_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls, as torch's documentation has them; nothing of it is run."""
    calls: list[str] = []

    class Noted:
        def __init__(self, name: str) -> None:
            self.name = name

        def wait_stream(self, other: Noted) -> None:
            calls.append(f"{self.name} waits for {other.name}")

        def __enter__(self) -> None:
            calls.append(f"on {self.name}")

        def __exit__(self, *_: object) -> None:
            calls.append(f"off {self.name}")

    aside, present, graph = Noted("aside"), Noted("present"), Noted("graph")
    monkeypatch.setattr(torch.cuda, "Stream", lambda: aside)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: present)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: graph)
    for name in ("stream", "graph"):
        monkeypatch.setattr(torch.cuda, name, lambda each: each)

    def run() -> tuple[torch.Tensor, ...]:
        calls.append("run")
        return (torch.ones(1),)

    recorded, results = record_cuda(run)
    assert recorded is graph
    assert results == (torch.ones(1),)
    assert calls == [
        "aside waits for present", "on aside", "run", "run", "run", "off aside",
        "present waits for aside", "on graph", "run", "off graph",
    ]  # fmt: skip


def test_compiled_passes_give_the_same(model: Any) -> None:
    """Of one layer: the others are the same code. Compiling is what takes the time."""
    llm = copy.deepcopy(model.llm)
    llm.llm.model.model.layers = llm.llm.model.model.layers[:1]
    found = []
    for compile in (False, True):
        decoder = TokenDecoder(llm, max_batch=2, compile=compile)
        streams = [started(decoder, which, seed=which, low=4, high=4) for which in (0, 3)]
        while not streams[0].done:
            decoder.step(streams)
        found.append([stream.tokens for stream in streams])
    assert found[0] == found[1]
