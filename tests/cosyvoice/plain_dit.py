"""CosyVoice 3's flow, written plainly: one pass over everything, and no caches.

No package carries the modules of CosyVoice 3, so this stands in for a checkout's. Its weights have
the names that theirs have; where there is a checkout, `test_dit.py` loads them into its modules and
compares. Class names matter: by them a flow is told.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

MEL = 80
TAPS = 31
GROUPS = 16
WAVES = 256
AHEAD = 3
HIDDEN = 32


class AttnProcessor:
    """Says which kind of attention it is."""


class RotaryEmbedding(nn.Module):
    """Frequencies of the angles of positions."""

    scale = None
    interpolation_factor = 1.0

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inv_freq: Tensor
        self.register_buffer("inv_freq", 1 / 10000 ** (torch.arange(0, width, 2) / width))

    def forward(self, x: Tensor) -> Tensor:
        """Turns the channels of the first head of [rows, frames, channels]."""
        angles = torch.outer(torch.arange(x.shape[1]).float(), self.inv_freq.float())
        width = 2 * len(self.inv_freq)
        pairs = torch.view_as_complex(x[..., :width].float().unflatten(-1, (-1, 2)).contiguous())
        turned = torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles))
        return torch.cat([turned.flatten(2).to(x.dtype), x[..., width:]], -1)


class Attention(nn.Module):
    """Projections of an attention."""

    def __init__(self, dim: int, heads: int, width: int) -> None:
        super().__init__()
        self.heads = heads
        self.processor = AttnProcessor()
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, heads * width) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(heads * width, dim), nn.Identity()])

    def forward(self, x: Tensor, seen: Tensor, turn: RotaryEmbedding) -> Tensor:
        """Attends to the frames [frames, frames] that are seen."""
        q, k, v = turn(self.to_q(x)), turn(self.to_k(x)), self.to_v(x)
        q, k, v = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in (q, k, v))
        out = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.to_out[0](out.transpose(1, 2).flatten(2))


class Modulated(nn.Module):
    """A norm without weights, and the projection of time that makes some."""

    def __init__(self, dim: int, parts: int) -> None:
        super().__init__()
        self.parts = parts
        self.linear = nn.Linear(dim, parts * dim)
        self.norm = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)

    def made(self, time: Tensor) -> tuple[Tensor, ...]:
        """What the time makes, [rows, 1, dim] each."""
        return self.linear(functional.silu(time))[:, None].chunk(self.parts, -1)


class Feed(nn.Module):
    """A feed-forward net."""

    def __init__(self, dim: int, inner: int) -> None:
        super().__init__()
        opening = nn.Sequential(nn.Linear(dim, inner), nn.GELU(approximate="tanh"))
        self.ff = nn.Sequential(opening, nn.Identity(), nn.Linear(inner, dim))


class Layer(nn.Module):
    """Attention and a feed-forward net."""

    def __init__(self, dim: int, heads: int, width: int, mult: int) -> None:
        super().__init__()
        self.attn_norm = Modulated(dim, 6)
        self.attn = Attention(dim, heads, width)
        self.ff_norm = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)
        self.ff = Feed(dim, mult * dim)

    def forward(self, x: Tensor, time: Tensor, seen: Tensor, turn: RotaryEmbedding) -> Tensor:
        """[rows, frames, dim] to the same."""
        shift, scale, gate, shift_ff, scale_ff, gate_ff = self.attn_norm.made(time)
        x = x + gate * self.attn(self.attn_norm.norm(x) * (1 + scale) + shift, seen, turn)
        return x + gate_ff * self.ff.ff(self.ff_norm(x) * (1 + scale_ff) + shift_ff)


class Position(nn.Module):
    """Two causal convolutions in groups."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = (
            nn.Sequential(nn.Conv1d(dim, dim, TAPS, groups=GROUPS), nn.Mish()) for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        """[rows, frames, dim] to the same."""
        y = x.transpose(1, 2)
        for conv in (self.conv1, self.conv2):
            y = conv(functional.pad(y, (TAPS - 1, 0)))
        return y.transpose(1, 2)


