"""The flows whose estimator is an engine, with the real modules in the engine's place."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.cosyvoice.fake_tensorrt import PLAN, FakeTensorRT, Program
from tests.cosyvoice.flow_case import drain, far, prompt, say, speech, upstream
from tts_engine.cosyvoice import flow_choice
from tts_engine.cosyvoice.export import INPUTS, OUTPUTS, BlockStep
from tts_engine.cosyvoice.flow import IncrementalFlow
from tts_engine.cosyvoice.flow_block import BlockFlow
from tts_engine.cosyvoice.flow_recompute import RecomputedFlow
from tts_engine.cosyvoice.loader import CosyVoice
from tts_engine.cosyvoice.memory import footprint
from tts_engine.cosyvoice.tensorrt_plan import (
    ESTIMATOR,
    ESTIMATOR_INPUTS,
    ESTIMATOR_OUTPUT,
    Mode,
    estimator_plan,
)
from tts_engine.cosyvoice.tensorrt_run import EngineRun, Lanes, lanes_of
from tts_engine.cosyvoice.wire import Settings
from tts_engine.errors import BadRequest, EngineFailed, ModelCorrupt, ModelMissing

EXACT = 1e-4
CPU = torch.device("cpu")


def estimator_program(flow: Any, *, streaming: bool) -> Program:
    """What an engine of upstream's estimator computes; its export is not of the streaming kind."""

    def compute(given: dict[str, Tensor]) -> dict[str, Tensor]:
        values = [given[name] for name in ESTIMATOR_INPUTS]
        return {ESTIMATOR_OUTPUT: flow.decoder.estimator(*values, streaming=streaming)}

    return Program(
        compute=compute,
        inputs=dict.fromkeys(ESTIMATOR_INPUTS, "FLOAT"),
        outputs={ESTIMATOR_OUTPUT: "FLOAT"},
        shape=lambda _, shapes: shapes["x"],
    )


