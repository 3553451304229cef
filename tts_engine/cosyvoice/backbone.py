"""The language model's backbone (Qwen2) over rows of different lengths in one pass.

The rows' tokens are packed one after another, without padding: the linear layers, which are nearly
all of the work, see one matrix, and only attention knows of rows. The weights are those of the
loaded modules; the text head, the hidden states of the layers in between and transformers' cache
and masks are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from tts_engine.cosyvoice.kv_cache import CacheRow, KvCache


def upload(values: Sequence[Any], *, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Host numbers as a tensor on the device, without waiting for the device."""
    here = torch.tensor(values, dtype=dtype, pin_memory=device.type == "cuda")
    return here.to(device, non_blocking=True)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where the tokens of one pass lie.

    Parameters:
        at: slot and position of each token, [tokens] each.
        decoding: how many of the first tokens are the next token of a row.
        slots: the places of those rows.
        length: positions of the longest of them.
        mask: [decoding, 1, 1, length], 0 where a row has keys, else minus infinity.
        prompts: first and last + 1 token of each row that is new.
        turn: cosine and sine of the positions' angles, [tokens, 1, size / 2] each.
    """

    at: tuple[Tensor, Tensor]
    decoding: int
    slots: slice | Tensor
    length: int
    mask: Tensor
    prompts: list[tuple[int, int]]
    turn: tuple[Tensor, Tensor]


class Backbone:
    """Runs a loaded `Qwen2Model`. Not for more than one thread.

    Parameters:
        model: transformers' base model, without a head.
        max_rows: most rows at once.
    """

    def __init__(self, model: nn.Module, *, max_rows: int) -> None:
        self._model = cast("Any", model)
        config = self._model.config
        self._heads = int(config.num_attention_heads)
        self._key_heads = int(config.num_key_value_heads)
        self._size = int(getattr(config, "head_dim", None) or config.hidden_size // self._heads)
        weight = cast("Tensor", self._model.embed_tokens.weight)
        self.device = weight.device
        self.dtype = weight.dtype
        # In float32 whatever the weights are. A half-precision copy, such as the module's own is
        # once it is moved to another type, is wrong by radians after some hundred tokens.
        base = float(config.rope_parameters["rope_theta"])
        powers = torch.arange(0, self._size, 2, dtype=torch.float32, device=self.device)
        self._speeds = base ** (-powers / self._size)
        #: most positions of a row
        self.max_positions = int(config.max_position_embeddings)
        #: size of the text vocabulary
        self.text_tokens = int(weight.shape[0])
        self.cache = KvCache(
            layers=len(self._model.layers),
            heads=self._key_heads,
            size=self._size,
            max_rows=max_rows,
            dtype=self.dtype,
            device=self.device,
        )

    def embed(self, ids: Tensor) -> Tensor:
        """Embeddings [tokens, channels] of text ids [tokens]."""
        return self._model.embed_tokens(ids)

    def forward(self, inputs: Tensor, rows: Sequence[tuple[CacheRow, int]]) -> Tensor:
        """One pass; fills the cache and leaves the rows' `length` to the caller.

        Args:
            inputs: [tokens, channels] embeddings, the rows' one after another.
            rows: each with its number of tokens: first those that go on, by one token each, then
                those that are new, with all of their prompt.

        Returns:
            [rows, channels]: the normed hidden state of the last token of each row.
        """
        self.cache.reserve(max(row.length + count for row, count in rows))
        plan = self._plan(rows)
        hidden = inputs
        for index, layer in enumerate(self._model.layers):
            attended = self._attend(index, layer.self_attn, layer.input_layernorm(hidden), plan)
            hidden = hidden + attended
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        ends = [hidden[: plan.decoding], *(hidden[end - 1 : end] for _, end in plan.prompts)]
        return self._model.norm(torch.cat(ends))

    def _plan(self, rows: Sequence[tuple[CacheRow, int]]) -> _Plan:
        going_on = [row for row, _ in rows if row.length]
        places = [row.slot for row, count in rows for _ in range(count)]
        positions = [row.length + offset for row, count in rows for offset in range(count)]
        at = upload([places, positions], dtype=torch.int64, device=self.device)
        angles = (at[1][:, None] * self._speeds)[:, None]
        decoding = len(going_on)
        length = max((row.length + 1 for row in going_on), default=0)
        filled = torch.arange(length, device=self.device) <= at[1][:decoding, None]
        mask = torch.zeros_like(filled, dtype=self.dtype).masked_fill_(~filled, -torch.inf)
        return _Plan(
            at=(at[0], at[1]),
            decoding=decoding,
            slots=_run(places[:decoding]) or at[0][:decoding],
            length=length,
            mask=mask[:, None, None, :],
            prompts=_spans(decoding, [count for row, count in rows if not row.length]),
            turn=(angles.cos().to(self.dtype), angles.sin().to(self.dtype)),
        )

    def _attend(self, index: int, layer: Any, inputs: Tensor, plan: _Plan) -> Tensor:
        queries = _turn(layer.q_proj(inputs).unflatten(-1, (self._heads, self._size)), plan.turn)
        keys = _turn(layer.k_proj(inputs).unflatten(-1, (self._key_heads, self._size)), plan.turn)
        values = layer.v_proj(inputs).unflatten(-1, (self._key_heads, self._size))
        self.cache.write(index, plan.at, keys, values)
        parts = [
            _causal(queries[start:end], keys[start:end], values[start:end])
            for start, end in plan.prompts
        ]
        if plan.decoding:
            # The heads that share a key stand in for positions: no key is copied for them.
            shared = queries[: plan.decoding].unflatten(1, (self._key_heads, -1))
            stored = self.cache.read(index, plan.slots, plan.length)
            attended = scaled_dot_product_attention(shared, *stored, attn_mask=plan.mask)
            parts.insert(0, attended.flatten(1))
        return layer.o_proj(torch.cat(parts))


def _causal(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attention [tokens, channels] of a whole prompt to itself; all are [tokens, heads, size]."""
    attended = scaled_dot_product_attention(
        queries.transpose(0, 1)[None],
        keys.transpose(0, 1)[None],
        values.transpose(0, 1)[None],
        is_causal=True,
        enable_gqa=True,
    )
    return attended[0].transpose(0, 1).flatten(1)


def _turn(heads: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary position embedding of [tokens, heads, size]."""
    cosine, sine = turn
    left, right = heads.chunk(2, dim=-1)
    return torch.cat((left * cosine - right * sine, right * cosine + left * sine), dim=-1)


def _run(places: list[int]) -> slice | None:
    """The slice that `places` are, if they follow each other."""
    if places and places == list(range(places[0], places[0] + len(places))):
        return slice(places[0], places[0] + len(places))
    return None


def _spans(start: int, counts: Sequence[int]) -> list[tuple[int, int]]:
    """Start and end of parts of these lengths, one after another."""
    spans: list[tuple[int, int]] = []
    for count in counts:
        spans.append((start, start + count))
        start += count
    return spans
