"""All functions by name; each family of functions has one file, and one line here."""

from __future__ import annotations

from sqlstream.expressions import AggregateCall
from sqlstream.functions import (
    aggregates,
    arithmetic,
    arrays,
    collection,
    comparison,
    conditional,
    conversion,
    encoding,
    hash,
    json,
    logical,
    maps,
    string,
    temporal,
)
from sqlstream.functions.signature import AggregateFunction, ScalarFunction
from sqlstream.functions.user import aggregate_signature

_SCALAR_FAMILIES = (
    comparison.FUNCTIONS,
    logical.FUNCTIONS,
    arithmetic.FUNCTIONS,
    string.FUNCTIONS,
    temporal.FUNCTIONS,
    conditional.FUNCTIONS,
    conversion.FUNCTIONS,
    collection.FUNCTIONS,
    arrays.FUNCTIONS,
    maps.FUNCTIONS,
    hash.FUNCTIONS,
    json.FUNCTIONS,
    encoding.FUNCTIONS,
)

SCALAR_FUNCTIONS: dict[str, ScalarFunction] = {f.name: f for family in _SCALAR_FAMILIES for f in family}
"""Scalar functions and operators, by upper-case name or symbol."""

AGGREGATE_FUNCTIONS: dict[str, AggregateFunction] = {f.name: f for f in aggregates.FUNCTIONS}
"""Aggregate functions, by upper-case name."""


def signature_of(call: AggregateCall) -> AggregateFunction:
    """The signature of a call's function, built-in or a user's."""
    return AGGREGATE_FUNCTIONS[call.function] if call.ref is None else aggregate_signature(call.ref)


__all__ = [
    "AGGREGATE_FUNCTIONS",
    "SCALAR_FUNCTIONS",
    "AggregateFunction",
    "ScalarFunction",
    "signature_of",
]
