"""CASE, IF and others without a branch that can fail; program.py computes those with one."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.row_errors import too_many_rows
from sqlstream.runtime.evaluate.kernel import Datum, as_array, as_arrays, plain, rows_of
from sqlstream.runtime.evaluate.nested_keys import encoded
from sqlstream.runtime.kernels.buffers import unpack_bits, valid_mask, view_buffer
from sqlstream.runtime.kernels.text.text_scan import choose_texts


def _case(*args: Datum) -> Datum:
    """CASE, computed from the last branch to the first: where a condition is FALSE or NULL, the later branches decide."""
    if _are_texts(args):
        return _case_of_texts(args)
    result = args[-1]
    for condition, value in reversed(list(zip(args[0:-1:2], args[1:-1:2], strict=True))):
        result = pc.if_else(_true(condition), value, result)
    return result


_TEXTS_MAX = 255


def _are_texts(args: tuple[Datum, ...]) -> bool:
    values = (*args[1::2], args[-1])
    return (
        all(pa.types.is_string(v.type) for v in values)
        and len(values) <= _TEXTS_MAX
        and any(isinstance(c, pa.Array) for c in args[:-1:2])
    )


def _case_of_texts(args: tuple[Datum, ...]) -> pa.Array:
    """The number of each row's value first, so that every text is copied once."""
    values = [
        v if isinstance(v, pa.Array) else pa.array([v.as_py()], pa.string()) for v in (*args[1::2], args[-1])
    ]
    rows = rows_of(*args)
    picks = np.full(rows, len(values) - 1, np.uint8)
    for number, condition in reversed(list(enumerate(args[:-1:2]))):
        np.copyto(picks, np.uint8(number), where=_met(condition))
    return choose_texts(picks, values)


def _met(condition: Datum) -> Any:
    """Where a condition is TRUE: bool[n], or bool for a constant."""
    if isinstance(condition, pa.Scalar):
        return bool(condition.as_py())
    start = condition.offset & 7
    data = view_buffer(
        condition.buffers()[1], np.uint8, condition.offset >> 3, (start + len(condition) + 7) >> 3
    )
    met = unpack_bits(data, start, len(condition))
    valid = valid_mask(condition)
    return (met if valid is None else met & valid).view(np.bool_)


def _true(condition: Datum) -> Datum:
    if isinstance(condition, pa.Scalar):
        return pa.scalar(bool(condition.as_py()))
    return pc.fill_null(condition, False) if condition.null_count else condition


@plain
def null_if(value: Datum, other: Datum) -> Datum:
    value = as_array(value, rows_of(value, other))
    if pa.types.is_null(value.type):
        # NULLIF(NULL, NULL) without types: Arrow cannot compare these.
        return value
    return pc.if_else(_true(pc.equal(value, other)), pa.scalar(None, value.type), value)


def _extreme(is_greatest: bool, *args: Datum) -> Datum:
    """GREATEST and LEAST; NULL when any argument is NULL."""
    if pa.types.is_null(args[0].type):
        # NULLs without types: Arrow cannot compare these.
        return args[0]
    is_better = pc.greater if is_greatest else pc.less

    def better(a: Datum, b: Datum) -> Datum:
        # As in Flink the first of two values stays that are equal, or of which one is NaN.
        return pc.if_else(is_better(b, a), b, a)

    return reduce(better, args)


@plain
def single_row(value: Datum, count: Datum) -> Datum:
    """`value`, the one value of a subquery of `count` rows."""
    most = pc.max(count).as_py() or 0
    if most > 1:
        raise too_many_rows(str(most))
    return value


CASE = plain(_case)
KEY_BYTES = plain(lambda value: encoded(*as_arrays(value)))
COALESCE = plain(lambda *args: pc.coalesce(*args))
GREATEST = plain(lambda *args: _extreme(True, *args))
LEAST = plain(lambda *args: _extreme(False, *args))
