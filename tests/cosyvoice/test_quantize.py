"""Weights in fewer bits: what torchao is asked for, what is refused, and what it gives."""

from __future__ import annotations

import copy
import importlib.util
import sys
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.cosyvoice.test_decoder import full_pass, sequence, started
from tts_engine.cosyvoice import quantize as quantizing
from tts_engine.cosyvoice.decoder import TokenDecoder
from tts_engine.cosyvoice.loader import backbone_of
from tts_engine.cosyvoice.quantize import check_quantize, quantize
from tts_engine.cosyvoice.wire import Quantize
from tts_engine.errors import ConfigError, EngineFailed

real = pytest.mark.skipif(
    importlib.util.find_spec("torchao") is None, reason="torchao is not installed"
)


def layers_of(llm: Any) -> Any:
    return backbone_of(llm).get_submodule("model.layers")


class Asked:
    """In torchao's place: what it was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.calls: list[tuple[Any, Any]] = []
        self._error = error
        names = ["torchao", "torchao.quantization", "torchao.prototype"]
        names += ["torchao.prototype.quantization", "torchao.prototype.quantization.int4"]
        names += ["torchao.prototype.quantization.int4.inference_workflow"]
        modules: dict[str, Any] = {name: ModuleType(name) for name in names}
        for name, module in modules.items():
            module.__path__ = []
            monkeypatch.setitem(sys.modules, name, module)
        quantization, prototype = modules[names[1]], modules[names[-1]]
        quantization.quantize_ = self._quantize
        quantization.Int8WeightOnlyConfig = lambda **options: ("int8", options)
        quantization.Int4WeightOnlyConfig = lambda **options: ("int4", options)
        prototype.PrototypeInt4WeightOnlyConfig = lambda **options: ("prototype", options)

    def _quantize(self, layers: Any, config: Any) -> None:
        self.calls.append((layers, config))
        if self._error is not None:
            raise self._error


PLAIN = {"set_inductor_config": False}
GROUPS = {"group_size": 128} | PLAIN


@pytest.mark.parametrize(
    ("mode", "device", "wanted"),
    [
        ("int8", "cpu", ("int8", PLAIN)),
        ("int8", "cuda", ("int8", PLAIN)),
        ("int4", "cpu", ("prototype", GROUPS)),
        ("int4", "cuda", ("int4", GROUPS | {"int4_packing_format": "tile_packed_to_4d"})),
    ],
)
def test_torchao_is_asked(
    monkeypatch: pytest.MonkeyPatch, mode: Quantize, device: str, wanted: Any
) -> None:
    class OnDevice(torch.nn.Linear):
        def parameters(self, recurse: bool = True) -> Any:
            return iter([type("Weight", (), {"device": torch.device(device)})])

    asked, layer = Asked(monkeypatch), OnDevice(1, 1)
    quantize(layer, mode)
    assert asked.calls == [(layer, wanted)]


def test_nothing_is_asked_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch)
    quantize(torch.nn.Linear(1, 1), "none")
    assert asked.calls == []


def test_what_torchao_raises_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    Asked(monkeypatch, RuntimeError("no such kernel"))
    with pytest.raises(EngineFailed, match="cannot make int8 weights here: no such kernel"):
        quantize(torch.nn.Linear(1, 1), "int8")


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchao", None)
    with pytest.raises(EngineFailed, match="torchao") as found:
        quantize(torch.nn.Linear(1, 1), "int8")
    assert "pip install torchao" in found.value.mend
    monkeypatch.setattr(quantizing, "find_spec", lambda _: None)
    with pytest.raises(EngineFailed, match="not installed"):
        check_quantize("int8", dtype="fp32")
    check_quantize("none", dtype="fp32")


def test_four_bits_need_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantizing, "find_spec", lambda _: object())
    check_quantize("int4", dtype="bf16")
    check_quantize("int8", dtype="fp16")
    with pytest.raises(ConfigError, match="need bf16"):
        check_quantize("int4", dtype="fp16")


@real
def test_eight_bits_are_nearly_the_same(model: Any) -> None:
    llm = copy.deepcopy(model.llm)
    before = llm.llm.model.model.layers[0].mlp.up_proj.weight.nbytes
    quantize(layers_of(llm), "int8")
    kept = llm.llm.model.model.layers[0].mlp.up_proj.weight
    assert sum(getattr(kept, each).nbytes for each in ("qdata", "scale")) < before / 3
    decoder = TokenDecoder(llm, max_batch=2)
    streams = [started(decoder, which, low=6, high=6) for which in (0, 2)]
    while not streams[0].done:
        decoder.step(streams)
    full, less = (full_pass(each, sequence(llm, streams[0])) for each in (model.llm, llm))
    assert 0 < (full - less).abs().max() < 0.05 * full.abs().max()


@real
def test_four_bits_can_be_decoded_with(model: Any) -> None:
    llm = copy.deepcopy(model.llm).to(torch.bfloat16)
    quantize(layers_of(llm), "int4")
    decoder = TokenDecoder(llm, max_batch=1)
    stream = started(decoder, 0, low=4, high=4)
    while not stream.done:
        decoder.step([stream])
    assert len(stream.tokens) == 4