class Time(nn.Module):
    """The embedding of a time between 0 and 1."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.time_mlp = nn.Sequential(nn.Linear(WAVES, dim), nn.SiLU(), nn.Linear(dim, dim))

    def time_embed(self, time: Tensor) -> Tensor:
        """Waves of the time, [rows, 256]."""
        half = WAVES // 2
        exponents = torch.arange(half) / (half - 1)
        angles = 1000 * time[:, None] * 10000**-exponents
        return torch.cat([angles.sin(), angles.cos()], -1).to(time.dtype)

    def forward(self, time: Tensor) -> Tensor:
        """[rows, dim]."""
        return self.time_mlp(self.time_embed(time))


class DiT(nn.Module):
    """The estimator."""

    static_chunk_size = 50

    def __init__(self, dim: int, depth: int, heads: int, dim_head: int, ff_mult: int) -> None:
        super().__init__()
        self.long_skip_connection = None
        self.time_embed = Time(dim)
        self.input_embed = nn.ModuleDict(
            {"proj": nn.Linear(4 * MEL, dim), "conv_pos_embed": Position(dim)}
        )
        self.rotary_embed = RotaryEmbedding(dim_head)
        self.transformer_blocks = nn.ModuleList(
            [Layer(dim, heads, dim_head, ff_mult) for _ in range(depth)]
        )
        self.norm_out = Modulated(dim, 2)
        self.proj_out = nn.Linear(dim, MEL)

    def forward(
        self,
        x: Tensor,
        _: Tensor,
        mu: Tensor,
        t: Tensor,
        spks: Tensor,
        cond: Tensor,
        *,
        streaming: bool,
    ) -> Tensor:
        """Everything is [rows, channels, frames]."""
        frames = x.shape[-1]
        speaker = spks[..., None].expand(-1, -1, frames)
        joined = torch.cat([x, cond, mu, speaker], 1).transpose(1, 2)
        x = self.input_embed["proj"](joined)
        x = x + self.input_embed["conv_pos_embed"](x)
        block = torch.arange(frames) // (self.static_chunk_size if streaming else frames)
        seen, time = block[:, None] >= block, self.time_embed(t)
        for layer in self.transformer_blocks:
            x = layer(x, time, seen, self.rotary_embed)
        scale, shift = self.norm_out.made(time)
        return self.proj_out(self.norm_out.norm(x) * (1 + scale) + shift).transpose(1, 2)


class Decoder(nn.Module):
    """Euler's method, guided."""

    t_scheduler = "cosine"
    inference_cfg_rate = 0.7

    def __init__(self, shape: dict[str, int]) -> None:
        super().__init__()
        self.estimator = DiT(**shape)
        made = torch.Generator().manual_seed(0)
        self.rand_noise = torch.randn([1, MEL, 15_000], generator=made)

    def forward(
        self,
        mu: Tensor,
        mask: Tensor,
        spks: Tensor,
        cond: Tensor,
        n_timesteps: int,
        streaming: bool,
    ) -> tuple[Tensor, None]:
        """Mel [1, 80, frames]."""
        x = self.rand_noise[:, :, : mu.shape[2]].to(mu)
        ends = torch.linspace(0, 1, n_timesteps + 1)
        if self.t_scheduler == "cosine":
            ends = 1 - torch.cos(ends * 0.5 * torch.pi)
        given = [torch.cat([each, torch.zeros_like(each)]) for each in (mu, spks, cond)]
        for now, end in itertools.pairwise(ends):
            time = now.to(mu).expand(2)
            velocity = self.estimator(
                x.expand(2, -1, -1), mask, given[0], time, given[1], given[2], streaming=streaming
            )
            guide = self.inference_cfg_rate
            x = x + (end - now) * ((1 + guide) * velocity[:1] - guide * velocity[1:])
        return x, None


class CausalMaskedDiffWithDiT(nn.Module):
    """The flow."""

    token_mel_ratio = 2
    input_frame_rate = 25
    pre_lookahead_len = AHEAD
    vocab_size = 6561

    def __init__(self, shape: dict[str, int]) -> None:
        super().__init__()
        self.input_embedding = nn.Embedding(self.vocab_size, MEL)
        self.spk_embed_affine_layer = nn.Linear(192, MEL)
        self.pre_lookahead_layer = nn.ModuleDict(
            {"conv1": nn.Conv1d(MEL, HIDDEN, AHEAD + 1), "conv2": nn.Conv1d(HIDDEN, MEL, 3)}
        )
        self.decoder = Decoder(shape)

    def inference(
        self,
        token: Tensor,
        prompt_token: Tensor,
        prompt_feat: Tensor,
        embedding: Tensor,
        *,
        streaming: bool,
        finalize: bool,
        **_: Any,
    ) -> tuple[Tensor, None]:
        """The whole utterance at once, as a checkout's module is asked for it."""
        assert finalize
        rows = self.input_embedding(torch.cat([prompt_token, token], 1))
        convs = self.pre_lookahead_layer
        y = convs["conv1"](functional.pad(rows.transpose(1, 2), (0, AHEAD)))
        y = convs["conv2"](functional.pad(functional.leaky_relu(y), (2, 0)))
        mu = (y.transpose(1, 2) + rows).repeat_interleave(self.token_mel_ratio, 1)
        prompt = prompt_feat.shape[1]
        cond = torch.zeros_like(mu)
        cond[:, :prompt] = prompt_feat
        mel, _none = self.decoder(
            mu=mu.transpose(1, 2),
            mask=mu.new_ones(1, 1, mu.shape[1]),
            spks=self.spk_embed_affine_layer(functional.normalize(embedding, dim=1)),
            cond=cond.transpose(1, 2),
            n_timesteps=10,
            streaming=streaming,
        )
        return mel[:, :, prompt:].float(), None
