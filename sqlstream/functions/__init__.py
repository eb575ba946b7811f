"""All functions by name; each family of functions has one file, and one line here."""

from __future__ import annotations

from sqlstream.expressions import AggregateCall
from sqlstream.functions import (
    aggregates,
    arithmetic,
    arrays,
    bitmap,
    collection,
    comparison,
    conditional,
    encoding,
    json,
    maps,
    string,
    temporal,
)
from sqlstream.functions.signature import AggregateFunction, DescribedFunction, ScalarFunction
from sqlstream.functions.user import aggregate_signature

SCALAR_FAMILIES: tuple[tuple[str, tuple[ScalarFunction, ...]], ...] = (
    ("Comparisons", comparison.FUNCTIONS),
    ("Logic", comparison.LOGIC),
    ("Numbers", arithmetic.FUNCTIONS),
    ("Text", string.FUNCTIONS),
    ("Time", temporal.FUNCTIONS),
    ("Conditions", conditional.FUNCTIONS),
    ("Conversions", conditional.CONVERSIONS),
    ("Rows, arrays and maps", collection.FUNCTIONS),
    ("Arrays", arrays.FUNCTIONS),
    ("Maps", maps.FUNCTIONS),
    ("Hashes", encoding.HASHES),
    ("JSON", json.FUNCTIONS),
    ("Encodings, addresses and tests", encoding.FUNCTIONS),
    ("Bitmaps", bitmap.FUNCTIONS),
)
"""The scalar functions and operators of each family, under its title."""

SCALAR_FUNCTIONS: dict[str, ScalarFunction] = {f.name: f for _, family in SCALAR_FAMILIES for f in family}
"""Scalar functions and operators, by upper-case name or symbol."""

AGGREGATE_FUNCTIONS: dict[str, AggregateFunction] = {f.name: f for f in aggregates.FUNCTIONS}
"""Aggregate functions, by upper-case name."""

REWRITTEN_SCALARS = {f.name: f for f in collection.REWRITTEN}
"""Functions that the binder writes as other expressions."""

REWRITTEN_AGGREGATES = {f.name: f for f in aggregates.REWRITTEN}
"""Aggregates that the parser writes as others."""

CALLABLE: dict[str, DescribedFunction] = {
    name: function
    for functions in (SCALAR_FUNCTIONS, AGGREGATE_FUNCTIONS, REWRITTEN_SCALARS, REWRITTEN_AGGREGATES)
    for name, function in functions.items()
    if function.description
}
"""What a user can call by name."""


def signature_of(call: AggregateCall) -> AggregateFunction:
    """The signature of a call's function, built-in or a user's."""
    return AGGREGATE_FUNCTIONS[call.function] if call.ref is None else aggregate_signature(call.ref)


__all__ = [
    "AGGREGATE_FUNCTIONS",
    "CALLABLE",
    "REWRITTEN_AGGREGATES",
    "REWRITTEN_SCALARS",
    "SCALAR_FAMILIES",
    "SCALAR_FUNCTIONS",
    "AggregateFunction",
    "ScalarFunction",
    "signature_of",
]
