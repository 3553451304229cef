"""What a model takes of memory is computed before it is loaded, and is what it takes then."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cosyvoice.conftest import PATIENCE_S
from tests.cosyvoice.flow_case import prompt
from tts_engine.cosyvoice.decoder import TokenDecoder
from tts_engine.cosyvoice.flow import IncrementalFlow
from tts_engine.cosyvoice.loader import CosyVoice
from tts_engine.cosyvoice.memory import Footprint, check_memory, complete_s, footprint
from tts_engine.errors import EngineFailed, ModelCorrupt, ModelMissing

ROOT = Path(__file__).parents[2]
GIB = 1 << 30
#: CosyVoice2-0.5B in fp16: see the table in docs/cosyvoice.md
PUBLISHED = Footprint(weights=1_320 << 20, live_second=115_700_000, voice_second=115_400_000)


@pytest.mark.parametrize("cache", ["kv", "hidden"])
@pytest.mark.parametrize("steps", [10, 5])
def test_it_is_what_the_loaded_model_takes(model: CosyVoice, cache: str, steps: int) -> None:
    found = footprint(model.model_dir, model.kind, dtype="fp32", steps=steps, cache=cache)
    flow = IncrementalFlow(model.flow, steps=steps, cache="kv" if cache == "kv" else "hidden")
    decoder = TokenDecoder(model.llm, max_batch=1)
    assert found.voice_second == flow.bytes_per_second()
    assert found.live_second == flow.bytes_per_second() + 25 * decoder.bytes_per_token
    parameters = [*model.llm.parameters(), *model.flow.parameters(), *model.hift.parameters()]
    weights = sum(each.numel() * each.element_size() for each in parameters)
    assert found.weights == pytest.approx(weights, rel=0.02)


@pytest.mark.parametrize("cache", ["kv", "hidden"])
def test_it_is_what_a_loaded_cosyvoice3_takes(model3: CosyVoice, cache: str) -> None:
    test_it_is_what_the_loaded_model_takes(model3, cache, 3)


def test_half_precision_takes_half(model_dir: Path) -> None:
    sizes = [
        footprint(model_dir, "cosyvoice2", dtype=dtype, steps=10, cache="kv")
        for dtype in ("fp32", "fp16", "bf16")
    ]
    assert sizes[0].live_second == 2 * sizes[1].live_second
    assert sizes[1] == sizes[2]
    assert sizes[1].weights < 0.6 * sizes[0].weights


@pytest.mark.parametrize("tokens", [12, 27, 28, 53, 62])
def test_a_voice_keeps_its_complete_blocks(model: CosyVoice, tokens: int) -> None:
    flow = IncrementalFlow(model.flow)
    voice = prompt(tokens).voice(flow)
    assert complete_s(tokens / 25) == voice.start.tokens / 25


def test_the_sum() -> None:
    sizes = Footprint(weights=1000, live_second=100, voice_second=10)
    empty = sizes.total(voices=(), live_s=0)
    assert sizes.total(voices=(3.5, 0.5), live_s=0) - empty == 30
    assert sizes.total(voices=(), live_s=8) - empty == 1000  # with a quarter of spare room


@given(st.floats(0, 200), st.lists(st.floats(1, 30), max_size=6), st.floats(0.1, 80))
def test_what_fits_is_let_through_and_nothing_else(
    live_s: float, voices: list[float], gib: float
) -> None:
    free = int(gib * GIB)
    needed = PUBLISHED.total(voices=voices, live_s=live_s or 10)
    try:
        check_memory(PUBLISHED, voices=voices, live_s=live_s, free=free, place="cuda")
    except EngineFailed:
        assert needed > free
    else:
        assert needed <= free


def test_what_does_not_fit_is_told_with_its_parts() -> None:
    with pytest.raises(EngineFailed) as refusal:
        check_memory(PUBLISHED, voices=[5.0, 5.0], live_s=60, free=8 * GIB, place="cuda:1")
    told = refusal.value.message
    for part in ("1320 for weights", "for 2 voices", "for 60 s of speech", "cuda:1 has 8192 free"):
        assert part in told
    assert "tts.cosyvoice.cache to hidden" in refusal.value.mend


@pytest.mark.parametrize("lost", ["cosyvoice2.yaml", "flow.pt", "CosyVoice-BlankEN/config.json"])
def test_a_directory_that_is_not_complete_is_told(
    model_dir: Path, tmp_path: Path, lost: str
) -> None:
    copy = Path(shutil.copytree(model_dir, tmp_path / "model"))
    (copy / lost).unlink()
    with pytest.raises((ModelMissing, ModelCorrupt)):
        footprint(copy, "cosyvoice2", dtype="fp32", steps=10, cache="kv")


def test_another_configuration_is_told(model_dir: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(model_dir, tmp_path / "model"))
    (copy / "cosyvoice2.yaml").write_text("flow: none\n")
    with pytest.raises(ModelCorrupt, match="does not describe"):
        footprint(copy, "cosyvoice2", dtype="fp32", steps=10, cache="kv")


def test_it_needs_no_torch() -> None:
    script = "import sys, tts_engine.cosyvoice.memory; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=PATIENCE_S)
