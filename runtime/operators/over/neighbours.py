"""LAG, LEAD, FIRST_VALUE, LAST_VALUE and NTH_VALUE: a value of another row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.runtime.aggregates.numbers import present_rows
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.operators.over.sorted_rows import SortedRows
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.over import OverCall


def lag_or_lead(call: OverCall, rows: SortedRows) -> pa.Array:
    """The value `number` rows before or after; the default of the row itself where there is none."""
    values, n = rows.batch.column(call.args[0]), len(rows)
    step = -call.number if call.function == "LAG" else call.number
    if call.skips_nulls and step:
        found = _over_nulls(values, step)
    else:
        found = rows.numbers + step
    is_there = (found >= rows.first) & (found < rows.last)
    if len(call.args) == 1:
        return taken(values, np.where(is_there, found, -1))
    both = pa.chunked_array([values, rows.batch.column(call.args[1]).cast(values.type)]).combine_chunks()
    return taken(both, np.where(is_there, found, n + rows.numbers))


def _over_nulls(values: pa.Array, step: int) -> Array:
    """The row of the value that is `step` values away, NULLs not counted; -1 for none."""
    is_present = present_rows(values)
    present = np.flatnonzero(is_present)
    before = np.cumsum(is_present) - is_present
    wanted = before + step if step < 0 else before + is_present + step - 1
    is_there = (wanted >= 0) & (wanted < len(present))
    padded = np.append(present, -1)
    return np.where(is_there, padded[np.where(is_there, wanted, -1)], -1)


def value_at(call: OverCall, values: pa.Array, takes_part: Array, starts: Array, ends: Array) -> pa.Array:
    """The first, last or n-th value of each frame among the rows that take part; NULL where there is none."""
    rows = np.append(np.flatnonzero(takes_part), -1)
    counts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(takes_part)])
    low, high = counts[starts], counts[ends]
    wanted = {"FIRST_VALUE": low, "LAST_VALUE": high - 1}.get(call.function, low + call.number - 1)
    is_there = (wanted >= low) & (wanted < high)
    return taken(values, rows[np.where(is_there, wanted, -1)])


def taken(values: pa.Array, rows: Array) -> pa.Array:
    """The values of these rows, NULL for -1."""
    return values.take(to_array(pa.int64(), np.maximum(rows, 0), rows >= 0))
