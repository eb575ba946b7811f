"""Accumulators of the aggregate functions; `make_accumulator` picks one for a call."""

from __future__ import annotations

from runtime.aggregates.accumulator import Accumulator
from runtime.aggregates.count import Count
from runtime.aggregates.distinct import Distinct
from runtime.aggregates.extreme import Extreme, RetractableExtreme
from runtime.aggregates.list_aggregate import ListAggregate
from runtime.aggregates.ordered import OrderedValue
from runtime.aggregates.sum import Average, Sum
from runtime.aggregates.variance import Variance
from sqlstream.errors import InternalError
from sqlstream.expressions import AggregateCall
from sqlstream.types import LogicalType

_SIMPLE: dict[str, type[Accumulator]] = {
    "COUNT": Count,
    "SUM": Sum,
    "AVG": Average,
    "STDDEV_POP": Variance,
    "STDDEV_SAMP": Variance,
    "VAR_POP": Variance,
    "VAR_SAMP": Variance,
    "VARIANCE": Variance,
    "FIRST_VALUE": OrderedValue,
    "LAST_VALUE": OrderedValue,
    "LISTAGG": ListAggregate,
}


def make_accumulator(
    call: AggregateCall, argument_types: tuple[LogicalType, ...], is_retracting: bool = False
) -> Accumulator:
    """The accumulator of a call over arguments of these types; `is_retracting`: rows may be retracted."""
    inner = _make_plain(call, argument_types, is_retracting)
    # MIN and MAX are the same for distinct values.
    is_distinct = call.is_distinct and argument_types and call.function not in ("MIN", "MAX")
    return Distinct(call, argument_types, inner) if is_distinct else inner


def _make_plain(
    call: AggregateCall, argument_types: tuple[LogicalType, ...], is_retracting: bool
) -> Accumulator:
    if call.function in ("MIN", "MAX"):
        kind = RetractableExtreme if is_retracting else Extreme
        return kind(call, argument_types)
    found = _SIMPLE.get(call.function)
    if found is None:
        raise InternalError(f"aggregate function {call.function} has no accumulator")
    return found(call, argument_types)


__all__ = ["Accumulator", "make_accumulator"]
