"""Signatures of users' functions, made of their declarations."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.function_ref import FunctionKind, FunctionRef
from sqlstream.functions.merging import common_type
from sqlstream.functions.signature import AggregateFunction, ScalarFunction
from sqlstream.types import LogicalType, TypeRoot

_FROM_NUMBERS = (TypeRoot.DECIMAL, *sql.APPROXIMATE_ROOTS)


def scalar_signature(ref: FunctionRef) -> ScalarFunction:
    """A SCALAR function; a TABLE function returns its rows as an array."""
    result = ref.result_type
    if ref.kind is FunctionKind.TABLE:
        result = sql.array(result.not_null())

    def result_type(types: tuple[LogicalType, ...]) -> LogicalType:
        return result.with_nullable(result.nullable or skips_null(ref, types))

    return ScalarFunction(
        ref.name,
        ref.usage,
        ref.args_min,
        ref.args_max,
        result_type,
        lambda types: _coerced(ref, types),
        ref.is_deterministic,
    )


def aggregate_signature(ref: FunctionRef) -> AggregateFunction:
    """An aggregate with `merge` can be sent as its accumulator."""
    kept = ref.accumulator_type
    assert kept is not None
    return AggregateFunction(
        ref.name,
        ref.usage,
        ref.args_min,
        ref.args_max,
        lambda types: ref.result_type,
        (lambda types: (kept,)) if "merge" in ref.methods else None,
        lambda types: _coerced(ref, types),
    )


def skips_null(ref: FunctionRef, types: tuple[LogicalType, ...]) -> bool:
    """Whether a NULL among arguments of these types makes the result NULL without a call."""
    declared = (ref.argument_type(i) for i in range(len(types)))
    return any(t.nullable and d is not None and not d.nullable for t, d in zip(types, declared, strict=True))


def _coerced(ref: FunctionRef, types: tuple[LogicalType, ...]) -> tuple[LogicalType, ...] | None:
    found = []
    for place, given in enumerate(types):
        wanted = ref.argument_type(place)
        if wanted is None:
            if given.root is TypeRoot.NULL:
                # A value of no type would have no Arrow type either.
                found.append(sql.STRING)
                continue
            found.append(given)
        elif _converts(given, wanted):
            found.append(wanted.with_nullable(given.nullable))
        else:
            return None
    return tuple(found)


def _converts(given: LogicalType, wanted: LogicalType) -> bool:
    """Whether a value is cast without being told to: nothing but precision may be lost."""
    plain = wanted.with_nullable(True)
    if given.root is TypeRoot.NULL or given.with_nullable(True).same_as(plain):
        return True
    if given.root is wanted.root and given.root in sql.CONSTRUCTED_ROOTS:
        return len(given.fields) == len(wanted.fields) and all(map(_converts, given.parts, wanted.parts))
    if sql.is_numeric(given) and wanted.root in _FROM_NUMBERS:
        return not (given.root in sql.APPROXIMATE_ROOTS and wanted.root is TypeRoot.DECIMAL)
    found = common_type((plain, given.with_nullable(True)))
    return found is not None and found.root is wanted.root
