"""All functions by name; each family of functions has one file, and one line here."""

from __future__ import annotations

from sqlstream.functions import (
    aggregates,
    arithmetic,
    collection,
    comparison,
    conditional,
    conversion,
    hash,
    logical,
    string,
    temporal,
)
from sqlstream.functions.signature import AggregateFunction, ScalarFunction

_SCALAR_FAMILIES = (
    comparison.FUNCTIONS,
    logical.FUNCTIONS,
    arithmetic.FUNCTIONS,
    string.FUNCTIONS,
    temporal.FUNCTIONS,
    conditional.FUNCTIONS,
    conversion.FUNCTIONS,
    collection.FUNCTIONS,
    hash.FUNCTIONS,
)

SCALAR_FUNCTIONS: dict[str, ScalarFunction] = {f.name: f for family in _SCALAR_FAMILIES for f in family}
"""Scalar functions and operators, by upper-case name or symbol."""

AGGREGATE_FUNCTIONS: dict[str, AggregateFunction] = {f.name: f for f in aggregates.FUNCTIONS}
"""Aggregate functions, by upper-case name."""

__all__ = ["AGGREGATE_FUNCTIONS", "SCALAR_FUNCTIONS", "AggregateFunction", "ScalarFunction"]
