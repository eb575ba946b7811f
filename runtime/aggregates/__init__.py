"""Accumulators of the aggregate functions; `make_accumulator` picks one for a call."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.errors import InternalError
from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates.accumulator import Accumulator
from sqlstream.runtime.aggregates.bitmap_aggregate import BITMAP_FUNCTIONS, BitmapAggregate
from sqlstream.runtime.aggregates.distinct import Distinct
from sqlstream.runtime.aggregates.extreme import Extreme, RetractableExtreme
from sqlstream.runtime.aggregates.lists import ArrayAggregate, KeptCounts, KeptTexts, ListAggregate
from sqlstream.runtime.aggregates.multiset import Collect, Percentile
from sqlstream.runtime.aggregates.ordered import KeptOrder, OrderedValue
from sqlstream.runtime.aggregates.sums import Average, Count, Sum, Variance
from sqlstream.types import LogicalType

_SIMPLE: dict[str, type[Accumulator]] = {
    "COUNT": Count,
    "MIN": Extreme,
    "MAX": Extreme,
    "SUM": Sum,
    "AVG": Average,
    "STDDEV_POP": Variance,
    "STDDEV": Variance,
    "STDDEV_SAMP": Variance,
    "VAR_POP": Variance,
    "VAR_SAMP": Variance,
    "VARIANCE": Variance,
    "FIRST_VALUE": OrderedValue,
    "LAST_VALUE": OrderedValue,
    "LISTAGG": ListAggregate,
    "ARRAY_AGG": ArrayAggregate,
    "COLLECT": Collect,
    "PERCENTILE": Percentile,
    **dict.fromkeys(BITMAP_FUNCTIONS, BitmapAggregate),
}


_RETRACTING: dict[str, type[Accumulator]] = {
    "MIN": RetractableExtreme,
    "MAX": RetractableExtreme,
    "FIRST_VALUE": KeptOrder,
    "LAST_VALUE": KeptOrder,
    "LISTAGG": KeptTexts,
}
"""Those that keep all values of rows that may be retracted."""

_KNOW_DISTINCT = frozenset({"MIN", "MAX", "COLLECT", "PERCENTILE", *BITMAP_FUNCTIONS}) - {
    "BITMAP_XOR_AGG",
    "BITMAP_XOR_CARDINALITY_AGG",
}
"""Those that are the same for distinct values, or keep them anyway."""


def make_accumulator(
    call: AggregateCall, argument_types: tuple[LogicalType, ...], is_retracting: bool = False
) -> Accumulator:
    """The accumulator of a call over arguments of these types; `is_retracting`: rows may be retracted."""
    inner = _make_plain(call, argument_types, is_retracting)
    is_distinct = call.is_distinct and argument_types and call.function not in _KNOW_DISTINCT
    return Distinct(call, argument_types, inner) if is_distinct else inner


def _make_plain(
    call: AggregateCall, argument_types: tuple[LogicalType, ...], is_retracting: bool
) -> Accumulator:
    if call.ref is not None:
        # Its modules are many, which most jobs do without.
        from sqlstream.runtime.aggregates.user_aggregate import UserAggregate

        return UserAggregate(call, argument_types)
    if call.function == "COLLECT" and pa.types.is_nested(to_arrow_type(argument_types[0])):
        return KeptCounts(call, argument_types)
    found = (_RETRACTING if is_retracting else {}).get(call.function) or _SIMPLE.get(call.function)
    if found is None:
        raise InternalError(f"aggregate function {call.function} has no accumulator")
    return found(call, argument_types)


__all__ = ["Accumulator", "make_accumulator"]
