"""The values of collected rows in the order of their keys: LISTAGG and ARRAY_AGG WITHIN GROUP."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import Call, Literal
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.kernel import Kernel, Values, null_mask
from sqlstream.runtime.evaluate.lists import Lists, list_column, offsets_of


def ordered_array(call: Call, context: EvaluationContext) -> Kernel:
    """The value behind the keys of each row."""
    letters, target = _letters(call), to_arrow_type(call.type)

    def kernel(rows: pa.Array, *_: object) -> pa.Array:
        lists, fields = _ordered(rows, letters)
        return list_column(target, lists.lengths, fields[0], lists.nulls)

    return kernel


def ordered_list(call: Call, context: EvaluationContext) -> Kernel:
    """The texts behind the keys, each after the separator of its row, by default a comma; the first has none."""
    letters = _letters(call)

    def kernel(rows: pa.Array, *_: object) -> pa.Array:
        lists, fields = _ordered(rows, letters)
        separators = pc.fill_null(fields[1], "") if len(fields) > 1 else pa.repeat(",", len(fields[0]))
        is_first = lists.ordinals() == 0
        pieces = pc.binary_join_element_wise(pc.if_else(pa.array(is_first), "", separators), fields[0], "")
        joined = pc.binary_join(pa.ListArray.from_arrays(offsets_of(lists.lengths), pieces), "")
        return pc.if_else(pa.array(lists.lengths > 0), joined, pa.scalar(None, joined.type))

    return kernel


def _letters(call: Call) -> str:
    order = call.args[1]
    assert isinstance(order, Literal)
    return str(order.value)


def _ordered(rows: pa.Array, letters: str) -> tuple[Lists, list[pa.Array]]:
    """The lists, and the columns behind the keys of all their elements, list by list in order; equal keys as they came."""
    lists = Lists.of(rows)
    columns = lists.elements().flatten()
    count = len(letters) // 2
    places = [_places(c, letters[2 * i : 2 * i + 2]) for i, c in enumerate(columns[:count])]
    order = np.lexsort((*reversed(places), lists.owners()))
    return lists, [column.take(pa.array(order)) for column in columns[count:]]


def _places(column: pa.Array, letters: str) -> Values:
    """Numbers that are in order as the keys are, the same for equal ones."""
    numbers = pc.rank(column, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    places = -numbers if letters[0] == "D" else numbers
    missing = null_mask(column)
    if missing is not None:
        ends = np.iinfo(np.int64)
        places[missing] = ends.min if letters[1] == "F" else ends.max
    return places
