"""A model directory is loaded whole and as its configuration says, or one sentence says why not;
the process is the same afterwards.
"""

from __future__ import annotations

import logging
import random
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch
from torch.nn.utils import parametrize

from tts_engine.cosyvoice import loader, modules
from tts_engine.cosyvoice.architecture import read_architecture
from tts_engine.cosyvoice.loader import CosyVoice, load
from tts_engine.cosyvoice.make_random import ROPE_THETA
from tts_engine.errors import (
    ConfigError,
    DuplexdError,
    EngineFailed,
    ModelCorrupt,
    ModelMissing,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copied(model_dir: Path, tmp_path: Path) -> Path:
    """A copy of the tiny model, to be damaged."""
    return Path(shutil.copytree(model_dir, tmp_path / "model"))


def test_what_is_loaded(model: CosyVoice, model_dir: Path) -> None:
    assert (model.kind, model.model_dir) == ("cosyvoice2", model_dir)
    assert (model.sample_rate, model.token_rate, model.mel_ratio) == (24_000, 25, 2)
    assert (model.device, model.dtype) == (torch.device("cpu"), torch.float32)
    for part in (model.llm, model.flow, model.hift):
        assert not part.training
        assert not any(each.requires_grad for each in part.parameters())
        assert {each.dtype for each in part.parameters()} == {torch.float32}
    rotary = loader.backbone_of(model.llm).config.rope_parameters
    assert rotary["rope_theta"] == ROPE_THETA


@pytest.mark.parametrize("part", ["llm", "flow", "hift"])
def test_every_weight_comes_from_the_checkpoint(
    model: CosyVoice, model_dir: Path, part: str
) -> None:
    saved = torch.load(model_dir / f"{part}.pt", weights_only=True)
    loaded = getattr(model, part).state_dict()
    plain = {key: value for key, value in saved.items() if "parametrizations" not in key}
    assert len(plain) > 10
    for key, value in plain.items():
        assert torch.equal(loaded[key], value), key


def test_the_vocoder_says_the_same_without_its_weight_norms(
    model: CosyVoice, model_dir: Path
) -> None:
    assert not any(parametrize.is_parametrized(each) for each in model.hift.modules())
    architecture = read_architecture(model_dir / "cosyvoice2.yaml")
    normed = loader.build_part("hift", architecture)
    normed.load_state_dict(torch.load(model_dir / "hift.pt", weights_only=True))
    mel = torch.randn(1, 80, 20, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = normed.eval().f0_predictor(mel)
        assert torch.allclose(model.hift.f0_predictor(mel), expected, atol=1e-5)


def test_loading_twice_gives_the_same_noise(model: CosyVoice, model_dir: Path) -> None:
    torch.manual_seed(99)
    again = load(model_dir)
    assert torch.equal(again.flow.decoder.rand_noise, model.flow.decoder.rand_noise)


def test_text_becomes_ids_of_the_embedding(model: CosyVoice) -> None:
    ids = model.tokenizer.encode("你好<|endofprompt|>hi[breath]", allowed_special="all")
    assert len(ids) == 6  # one a Han character, one a special word, one a letter
    rows = loader.backbone_of(model.llm).get_input_embeddings().num_embeddings
    assert max(ids) < rows
    assert model.tokenizer.decode(ids[:2]) == "你好"


def test_half_precision_leaves_the_vocoder_alone(model_dir: Path) -> None:
    half = load(model_dir, dtype="bf16")
    assert {each.dtype for each in half.llm.parameters()} == {torch.bfloat16}
    assert {each.dtype for each in half.flow.parameters()} == {torch.bfloat16}
    assert {each.dtype for each in half.hift.parameters()} == {torch.float32}
    assert half.dtype is torch.bfloat16


@pytest.mark.timeout(400)  # a new process, and torch, transformers and the modules in it
def test_the_process_is_left_as_it_was(model_dir: Path) -> None:
    script = f"""
import logging, random, sys, warnings
import numpy as np, torch
torch.set_num_threads(1)
before = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist(),
          torch.get_num_threads(), logging.getLogger().level, logging.getLogger().handlers[:],
          warnings.filters[:], sys.path[:])
from pathlib import Path
from tts_engine.cosyvoice.loader import load
load(Path({str(model_dir)!r}))
after = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist(),
         torch.get_num_threads(), logging.getLogger().level, logging.getLogger().handlers[:],
         warnings.filters[:], sys.path[:])
for number, (left, right) in enumerate(zip(before, after, strict=True)):
    assert left == right, number
assert not {{"torchaudio", "whisper", "lightning"}} & set(sys.modules), "a stand-in was left"
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr == ""


def test_a_stage_that_fails_leaves_the_process_as_it_was() -> None:
    state, root = random.getstate(), logging.getLogger()
    level, handlers, filters = root.level, list(root.handlers), list(warnings.filters)
    noise, generator = np.random.get_state()[1].tolist(), torch.get_rng_state()

    def upset() -> None:
        with modules.contained():
            random.seed(1)
            np.random.seed(1)
            torch.manual_seed(1)
            root.setLevel(logging.DEBUG)
            root.addHandler(logging.NullHandler())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        upset()
    assert random.getstate() == state
    assert np.random.get_state()[1].tolist() == noise
    assert torch.equal(torch.get_rng_state(), generator)
    assert (root.level, root.handlers) == (level, handlers)
    assert warnings.filters == filters


def remove(*names: str) -> Callable[[Path], None]:
    return lambda folder: [(folder / name).unlink() for name in names] and None


def damage(name: str, data: bytes = b"not a checkpoint") -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(data) and None


def change_config(**values: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "cosyvoice2.yaml"
        text = path.read_text()
        for key, value in values.items():
            assert key in text
            text = "\n".join(
                f"{line.partition(key)[0]}{key}: {value}" if line.strip().startswith(key) else line
                for line in text.splitlines()
            )
        path.write_text(text)

    return change


def change_weights(name: str, change: Callable[[dict[str, torch.Tensor]], object]) -> Callable:
    def changed(folder: Path) -> None:
        state = torch.load(folder / name, weights_only=True)
        change(state)
        torch.save(state, folder / name)

    return changed


def save(name: str, what: object) -> Callable[[Path], None]:
    return lambda folder: torch.save(what, folder / name)


def wrong_shape(state: dict[str, torch.Tensor]) -> None:
    state["speech_embedding.weight"] = torch.zeros(3, 3)


@pytest.mark.parametrize(
    ("break_it", "kind", "why"),
    [
        (shutil.rmtree, ModelMissing, "there is no CosyVoice model in"),
        (remove("cosyvoice2.yaml"), ModelMissing, "neither cosyvoice2.yaml nor cosyvoice3.yaml"),
        (
            remove("llm.pt", "campplus.onnx", "CosyVoice-BlankEN/config.json"),
            ModelMissing,
            "is not complete: llm.pt, campplus.onnx, CosyVoice-BlankEN/config.json missing",
        ),
        (damage("hift.pt"), ModelCorrupt, r"hift\.pt is no checkpoint"),
        (damage("flow.pt", b""), ModelCorrupt, r"flow\.pt is no checkpoint"),
        (save("llm.pt", [1, 2]), ModelCorrupt, r"llm\.pt holds something other than weights"),
        (save("llm.pt", {"epoch": 3}), ModelCorrupt, "holds something other than weights"),
        (
            change_weights("llm.pt", lambda state: state.pop("llm_decoder.bias")),
            ModelCorrupt,
            r"llm\.pt does not fit .*: 1 weights missing \(llm_decoder\.bias\)",
        ),
        (
            change_weights("flow.pt", lambda state: state.update(extra=torch.zeros(1))),
            ModelCorrupt,
            r"flow\.pt does not fit .*: 1 weights unknown \(extra\)",
        ),
        (
            change_weights("llm.pt", wrong_shape),
            ModelCorrupt,
            r"1 weights of another shape \(speech_embedding\.weight\)",
        ),
        (change_config(num_mid_blocks=2), ModelCorrupt, r"flow\.pt does not fit .* missing"),
        (change_config(n_blocks="many"), ModelCorrupt, "does not fit cosyvoice.flow.decoder"),
        (damage("CosyVoice-BlankEN/config.json"), ModelCorrupt, r"config\.json cannot be read"),
        (
            damage("CosyVoice-BlankEN/vocab.json"),
            ModelCorrupt,
            "text tokenizer in CosyVoice-BlankEN cannot be read",
        ),
        (damage("cosyvoice2.yaml", b"sample_rate: 1"), ModelCorrupt, "describes no llm"),
    ],
)
def test_a_directory_that_cannot_be_loaded(
    copied: Path, break_it: Callable[[Path], None], kind: type[DuplexdError], why: str
) -> None:
    break_it(copied)
    with pytest.raises(kind, match=why):
        load(copied)


def test_another_model(copied: Path) -> None:
    (copied / "cosyvoice2.yaml").rename(copied / "cosyvoice.yaml")
    with pytest.raises(ModelCorrupt, match="holds a CosyVoice 1 model"):
        load(copied)


def test_a_vocoder_saved_with_its_discriminators_names(copied: Path, model: CosyVoice) -> None:
    state = torch.load(copied / "hift.pt", weights_only=True)
    torch.save({f"generator.{key}": value for key, value in state.items()}, copied / "hift.pt")
    assert torch.equal(load(copied).hift.conv_pre.weight, model.hift.conv_pre.weight)


def test_cosyvoice3_needs_a_checkout(copied: Path) -> None:
    if modules.knows_cosyvoice3():
        pytest.skip("this process has a checkout's modules")
    (copied / "cosyvoice2.yaml").rename(copied / "cosyvoice3.yaml")
    (copied / "speech_tokenizer_v2.onnx").rename(copied / "speech_tokenizer_v3.onnx")
    with pytest.raises(EngineFailed, match=r"cannot load a CosyVoice 3 model\. Clone"):
        load(copied)


@pytest.mark.parametrize(
    ("options", "kind", "why"),
    [
        ({"device": "abacus"}, ConfigError, "no device called 'abacus'"),
        ({"device": "cuda:31"}, EngineFailed, "cuda:31 is not on this machine"),
        ({"dtype": "fp12"}, ConfigError, r"no dtype 'fp12'\. Known: fp32, fp16, bf16"),
        ({"dtype": "fp16"}, ConfigError, "fp16 needs a GPU"),
    ],
)
def test_a_device_or_dtype_that_cannot_be(
    model_dir: Path, options: dict[str, str], kind: type[DuplexdError], why: str
) -> None:
    with pytest.raises(kind, match=why):
        load(model_dir, **options)


def test_too_little_memory(model_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=5 << 20))
    with pytest.raises(EngineFailed, match=r"too little memory: .* this machine has 5 free"):
        load(model_dir)


@pytest.mark.usefixtures("model")
def test_a_directory_that_is_no_checkout(tmp_path: Path) -> None:
    with pytest.raises(EngineFailed, match="is no checkout of CosyVoice"):
        modules.import_modules(tmp_path)
    (tmp_path / "cosyvoice/llm").mkdir(parents=True)
    (tmp_path / "cosyvoice/llm/llm.py").touch()
    with pytest.raises(EngineFailed, match="lacks its submodule") as caught:
        modules.import_modules(tmp_path)
    assert "submodule update --init" in caught.value.mend
    (tmp_path / "third_party/Matcha-TTS/matcha").mkdir(parents=True)
    with pytest.raises(EngineFailed, match="were already imported from"):
        modules.import_modules(tmp_path)


def imported_with(
    tmp_path: Path,
    blocked: str = "",
    files: dict[str, str] | None = None,
    home: Path | None = None,
) -> str:
    """What importing the modules says in a new process with other packages around."""
    for name, text in (files or {}).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    script = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
sys.modules |= dict.fromkeys({blocked.split()!r})
from tts_engine.cosyvoice.modules import import_modules
from tts_engine.errors import EngineFailed
from pathlib import Path, PosixPath
before = sys.path[:]
try:
    import_modules({home!r})
except EngineFailed as error:
    print(error)
assert sys.path == before
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_package_that_is_not_installed(tmp_path: Path) -> None:
    said = imported_with(tmp_path, "torch")
    assert said.startswith("CosyVoice's modules cannot be imported: ")
    assert "torch" in said
    assert said.endswith("Run `make engines`.")


def test_modules_that_are_not_installed(tmp_path: Path) -> None:
    said = imported_with(tmp_path, "cosyvoice")
    assert said.startswith("CosyVoice's modules are not installed. Run `make engines`, or name")


def test_a_checkout_is_looked_into_first(tmp_path: Path) -> None:
    files = {"cosyvoice/__init__.py": "", "cosyvoice/llm/llm.py": ""}
    files |= {"third_party/Matcha-TTS/matcha/__init__.py": ""}
    said = imported_with(tmp_path / "here", "torch", home=tmp_path / "here", files=files)
    assert said.startswith("CosyVoice's modules cannot be imported: ")


def test_the_package_that_has_taken_the_name(tmp_path: Path) -> None:
    said = imported_with(tmp_path, files={"cosyvoice/__init__.py": "raise AssertionError"})
    assert "is not CosyVoice's own code" in said
    assert "Uninstall it" in said


def test_the_architecture_is_the_configurations(copied: Path) -> None:
    path = copied / "cosyvoice2.yaml"
    path.write_text(path.read_text().replace("num_blocks: 1", "num_blocks: 2"))
    flow = loader.build_part("flow", read_architecture(path))
    assert len(flow.encoder.encoders) == 2
