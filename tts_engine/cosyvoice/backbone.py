"""The language model's backbone (Qwen2) over rows of different lengths in one pass.

The rows' tokens are packed one after another, without padding: the linear layers, which are nearly
all of the work, see one matrix, and only attention knows of rows. The weights are those of the
loaded modules; the text head, the hidden states of the layers in between and transformers' cache
and masks are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention

from tts_engine.cosyvoice.graphs import Graphs
from tts_engine.cosyvoice.kv_cache import CacheRow, KvCache


def upload(values: Sequence[Any], *, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Host numbers as a tensor on the device, without waiting for the device."""
    here = torch.tensor(values, dtype=dtype, pin_memory=device.type == "cuda")
    return here.to(device, non_blocking=True)


@dataclass(frozen=True, slots=True)
class _Span:
    """Tokens of a row that reads several.

    Parameters:
        start, end: first and last + 1 of them.
        slot: the row's place.
        past: positions that the row has filled before.
        mask: [tokens, positions], 0 where a token has a key, else minus infinity; None: `past` is
            0, and each sees those before it.
    """

    start: int
    end: int
    slot: int
    past: int
    mask: Tensor | None


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where the tokens of one pass lie.

    Parameters:
        at: slot and position of each token, [tokens] each.
        decoding: how many of the first tokens are the next token of a row.
        slots: the places of those rows.
        length: positions of the longest of them.
        mask: [decoding, 1, 1, length], 0 where a row has keys, else minus infinity.
        spans: of the other rows.
        turn: cosine and sine of the positions' angles, [tokens, 1, size / 2] each.
    """

    at: tuple[Tensor, Tensor]
    decoding: int
    slots: slice | Tensor
    length: int
    mask: Tensor
    spans: list[_Span]
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
        self._before: Callable[..., tuple[Tensor, Tensor, Tensor]] = partial(
            _before, size=self._size
        )
        self._after: Callable[..., Tensor] = _after
        self._graphs: Graphs | None = None
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
            rows: each with its number of tokens: first those that go on by one token, then those
                that are new, or read several.

        Returns:
            [rows, channels]: the normed hidden state of the last token of each row.
        """
        self.cache.reserve(max(row.length + count for row, count in rows))
        plan = self._plan(rows)
        if self._graphs is not None and not plan.spans and isinstance(plan.slots, slice):
            return self._replay(self._graphs, inputs, plan, plan.slots)
        return self._run(inputs, plan)

    def compile(self) -> None:
        """Has what lies between the attentions compiled, when it first runs."""
        compiled = partial(torch.compile, dynamic=True)
        self._before, self._after = compiled(self._before), compiled(self._after)

    def use_graphs(self, graphs: Graphs) -> None:
        """Has passes in which rows go on by one token replayed. The cache keeps its size for it."""
        self._graphs = graphs
        self.cache.keep()

    def _replay(self, graphs: Graphs, inputs: Tensor, plan: _Plan, slots: slice) -> Tensor:
        """A pass by a graph: one for each number of rows, over all positions of the cache."""
        room = self.cache.positions
        mask = functional.pad(plan.mask, (0, room - plan.length), value=-torch.inf)

        def run(
            inputs: Tensor, at: Tensor, mask: Tensor, cosine: Tensor, sine: Tensor
        ) -> tuple[Tensor]:
            fixed = replace(plan, at=(at[0], at[1]), mask=mask, length=room, turn=(cosine, sine))
            return (self._run(inputs, fixed),)

        key = (self.cache.version, slots.start, slots.stop)
        [hidden] = graphs(key, run, (inputs, torch.stack(plan.at), mask, *plan.turn))
        return hidden

    def _run(self, inputs: Tensor, plan: _Plan) -> Tensor:
        hidden = inputs
        for index, layer in enumerate(self._model.layers):
            heads = self._before(layer, hidden, *plan.turn)
            hidden = self._after(layer, hidden, self._attend(index, *heads, plan))
        ends = [hidden[: plan.decoding], *(hidden[span.end - 1 : span.end] for span in plan.spans)]
        return self._model.norm(torch.cat(ends))

    def _plan(self, rows: Sequence[tuple[CacheRow, int]]) -> _Plan:
        going_on = [row for row, count in rows if row.length and count == 1]
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
            slots=_run_of(places[:decoding]) or at[0][:decoding],
            length=length,
            mask=mask[:, None, None, :],
            spans=self._spans(rows[decoding:], decoding),
            turn=(angles.cos().to(self.dtype), angles.sin().to(self.dtype)),
        )

    def _attend(
        self, index: int, queries: Tensor, keys: Tensor, values: Tensor, plan: _Plan
    ) -> Tensor:
        """Attention [tokens, channels], before the output's projection."""
        self.cache.write(index, plan.at, keys, values)
        parts = [self._span(index, span, queries, keys, values) for span in plan.spans]
        if plan.decoding:
            # The heads that share a key stand in for positions: no key is copied for them.
            shared = queries[: plan.decoding].unflatten(1, (self._key_heads, -1))
            stored = self.cache.read(index, plan.slots, plan.length)
            attended = scaled_dot_product_attention(shared, *stored, attn_mask=plan.mask)
            parts.insert(0, attended.flatten(1))
        return torch.cat(parts)

    def _span(
        self, index: int, span: _Span, queries: Tensor, keys: Tensor, values: Tensor
    ) -> Tensor:
        """Attention [tokens, channels] of a row that reads several tokens."""
        own = slice(span.start, span.end)
        if span.mask is None:
            return _causal(queries[own], keys[own], values[own])
        place = slice(span.slot, span.slot + 1)
        stored = self.cache.read(index, place, span.past + span.end - span.start)
        attended = scaled_dot_product_attention(
            queries[own].transpose(0, 1)[None], *stored, attn_mask=span.mask, enable_gqa=True
        )
        return attended[0].transpose(0, 1).flatten(1)

    def _spans(self, rows: Sequence[tuple[CacheRow, int]], start: int) -> list[_Span]:
        """Those of rows whose tokens lie one after another from `start` on."""
        spans: list[_Span] = []
        for row, count in rows:
            mask = None
            if row.length:
                ones = torch.ones(count, row.length + count, dtype=self.dtype, device=self.device)
                seen = ones.tril(diagonal=row.length) > 0
                mask = torch.zeros_like(ones).masked_fill_(~seen, -torch.inf)
            spans.append(_Span(start, start + count, row.slot, row.length, mask))
            start += count
        return spans


def _before(
    layer: Any, hidden: Tensor, cosine: Tensor, sine: Tensor, *, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of a layer, [tokens, heads, size] each."""
    normed, attention = layer.input_layernorm(hidden), layer.self_attn
    queries, keys, values = (
        projection(normed).unflatten(-1, (-1, size))
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    return _turn(queries, cosine, sine), _turn(keys, cosine, sine), values


def _after(layer: Any, hidden: Tensor, attended: Tensor) -> Tensor:
    """What a layer makes of its input and its attention."""
    hidden = hidden + layer.self_attn.o_proj(attended)
    return hidden + layer.mlp(layer.post_attention_layernorm(hidden))


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


def _turn(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary position embedding of [tokens, heads, size]."""
    left, right = heads.chunk(2, dim=-1)
    return torch.cat((left * cosine - right * sine, right * cosine + left * sine), dim=-1)


def _run_of(places: list[int]) -> slice | None:
    """The slice that `places` are, if they follow each other."""
    if places and places == list(range(places[0], places[0] + len(places))):
        return slice(places[0], places[0] + len(places))
    return None
