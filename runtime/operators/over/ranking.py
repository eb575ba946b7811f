"""ROW_NUMBER, RANK, DENSE_RANK, NTILE, CUME_DIST and PERCENT_RANK."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.operators.over.sorted_rows import SortedRows
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.over import OverCall


def ranking(call: OverCall, rows: SortedRows, prior: Array | None) -> Array:
    """A number per row. `prior`, by partition: how many rows (DENSE_RANK: different rows) there were before these."""
    earlier = 0 if prior is None else prior[rows.partitions]
    match call.function:
        case "ROW_NUMBER":
            return rows.numbers - rows.first + 1 + earlier
        case "RANK":
            return rows.peer_first - rows.first + 1 + earlier
        case "DENSE_RANK":
            return rows.peer_numbers - rows.peer_numbers[rows.first] + 1 + earlier
        case "NTILE":
            return _bucket(rows, call.number)
        case "CUME_DIST":
            return (rows.peer_last - rows.first) / rows.sizes
    return (rows.peer_first - rows.first) / np.maximum(rows.sizes - 1, 1)


def _bucket(rows: SortedRows, buckets: int) -> Array:
    """The first buckets have one row more when the rows do not divide evenly."""
    place = rows.numbers - rows.first
    size, larger = rows.sizes // buckets, rows.sizes % buckets
    in_larger = larger * (size + 1)
    of_larger = place // (size + 1)
    of_others = larger + (place - in_larger) // np.maximum(size, 1)
    return np.where(place < in_larger, of_larger, of_others) + 1
