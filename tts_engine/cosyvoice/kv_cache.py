"""Keys and values of every live row, in one tensor, so that a step reads them without copying.

Rows come and go between steps. They always fill the first places: when one leaves, the last moves
into its place. Memory grows with the rows and with the longest of them, and is given back when the
last row leaves, unless it is to be kept.
"""

from __future__ import annotations

import torch
from torch import Tensor

_POSITIONS = 256


class CacheRow:
    """A row's place.

    Attributes:
        slot: its index now; changes when another row leaves.
        length: positions that are filled.
    """

    __slots__ = ("__weakref__", "length", "slot")

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.length = 0


class KvCache:
    """The cache of a model. Not for more than one thread.

    Parameters:
        layers: of the model.
        heads: key heads of a layer.
        size: channels of a head.
        max_rows: most rows at once.
        dtype: of keys and values.
        device: where they are.
    """

    def __init__(
        self,
        *,
        layers: int,
        heads: int,
        size: int,
        max_rows: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._heads = heads
        self._max_rows = max_rows
        self._rows: list[CacheRow] = []
        self._kept = False
        #: counts up whenever the tensor is another one
        self.version = 0
        # [layers, rows, positions, keys then values of all heads, channels]
        self._data = torch.empty(layers, 0, 0, 2 * heads, size, dtype=dtype, device=device)

    @property
    def nbytes(self) -> int:
        """Bytes held now."""
        return self._data.nbytes

    @property
    def bytes_per_position(self) -> int:
        """Bytes that one position of one row takes."""
        layers, _, _, heads, size = self._data.shape
        return layers * heads * size * self._data.itemsize

    @property
    def positions(self) -> int:
        """Positions of a row that there is room for."""
        return self._data.shape[2]

    def keep(self) -> None:
        """Gives no memory back: what was recorded with its address can be replayed."""
        self._kept = True

    @torch.inference_mode()
    def take(self) -> CacheRow:
        """A new row, empty; the caller keeps to `max_rows`."""
        row = CacheRow(len(self._rows))
        if row.slot == self._data.shape[1]:
            self._resize(min(max(1, 2 * row.slot), self._max_rows), self._data.shape[2])
        self._rows.append(row)
        return row

    @torch.inference_mode()
    def release(self, row: CacheRow) -> None:
        """Gives a row's place back."""
        last = self._rows.pop()
        if not self._rows and not self._kept:
            self._resize(0, 0)
            return
        if last is not row:
            # All of it: a step may just have written more than its length says.
            self._data[:, row.slot] = self._data[:, last.slot]
            self._rows[row.slot] = last
        # What lies there is read, masked, beside longer rows: it must never be NaN.
        self._data[:, last.slot].zero_()
        last.slot = row.slot

    @torch.inference_mode()
    def reserve(self, positions: int) -> None:
        """Makes room for rows of this many positions."""
        if positions > self._data.shape[2]:
            self._resize(self._data.shape[1], -(-positions // _POSITIONS) * _POSITIONS)

    def write(self, layer: int, at: tuple[Tensor, Tensor], keys: Tensor, values: Tensor) -> None:
        """Stores keys and values [tokens, heads, size] at (slots [tokens], positions [tokens])."""
        self._data[layer].index_put_(at, torch.cat((keys, values), dim=1))

    def read(self, layer: int, slots: slice | Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Keys and values [rows, heads, length, size]; views where `slots` is a slice."""
        both = self._data[layer][:, :length][slots].transpose(1, 2)
        return both[:, : self._heads], both[:, self._heads :]

    def _resize(self, rows: int, positions: int) -> None:
        self.version += 1
        old = self._data
        layers, kept_rows, kept_positions, heads, size = old.shape
        self._data = old.new_zeros(layers, rows, positions, heads, size)
        if rows:
            self._data[:, :kept_rows, :kept_positions] = old
