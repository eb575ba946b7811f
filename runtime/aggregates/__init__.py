"""Accumulators of the aggregate functions; `make_accumulator` picks one for a call."""

from __future__ import annotations

import functools

import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.functions import AGGREGATE_FUNCTIONS, signature_of
from sqlstream.runtime.aggregates.accumulator import Accumulator
from sqlstream.runtime.aggregates.distinct import Distinct
from sqlstream.spi.imported_by_need import imported
from sqlstream.types import LogicalType


def make_accumulator(
    call: AggregateCall, argument_types: tuple[LogicalType, ...], is_retracting: bool = False
) -> Accumulator:
    """The accumulator of a call over arguments of these types; `is_retracting`: rows may be retracted."""
    inner = _make_plain(call, argument_types, is_retracting)
    is_distinct = call.is_distinct and argument_types and not signature_of(call).ignores_distinct
    return Distinct(call, argument_types, inner, is_retracting) if is_distinct else inner


def _make_plain(
    call: AggregateCall, argument_types: tuple[LogicalType, ...], is_retracting: bool
) -> Accumulator:
    if call.ref is not None:
        place = "user_aggregate:UserAggregate"
    elif call.function == "COLLECT" and pa.types.is_nested(to_arrow_type(argument_types[0])):
        place = "lists:KeptCounts"
    else:
        function = AGGREGATE_FUNCTIONS[call.function]
        place = (function.retracting if is_retracting else "") or function.implementation
    return _class_at(place)(call, argument_types)


@functools.cache
def _class_at(place: str) -> type[Accumulator]:
    """The class is asked for with each batch of an OVER, and an import waits for those of other threads."""
    found: type[Accumulator] = imported(f"sqlstream.runtime.aggregates.{place}")
    return found


__all__ = ["Accumulator", "make_accumulator"]
