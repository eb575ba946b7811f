"""Which rows later rows still need, where frames begin with the partition and end with the current row."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.aggregates.numbers import present_rows
from sqlstream.runtime.operators.over.framed_calls import filtered, first_of_equals
from sqlstream.runtime.operators.over.sorted_rows import SortedRows
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.over import NEIGHBOURS, OverCall


def needed_rows(calls: tuple[OverCall, ...], rows: SortedRows) -> Array:
    """bool[n]: the rows that decide results of rows behind all of these, of calls none of which `needs_all_before`."""
    needed = np.zeros(len(rows), dtype=bool)
    for call in calls:
        needed |= _needed(call, rows)
    return needed


def _needed(call: OverCall, rows: SortedRows) -> Array:
    arguments = [rows.batch.column(a) for a in call.args]
    takes_part = filtered(call, rows)
    if call.is_distinct:
        for argument in arguments:
            takes_part &= present_rows(argument)
        return first_of_equals(arguments, takes_part, rows)
    if call.skips_nulls:
        takes_part &= present_rows(arguments[0])
    # How many rows that take part stand before each row, and how many of the partition behind it.
    before = np.cumsum(takes_part) - takes_part
    ends = np.append(before, np.count_nonzero(takes_part))
    if call.function in ("FIRST_VALUE", "NTH_VALUE"):
        chosen = before - before[rows.first] < (call.number or 1)
    else:
        count = call.number if call.function in NEIGHBOURS else 1
        chosen = ends[rows.last] - before - 1 < count
    return takes_part & chosen
