"""Comparisons, IN and the tests for NULL."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.expressions import Call
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.kernel import Builder, Datum, Kernel, as_arrays, plain, rows_of
from sqlstream.runtime.evaluate.nested_keys import encoded
from sqlstream.runtime.kernels.text.text_scan import are_any_of
from sqlstream.types import TypeRoot

_COMPARED_MAX = 8
"""Texts are compared with so many candidates one by one; more are looked up."""


def _is_not_distinct(left: Datum, right: Datum) -> pa.Array:
    a, b = as_arrays(left, right)
    if pa.types.is_nested(a.type):
        return pc.equal(encoded(a), encoded(b))
    if pa.types.is_null(a.type) and pa.types.is_null(b.type):
        # Arrow cannot compare NULLs without types.
        return pa.repeat(True, len(a))
    same = pc.fill_null(pc.equal(a, b), False)
    return pc.or_(same, pc.and_(pc.is_null(a), pc.is_null(b)))


@plain
def is_distinct(left: Datum, right: Datum) -> pa.Array:
    return pc.invert(_is_not_distinct(left, right))


def _in(value: Datum, *candidates: Datum) -> Any:
    """NULL when the value is NULL, or when it is not found and a candidate is NULL."""
    is_listed = isinstance(value, pa.Array) and all(isinstance(c, pa.Scalar) for c in candidates)
    # Arrow's look-up distinguishes -0.0 from 0.0 and finds NaN equal to NaN; `=` does neither.
    if not is_listed or pa.types.is_floating(value.type) or pa.types.is_nested(value.type):
        return _in_any(value, candidates)
    # Scalars stay scalars: Python's datetime does not hold nanoseconds.
    known = pa.array([c for c in candidates if c.is_valid], value.type)
    if pa.types.is_string(value.type) and len(known) == len(candidates) <= _COMPARED_MAX:
        return are_any_of(value, [c.encode() for c in known.to_pylist()])
    found = pc.is_in(value, value_set=known)
    if len(known) == len(candidates) and value.null_count == 0:
        return found
    has_null = len(known) < len(candidates)
    unknown = pc.or_(pc.is_null(value), pc.invert(found)) if has_null else pc.is_null(value)
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


def _in_any(value: Datum, candidates: Sequence[Datum]) -> Any:
    if pa.types.is_nested(value.type):
        # The value and one of the candidates may both be constants.
        value, *candidates = as_arrays(value, *candidates)
    result = _equal(value, candidates[0])
    for candidate in candidates[1:]:
        result = pc.or_kleene(result, _equal(value, candidate))
    return result


def _compare(function: Kernel) -> Builder:
    def build(call: Call, context: EvaluationContext) -> Kernel:
        if all(a.type.root is TypeRoot.NULL for a in call.args):
            # NULL < NULL and NULL IN (NULL) without types: Arrow cannot compare these.
            return lambda *args: pa.nulls(rows_of(*args), pa.bool_())
        return function

    return build


def _equal(left: Datum, right: Datum) -> Any:
    return pc.equal(left, right) if not pa.types.is_nested(left.type) else _equal_nested(left, right)


def _not_equal(left: Datum, right: Datum) -> Any:
    is_nested = pa.types.is_nested(left.type)
    return pc.invert(_equal_nested(left, right)) if is_nested else pc.not_equal(left, right)


def _equal_nested(left: Datum, right: Datum) -> pa.Array:
    a, b = as_arrays(left, right)
    is_null = pc.or_(pc.is_null(a), pc.is_null(b))
    return pc.if_else(is_null, pa.scalar(None, pa.bool_()), pc.equal(encoded(a), encoded(b)))


# Three-valued logic.


@plain
def and_(*operands: Datum) -> Datum:
    return reduce(pc.and_kleene, operands)


@plain
def or_(*operands: Datum) -> Datum:
    return reduce(pc.or_kleene, operands)


# The builders of the functions.

EQUAL = _compare(_equal)
NOT_EQUAL = _compare(_not_equal)
LESS = _compare(pc.less)
LESS_OR_EQUAL = _compare(pc.less_equal)
GREATER = _compare(pc.greater)
GREATER_OR_EQUAL = _compare(pc.greater_equal)
IS_NOT_DISTINCT_FROM = plain(_is_not_distinct)
IS_NULL = plain(lambda value: pc.is_null(value))
IS_NOT_NULL = plain(lambda value: pc.is_valid(value))
IN = _compare(_in)
NOT = plain(lambda value: pc.invert(value))
IS_TRUE = plain(lambda value: pc.fill_null(value, False))
IS_NOT_TRUE = plain(lambda value: pc.invert(pc.fill_null(value, False)))
IS_FALSE = plain(lambda value: pc.invert(pc.fill_null(value, True)))
IS_NOT_FALSE = plain(lambda value: pc.fill_null(value, True))
