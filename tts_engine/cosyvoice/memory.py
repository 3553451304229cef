# pyright: strict
"""What a model takes of a device's memory, computed before it is loaded.

    weights             of the language model and the flow in the precision, of the vocoder in fp32
    ready voices        the flow's caches of each prompt's complete blocks
    speech being made   the flow's caches, and the language model's, by the second

The flow keeps, of every mel frame and in each of its Euler steps, keys and values of all attentions
of the estimator for two rows (with the conditions, without), or what both are projected from; with
CosyVoice 3, the keys of the head that is turned by its position besides. CosyVoice 2 keeps keys and
values of its encoder as well.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tts_engine.cosyvoice.architecture import read_architecture
from tts_engine.cosyvoice.kind import BACKBONE, PARTS, Kind
from tts_engine.errors import EngineFailed, ModelCorrupt

#: seconds of speech for which there has to be room where the configuration does not say
LEAST_LIVE_S = 10.0
#: rows of a stream in the estimator
_PAIR = 2
#: layers of the encoder behind its upsampling; no configuration says it
_UP_LAYERS = 4
#: a block of tokens, and those that it waits for: what lies behind is no complete block
_BLOCK_S, _LOOK_AHEAD_S = 1.0, 0.12
#: a stream's caches have spare room, so that they need not grow with every block
_SPARE_ROOM = 1.25
#: activations, the libraries' own
_SPARE_BYTES = 512 << 20

_ITEM = {"fp32": 4, "fp16": 2, "bf16": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Bytes of a model on a device.

    Parameters:
        weights: of all three parts.
        live_second: caches of a second of speech in the making.
        voice_second: caches of a second of a ready voice's prompt.
    """

    weights: int
    live_second: int
    voice_second: int

    def total(self, *, voices: Sequence[float], live_s: float) -> int:
        """Bytes needed.

        Args:
            voices: length of each ready voice's recording, seconds.
            live_s: seconds of speech in the making, over all utterances.
        """
        kept = sum(complete_s(each) for each in voices) * self.voice_second
        live = live_s * _SPARE_ROOM * self.live_second
        return self.weights + round(kept + live) + _SPARE_BYTES


def complete_s(prompt_s: float) -> float:
    """Seconds of a prompt that lie in complete blocks: only these are kept."""
    return max(0.0, (prompt_s - _LOOK_AHEAD_S) // _BLOCK_S * _BLOCK_S)


def footprint(
    model_dir: Path, kind: Kind, *, dtype: str, steps: int, cache: str, recompute: bool = False
) -> Footprint:
    """What the model in a directory takes.

    Args:
        model_dir: a complete directory of a model.
        kind: what its configuration is called.
        dtype: fp32, fp16 or bf16.
        steps: Euler steps.
        cache: kv or hidden.
        recompute: nothing of the estimator is kept; see `flow_recompute`.

    Raises:
        ModelMissing, ModelCorrupt: a file is not there, or describes something else.
    """
    architecture = read_architecture(model_dir / f"{kind}.yaml", qwen_pretrain_path="")
    item = _ITEM[dtype]
    try:
        llm, flow, hift = ((model_dir / f"{name}.pt").stat().st_size for name in PARTS)
        rate = architecture["token_frame_rate"]
        ratio = architecture["token_mel_ratio"]
        parts = architecture["flow"].arguments
        estimator = parts["decoder"].arguments["estimator"].arguments
        third = kind == "cosyvoice3"
        token = 0 if third else _encoder_values(parts["encoder"].arguments, ratio)
        kept = _transformer_values if third else _estimator_values
        frame = parts["output_size"] if recompute else steps * kept(estimator, cache)
        voice_second = item * rate * (token + ratio * frame)
        live_second = voice_second + item * rate * _llm_values(model_dir)
    except (OSError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ModelCorrupt(
            f"the configuration in {model_dir} does not describe a CosyVoice model: {error!r}"
        ) from error
    return Footprint(
        weights=(llm + flow) * item // _ITEM["fp32"] + hift,
        live_second=live_second,
        voice_second=voice_second,
    )


def check_memory(
    needs: Footprint, *, voices: Sequence[float], live_s: float, free: int, place: str
) -> None:
    """Refuses to load what has no room.

    Args:
        needs: of the model.
        voices: length of each voice that is to be ready, seconds.
        live_s: seconds of speech in the making; 0 asks for the least that is of use.
        free: bytes of the device that are free now.
        place: what the device is called.

    Raises:
        EngineFailed: says what takes how much, and what there is.
    """
    seconds = live_s or LEAST_LIVE_S
    if (total := needs.total(voices=voices, live_s=seconds)) <= free:
        return
    voiced = needs.total(voices=voices, live_s=0) - needs.total(voices=(), live_s=0)
    live = total - needs.total(voices=voices, live_s=0)
    raise EngineFailed(
        f"too little memory: CosyVoice needs {_mib(total)} MiB ({_mib(needs.weights)} for weights, "
        f"{_mib(voiced)} for {len(voices)} voices, {_mib(live)} for {seconds:g} s of speech in the "
        f"making), and {place} has {_mib(free)} free",
        mend="Free some, or set tts.cosyvoice.cache to hidden, tts.cosyvoice.dtype to fp16, or "
        "tts.cosyvoice.live_s and tts.cosyvoice.ready_voices to less.",
    )


def _encoder_values(encoder: Any, ratio: int) -> int:
    """Values that CosyVoice 2's encoder keeps of a token."""
    return 2 * encoder["output_size"] * (encoder["num_blocks"] + ratio * _UP_LAYERS)


def _transformer_values(estimator: Any, cache: str) -> int:
    """Values that one Euler step of CosyVoice 3 keeps of a frame."""
    width = estimator["dim_head"]
    kept = 2 * estimator["heads"] * width if cache == "kv" else estimator["dim"] + width
    return estimator["depth"] * _PAIR * kept


def _estimator_values(estimator: Any, cache: str) -> int:
    """Values that one Euler step of CosyVoice 2 keeps of a frame."""
    stages = 2 * len(estimator["channels"]) + estimator["num_mid_blocks"]
    inner = estimator["num_heads"] * estimator["attention_head_dim"]
    kept = 2 * inner if cache == "kv" else estimator["channels"][-1]
    return stages * estimator["n_blocks"] * _PAIR * kept


def _llm_values(model_dir: Path) -> int:
    """Values that the language model keeps of a token."""
    path = model_dir / BACKBONE / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    head = config["hidden_size"] // config["num_attention_heads"]
    return 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * head


def _mib(count: int) -> int:
    return count >> 20
