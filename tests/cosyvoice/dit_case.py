"""A small flow of CosyVoice 3 with random weights: of a checkout, or the plain one."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch

from tests.cosyvoice.plain_dit import AHEAD, HIDDEN, MEL, CausalMaskedDiffWithDiT
from tts_engine.cosyvoice.architecture import Recipe, build
from tts_engine.cosyvoice.modules import contained, import_modules

#: two heads, because only the first knows positions
SHAPE = {"dim": 64, "depth": 2, "heads": 2, "dim_head": 64, "ff_mult": 2}


def dit_flow(home: Path | None) -> Any:
    """A checkout's module where there is one. Nothing may change it."""
    return plain_flow() if home is None else checkouts_flow(home)


@functools.cache
def plain_flow() -> CausalMaskedDiffWithDiT:
    """Its weights are sharper than drawn ones: attention, positions and time make a difference."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        flow = CausalMaskedDiffWithDiT(SHAPE)
    for name, weight in flow.named_parameters():
        if name.endswith(("to_q.weight", "to_k.weight", "linear.weight")):
            weight.data *= 4
    return flow.eval().requires_grad_(False)


@functools.cache
def checkouts_flow(home: Path) -> Any:
    """The same flow, of a checkout's modules."""
    import_modules(home)
    numbers = {
        "sigma_min": 1e-6,
        "solver": "euler",
        "t_scheduler": "cosine",
        "training_cfg_rate": 0.2,
        "inference_cfg_rate": 0.7,
        "reg_loss_type": "l1",
    }
    sizes = {"mel_dim": MEL, "mu_dim": MEL, "spk_dim": MEL, "static_chunk_size": 50}
    decoder = _new(
        "cosyvoice.flow.flow_matching.CausalConditionalCFM",
        in_channels=3 * MEL,
        spk_emb_dim=MEL,
        cfm_params=_new("omegaconf.DictConfig", content=numbers),
        estimator=_new("cosyvoice.flow.DiT.dit.DiT", **SHAPE, **sizes),
    )
    look_ahead = _new(
        "cosyvoice.transformer.upsample_encoder.PreLookaheadLayer",
        in_channels=MEL,
        channels=HIDDEN,
        pre_lookahead_len=AHEAD,
    )
    recipe = _new(
        "cosyvoice.flow.flow.CausalMaskedDiffWithDiT",
        input_size=MEL,
        vocab_size=6561,
        input_frame_rate=25,
        pre_lookahead_layer=look_ahead,
        decoder=decoder,
    )
    with contained():
        flow = build(recipe, {})
    flow.load_state_dict(plain_flow().state_dict(), strict=True)
    return flow.eval().requires_grad_(False)


def _new(target: str, **arguments: object) -> Recipe:
    return Recipe(target, arguments, call=True)
