"""What we hold to be true of CosyVoice 3 is what a checkout of it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cosyvoice.conftest import Reference
from tts_engine.cosyvoice import pauses, spectrum
from tts_engine.cosyvoice.architecture import read_architecture
from tts_engine.cosyvoice.frontend import Frontend
from tts_engine.cosyvoice.loader import CosyVoice
from tts_engine.cosyvoice.make_random import configuration
from tts_engine.cosyvoice.style import word


@pytest.fixture
def published(model3: CosyVoice, home: Path) -> dict[str, Any]:
    """The configuration of the published size, as the makers give it for training."""
    return read_architecture(home / "examples/libritts/cosyvoice3/conf/cosyvoice3.yaml")


def test_full_size_is_the_published_one(published: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "cosyvoice3.yaml"
    file.write_text(configuration("cosyvoice3", "full"), encoding="utf-8")
    ours = read_architecture(file)
    for key in ("sample_rate", "token_frame_rate", "token_mel_ratio", "chunk_size"):
        assert ours[key] == published[key]
    for part in ("llm", "flow", "hift", "feat_extractor", "get_tokenizer"):
        assert ours[part] == published[part]


def test_the_mel_is_that_of_the_configuration(
    published: dict[str, Any], model3: CosyVoice, reference: Reference
) -> None:
    mel = dict(published["feat_extractor"].arguments)
    assert mel.pop("fmax") is None  # up to half of the rate
    ours = Frontend(model3.model_dir).mel(reference.samples)
    assert np.array_equal(ours, spectrum.mel(reference.samples, top_hz=mel["sampling_rate"] / 2))
    assert mel == {
        "n_fft": 4 * spectrum.MEL_HOP,
        "win_size": 4 * spectrum.MEL_HOP,
        "hop_size": spectrum.MEL_HOP,
        "num_mels": spectrum.MEL_BANDS,
        "sampling_rate": spectrum.MEL_SAMPLE_RATE,
        "fmin": 0,
        "center": False,
    }


def test_silence_is_what_upstream_skips(model3: CosyVoice, home: Path) -> None:
    source = (home / "cosyvoice/cli/model.py").read_text(encoding="utf-8")
    [numbers] = re.findall(r"self\.silent_tokens = \[([\d, ]+)\]", source)
    assert pauses.SILENT["cosyvoice3"] == set(map(int, numbers.split(",")))
    assert f"max_silent_token_num = 0, {pauses.LONGEST}" in source


@pytest.mark.parametrize("style", ["开心", "sad", "生气", "whispering", "请用四川话表达。"])
def test_instructions_are_among_those_that_it_was_taught(model3: CosyVoice, style: str) -> None:
    from cosyvoice.utils.common import instruct_list

    said = word("好。", style=style, voice_text="好。", kind="cosyvoice3")
    assert said.prompt_text in instruct_list
