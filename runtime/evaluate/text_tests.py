"""Tests of texts, ELT and TYPEOF."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.errors import InternalError
from sqlstream.expressions import Call
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.kernel import (
    Builder,
    Datum,
    Kernel,
    as_arrays,
    is_literal,
    literal_of,
    plain,
)
from sqlstream.text_tests import TEXT_TESTS
from sqlstream.type_names import serializable_name


def _matching(regex: str) -> Builder:
    """Whether the whole text matches; NULL does not."""
    return plain(lambda text: pc.fill_null(pc.match_substring_regex(text, rf"\A(?:{regex})\z"), False))


def _chosen(call: Call, context: EvaluationContext) -> Kernel:
    """ELT: the value of this number, from 1; NULL for another number."""
    target, count = to_arrow_type(call.type), len(call.args) - 1

    def kernel(*args: Datum) -> pa.Array:
        index, *values = as_arrays(*args)
        is_place = pc.and_(pc.greater_equal(index, 1), pc.less_equal(index, count))
        place = pc.if_else(is_place, pc.subtract(pc.cast(index, pa.int64()), 1), pa.scalar(None, pa.int64()))
        return pc.choose(place, *(value.cast(target) for value in values))

    return kernel


def _type_of(call: Call, context: EvaluationContext) -> Kernel:
    name: str | None = str(call.args[0].type)
    if len(call.args) == 2 and (not is_literal(call, 1) or literal_of(call, 1)):
        literal_of(call, 1)
        name = serializable_name(call.args[0].type) if is_literal(call, 1) else None
    return lambda value, *_: pa.array([name] * len(value), pa.string())


def _current_database(call: Call, context: EvaluationContext) -> Kernel:
    raise InternalError("CURRENT_DATABASE is bound as a constant")


BUILDERS: dict[str, Builder] = {
    **{name: _matching(regex) for name, regex in TEXT_TESTS.items()},
    "ELT": _chosen,
    "TYPEOF": _type_of,
    "CURRENT_DATABASE": _current_database,
}
