"""The protocol of accumulators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sqlstream.expressions import AggregateCall
from sqlstream.runtime.kernels.buffers import valid_mask
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.types import LogicalType

if TYPE_CHECKING:
    from sqlstream.runtime.aggregates.value_counts import ValueCounts
    from sqlstream.runtime.aggregates.value_sets import ValueSets

NO_WEIGHTS: Array = np.empty(0, dtype=np.int8)
"""Every row adds: see sqlstream.runtime.kernels.accumulate."""


class Accumulator(ABC):
    """The accumulators of one aggregate call for dense slots 0 … capacity - 1.

    `slots` is int64[n], the slot of each row. `weights` is int8[n]: +1 adds a row, -1 retracts it, 0 skips it (empty: all +1);
    rows with NULL arguments are skipped too, unless `takes_nulls`. State: one entry per slot, until `reset`.
    """

    suffixes: tuple[str, ...] = ("",)
    """What the names of the columns that `columns` returns have behind the name of the call."""

    takes_nulls: bool = False
    """Whether a row whose argument is NULL takes part."""

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        self.call = call
        self.argument_types = argument_types

    @abstractmethod
    def resize(self, capacity: int) -> None:
        """Make room for `capacity` slots; new ones are empty. Never shrinks."""

    @abstractmethod
    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        """Add or retract rows."""

    @abstractmethod
    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        """Add accumulators in the form that `columns` of another instance returns."""

    @abstractmethod
    def columns(self, slots: Array) -> list[pa.Array]:
        """The accumulators of these slots, in the layout of `sqlstream.functions.aggregates.accumulator_fields`. With the
        kept values they are the whole state, and `load` takes them back."""

    @abstractmethod
    def results(self, slots: Array) -> pa.Array:
        """The aggregate's values."""

    @abstractmethod
    def reset(self, slots: Array) -> None:
        """Empty these slots for reuse."""

    @property
    def kept_values(self) -> ValueCounts | ValueSets | None:
        """The values of each slot, for calls that keep them. None for the others."""
        return None

    def load(self, slots: Array, columns: list[pa.Array]) -> None:
        """The inverse of `columns`, on empty slots; kept values are loaded by themselves."""
        self.merge(slots, columns)

    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held."""


def present(weights: Array, *args: pa.Array) -> Array:
    """`weights` with 0 where an argument is NULL."""
    for arg in args:
        valid = valid_mask(arg)
        if valid is not None:
            mask = valid.astype(np.int8)
            weights = mask if len(weights) == 0 else weights * mask
    return weights