def block_program(flow: IncrementalFlow) -> Program:
    """What an engine of the exported block computes."""
    step = BlockStep(flow.estimator)
    kinds = dict.fromkeys(INPUTS, "FLOAT") | {"length": "INT64", "count": "INT64"}

    def compute(given: dict[str, Tensor]) -> dict[str, Tensor]:
        return dict(zip(OUTPUTS, step(*(given[name] for name in INPUTS)), strict=True))

    def shape(name: str, shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
        rows, frames, _ = shapes["x"]
        layers, two, _, heads, _, width = shapes["cache"]
        return {
            "velocity": (rows, frames, 80),
            "contexts_next": shapes["contexts"],
            "cache_next": (layers, two, rows, heads, frames, width),
        }[name]

    return Program(
        compute=compute, inputs=kinds, outputs=dict.fromkeys(OUTPUTS, "FLOAT"), shape=shape
    )


def lanes(
    program: Program, monkeypatch: pytest.MonkeyPatch, *, count: int = 2
) -> tuple[FakeTensorRT, Lanes]:
    fake = FakeTensorRT(program=program).install(monkeypatch)
    import tensorrt  # type: ignore[import-not-found]

    engine = tensorrt.Runtime(None).deserialize_cuda_engine(PLAN)
    return fake, lanes_of(tensorrt, engine, device=CPU, count=count, free=1 << 40)


@pytest.mark.parametrize(("prompted", "tokens"), [(62, 90), (50, 1), (37, 29)])
def test_with_a_streaming_estimator_recomputing_is_exact(
    model: CosyVoice, monkeypatch: pytest.MonkeyPatch, prompted: int, tokens: int
) -> None:
    _, runs = lanes(estimator_program(model.flow, streaming=True), monkeypatch)
    flow = RecomputedFlow(model.flow, lanes=runs)
    one, said = prompt(prompted), speech(tokens)
    assert far(say(flow, one.voice(flow), said), upstream(model.flow, one, said)) < EXACT


def test_upstreams_estimator_sees_all_that_there_is(
    model: CosyVoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So only an utterance of one block is what a pass over all of it gives."""
    _, runs = lanes(estimator_program(model.flow, streaming=False), monkeypatch)
    flow, one = RecomputedFlow(model.flow, lanes=runs), prompt(12)
    whole = upstream_whole(model.flow, one, speech(10))
    assert far(say(flow, one.voice(flow), speech(10)), whole) < EXACT
    longer = upstream_whole(model.flow, one, speech(60))
    assert far(say(flow, one.voice(flow), speech(60)), longer) > 0.01


def upstream_whole(flow: Any, voice: Any, tokens: list[int]) -> Tensor:
    """Upstream's pass with TensorRT: the encoder in blocks, the estimator over everything."""
    estimator = flow.decoder.estimator
    forward = estimator.forward
    estimator.forward = lambda *given, **_: forward(*given, streaming=False)
    try:
        return upstream(flow, voice, tokens)
    finally:
        del estimator.forward


def test_streams_of_a_step_are_spread_over_the_contexts(
    model: CosyVoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, runs = lanes(estimator_program(model.flow, streaming=True), monkeypatch)
    flow = RecomputedFlow(model.flow, lanes=runs, steps=3)
    voices = [prompt(12, seed=seed).voice(flow) for seed in range(3)]
    alone = [say(flow, voice, speech(20, seed=7)) for voice in voices]
    fake.handles.clear()
    streams = [flow.open(voice) for voice in voices]
    for stream in streams:
        stream.push(speech(20, seed=7))
        stream.finish()
    first = flow.step(streams)
    assert fake.handles == [0] * 9  # three steps of three streams
    assert len(runs) == 2
    rest = [drain(flow, stream) for stream in streams]
    for expected, block, others in zip(alone, first, rest, strict=True):
        assert far(torch.cat([block, *others], -1), expected) < EXACT
    assert all(stream.done for stream in streams)


def test_a_prompts_blocks_cost_no_estimator_and_keep_only_means(
    model: CosyVoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, runs = lanes(estimator_program(model.flow, streaming=True), monkeypatch)
    flow = RecomputedFlow(model.flow, lanes=runs)
    voice = prompt(62).voice(flow)
    assert fake.handles == []
    assert voice.start.estimator[0].shape == (100, 80)
    assert flow.bytes_per_second() < IncrementalFlow(model.flow).bytes_per_second()
    expected = footprint(
        model.model_dir, model.kind, dtype="fp32", steps=10, cache="kv", recompute=True
    )
    assert flow.bytes_per_second() == expected.voice_second


def test_what_is_longer_than_the_engine_is_refused(
    model: CosyVoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, runs = lanes(estimator_program(model.flow, streaming=True), monkeypatch)
    flow = RecomputedFlow(model.flow, lanes=runs)
    stream = flow.open(prompt(12).voice(flow))
    with pytest.raises(BadRequest, match="the flow takes 1500"):
        stream.push(speech(1500))


@pytest.mark.parametrize("past", [150, 60])
def test_the_blocks_engine_is_exact_also_where_the_past_outgrows_it(
    model: CosyVoice, monkeypatch: pytest.MonkeyPatch, past: int
) -> None:
    eager = IncrementalFlow(model.flow, pad=True)
    fake, runs = lanes(block_program(eager), monkeypatch)
    flow = BlockFlow(model.flow, lanes=runs, past=past)
    one, said = prompt(37), speech(70)
    voice = one.voice(flow)
    assert far(say(flow, voice, said), upstream(model.flow, one, said)) < EXACT
    engine_blocks = {150: 4, 60: 2}[past]  # pasts of 0, 50, 100, 150 and 200 frames
    assert len(fake.handles) == 10 * engine_blocks
    assert far(say(flow, voice, said), upstream(model.flow, one, said)) < EXACT


def test_streams_share_the_blocks_engine_and_not_their_pasts(
    model: CosyVoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    eager = IncrementalFlow(model.flow, pad=True)
    _, runs = lanes(block_program(eager), monkeypatch)
    flow = BlockFlow(model.flow, lanes=runs, past=200)
    cases = [(prompt(62), speech(33, seed=1)), (prompt(37), speech(33, seed=2))]
    cases.append((prompt(12), speech(33, seed=3)))
    streams = [flow.open(one.voice(flow)) for one, _ in cases]
    for stream, (_, said) in zip(streams, cases, strict=True):
        stream.push(said)
        stream.finish()
    blocks: list[list[Tensor]] = [[] for _ in streams]
    while ready := [index for index, stream in enumerate(streams) if stream.ready]:
        for index, mel in zip(ready, flow.step([streams[i] for i in ready]), strict=True):
            blocks[index].append(mel)
    for parts, (one, said) in zip(blocks, cases, strict=True):
        assert far(torch.cat(parts, -1), upstream(model.flow, one, said)) < EXACT


def adding(kinds: Mapping[str, str]) -> Program:
    return Program(
        compute=lambda given: {"sum": sum(each.float() for each in given.values())},  # type: ignore[dict-item]
        inputs=dict(kinds),
        outputs={"sum": "HALF"},
        shape=lambda _, shapes: next(iter(shapes.values())),
    )


def test_a_run_gives_what_the_engine_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, runs = lanes(adding({"a": "HALF", "b": "FLOAT"}), monkeypatch, count=1)
    a, b = torch.arange(8.0).view(4, 2), torch.ones(8).view(2, 4)
    for _ in range(2):
        (result,) = runs.each([lambda _, run: run({"a": a.T, "b": b})["sum"]])
        assert result.dtype == torch.float16
        assert torch.equal(result.float(), a.T + b)
    assert fake.shapes == [("a", (2, 4)), ("b", (2, 4))]  # not told twice
    runs.each([lambda _, run: run({"a": a, "b": b.T})])
    assert fake.shapes[2:] == [("a", (4, 2)), ("b", (4, 2))]


def test_an_engine_that_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, runs = lanes(adding({"a": "FLOAT"}), monkeypatch)
    given = {"a": torch.ones(3)}
    fake.runs = False
    with pytest.raises(EngineFailed, match="did not run"):
        runs.each([lambda _, run: run(given)])
    fake.takes = False
    with pytest.raises(EngineFailed, match=r"does not take a of the shape \(5,\)"):
        runs.each([lambda _, run: run({"a": torch.ones(5)})])


def queueing(monkeypatch: pytest.MonkeyPatch) -> tuple[Lanes, list[str]]:
    """Three lanes with streams, and what waits for what on the device."""
    queued: list[str] = []

    class Stream:
        device = CPU

        def __init__(self, name: str) -> None:
            self.name = name

        def wait_stream(self, other: Stream) -> None:
            queued.append(f"{self.name} waits for {other.name}")

    class Queued:
        def __init__(self, name: str) -> None:
            self.stream: Any = Stream(name)

        def __call__(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
            raise AssertionError("the jobs are the test's own")

    main = Stream("main")
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: main)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext(stream))
    return Lanes([Queued("one"), Queued("two"), Queued("three")]), queued


def test_the_device_waits_and_the_host_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lane begins after what was queued before; what comes after begins after all lanes."""
    runs, queued = queueing(monkeypatch)
    runs.each([lambda lane, _: queued.append(f"job on {lane}")] * 2)
    assert queued == [
        "one waits for main",
        "two waits for main",
        "job on 0",
        "job on 1",
        "main waits for one",
        "main waits for two",
    ]


def test_a_failing_job_is_waited_for_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its caller then lets go of may still be used by the other lanes."""
    runs, queued = queueing(monkeypatch)

    def job(lane: int, _: object) -> None:
        queued.append(f"job on {lane}")
        if lane == 1:
            raise EngineFailed("no")

    with pytest.raises(EngineFailed, match="no"):
        runs.each([job] * 3)
    assert queued[3:] == [
        "job on 0",
        "job on 1",
        "main waits for one",
        "main waits for two",
        "main waits for three",
    ]


def test_contexts_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, _ = lanes(adding({"a": "FLOAT"}), monkeypatch)
    import tensorrt  # type: ignore[import-not-found]

    engine = tensorrt.Runtime(None).deserialize_cuda_engine(PLAN)
    with pytest.raises(EngineFailed, match="need 128 MiB, and 100 are free") as refusal:
        lanes_of(tensorrt, engine, device=CPU, count=2, free=100 << 20)
    assert "tensorrt" in refusal.value.mend
    fake.contexts = False
    with pytest.raises(EngineFailed, match="need 64 MiB"):
        EngineRun(tensorrt, engine, CPU)


class Card:
    """A GPU as far as choosing a flow looks at it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA L20")


@pytest.fixture
def settings() -> Settings:
    return Settings(model_dir="", voices_dir="", steps=4, requests=3)


@pytest.mark.parametrize("cache", ["kv", "hidden"])
def test_without_tensorrt_the_flow_is_the_eager_one(
    model: CosyVoice, tmp_path: Path, cache: str
) -> None:
    settings = Settings(model_dir="", voices_dir="", steps=4, cache=cache)
    flow = flow_choice.build_flow(model, settings, "off", engines=tmp_path)
    assert type(flow) is IncrementalFlow
    kept = prompt(12).voice(flow).start.estimator
    assert (len(kept), kept[0].dim()) == (4, 6 if cache == "kv" else 4)
    assert list(tmp_path.iterdir()) == []


def test_the_estimators_engine_is_built_and_used(
    model: CosyVoice, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Card(monkeypatch)
    fake = FakeTensorRT(program=estimator_program(model.flow, streaming=True))
    fake.phases = [("phase_start", "Building", None, 50)]
    fake.phases += [("step_complete", "Building", step) for step in range(50)]
    fake.install(monkeypatch)
    with pytest.raises(ModelMissing, match="has none"):
        flow_choice.build_flow(model, settings, "estimator", engines=tmp_path)
    copy = tmp_path / "model"
    copy.mkdir()
    (copy / ESTIMATOR).write_bytes(b"onnx")
    monkeypatch.setattr(flow_choice, "estimator_plan", lambda _, p: estimator_plan(copy, p))
    flow = flow_choice.build_flow(model, settings, "estimator", engines=tmp_path)
    assert isinstance(flow, RecomputedFlow)
    assert fake.built == 1
    assert len(say(flow, prompt(12).voice(flow), speech(5))[0]) == 10
    assert len(fake.handles) == 4  # Euler steps of one block


def test_the_block_is_exported_once_and_built_once(
    model: CosyVoice, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Card(monkeypatch)
    fake = FakeTensorRT(program=block_program(IncrementalFlow(model.flow))).install(monkeypatch)
    exports: list[tuple[Path, int, int]] = []

    def export(_: IncrementalFlow, path: Path, *, streams: int, past: int) -> None:
        exports.append((path, streams, past))
        path.write_bytes(b"onnx of the block")

    monkeypatch.setattr(flow_choice.export, "export_block", export)
    engines = tmp_path / "engines"
    for _ in range(2):
        flow = flow_choice.build_flow(model, settings, "block", engines=engines)
        assert isinstance(flow, BlockFlow)
    assert [rest for _, *rest in exports] == [[1, flow_choice.PAST]]
    assert fake.built == 1
    names = sorted(path.suffix for path in engines.iterdir() if not path.name.startswith("."))
    assert names == [".engine", ".onnx"]
    one, said = prompt(12), speech(20)
    eager = IncrementalFlow(model.flow, steps=4)
    assert far(say(flow, one.voice(flow), said), say(eager, one.voice(eager), said)) < EXACT


def test_a_block_that_cannot_be_kept_is_an_error(
    model: CosyVoice, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "engines").write_text("a file")
    with pytest.raises(EngineFailed, match="cannot be kept") as refusal:
        flow_choice.build_flow(model, settings, "block", engines=tmp_path / "engines")
    assert refusal.value.mend


def test_an_export_that_fails_leaves_nothing_behind(
    model: CosyVoice, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def export(_: IncrementalFlow, path: Path, **__: int) -> None:
        path.write_bytes(b"the first half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(flow_choice.export, "export_block", export)
    with pytest.raises(EngineFailed, match=r"cannot be kept .*: No space left"):
        flow_choice.build_flow(model, settings, "block", engines=tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_a_checkpoint_that_is_gone_is_named(
    model: CosyVoice, settings: Settings, tmp_path: Path
) -> None:
    moved = replace(model, model_dir=tmp_path / "moved")
    with pytest.raises(ModelCorrupt, match=r"moved/flow\.pt cannot be read: No such file"):
        flow_choice.build_flow(moved, settings, "block", engines=tmp_path)


@pytest.mark.parametrize("mode", ["off", "estimator", "block"])
def test_another_flow_is_refused_before_an_engine_is_built(
    model: CosyVoice, settings: Settings, tmp_path: Path, mode: Mode
) -> None:
    other: Any = SimpleNamespace(encoder=None)
    with pytest.raises(EngineFailed, match="made for CosyVoice 2"):
        flow_choice.build_flow(replace(model, flow=other), settings, mode, engines=tmp_path)
    assert list(tmp_path.iterdir()) == []
