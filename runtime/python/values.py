"""Values between Arrow and Python: arguments of users' functions, and their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.types import INTEGER_ROOTS, STRING_ROOTS, VARCHAR_LENGTH_MAX, LogicalType, TypeRoot

SHOWN_MAX = 200
"""Characters of a value in an error."""


def python_values(column: pa.Array) -> list[Any]:
    """The values of a column as Python's: a MAP is a dict, a ROW a dict by field, a TIMESTAMP a datetime with microseconds."""
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = pc.cast(column, pa.timestamp("us", column.type.tz), safe=False)
    values: list[Any] = column.to_pylist(maps_as_pydicts="strict" if _has_map(column.type) else None)
    return values


def _has_map(t: pa.DataType) -> bool:
    return pa.types.is_map(t) or any(_has_map(t.field(i).type) for i in range(t.num_fields))


def arrow_values(values: Sequence[Any], declared: LogicalType, name: str) -> pa.Array:
    """The values of a result in the Arrow type of its SQL type. UserError SS5131 names the first that does not fit, and
    `name`."""
    target = to_arrow_type(declared)
    try:
        found = _convert(values, declared, target)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError) as error:
        raise _first_wrong(values, declared, target, name) from error
    if not declared.nullable and found.null_count:
        raise UserError(
            "SS5131",
            f"Python function {name} returned None for {declared}",
            hint="return a value, or declare the result without NOT NULL",
        )
    return found


def _convert(values: Sequence[Any], declared: LogicalType, target: pa.DataType) -> pa.Array:
    if declared.root in INTEGER_ROOTS:
        # Arrow would cut the fraction of a float.
        inferred = pa.array(values)
        if pa.types.is_floating(inferred.type):
            return pc.cast(inferred, target)
        if inferred.type == target:
            return inferred
    elif declared.root in _NESTED:
        for value in values:
            _check_integers(value, declared)
    found = pa.array(values, target)
    check_length(found, declared)
    return found


def check_length(found: pa.Array, declared: LogicalType) -> None:
    """ValueError for texts and bytes that are longer than their type allows."""
    if declared.length == VARCHAR_LENGTH_MAX:
        return
    if declared.root in STRING_ROOTS:
        lengths = pc.utf8_length(found)
    elif declared.root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        lengths = pc.binary_length(found)
    else:
        return
    longest = pc.max(lengths).as_py() or 0
    if longest > declared.length:
        raise ValueError(f"a length of {longest} is more than {declared.length}")


_NESTED = (TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.ROW, TypeRoot.MULTISET)


def _check_integers(value: Any, declared: LogicalType) -> None:
    if value is None:
        return
    if declared.root in INTEGER_ROOTS:
        if isinstance(value, float) and not value.is_integer():
            raise TypeError(f"{value} is no whole number")
    elif declared.root is TypeRoot.ROW:
        if isinstance(value, dict):
            unknown = value.keys() - {f.name for f in declared.fields}
            if unknown:
                raise TypeError(f"the row has no field {sorted(map(str, unknown))[0]}")
            for field in declared.fields:
                _check_integers(value.get(field.name), field.type)
        else:
            if len(value) != len(declared.fields):
                raise TypeError(f"{len(value)} values for {len(declared.fields)} fields")
            for item, field in zip(value, declared.fields, strict=True):
                _check_integers(item, field.type)
    elif declared.element is not None:
        items = value.values() if isinstance(value, dict) else value
        if (declared.root is TypeRoot.ARRAY and not isinstance(value, dict)) or (
            declared.root is TypeRoot.MAP and isinstance(value, dict)
        ):
            for item in items:
                _check_integers(item, declared.element)


def _first_wrong(values: Sequence[Any], declared: LogicalType, target: pa.DataType, name: str) -> UserError:
    for value in values:
        try:
            _convert([value], declared, target)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError) as error:
            reason = (str(error).splitlines() or [""])[0][:SHOWN_MAX]
            return UserError(
                "SS5131",
                f"Python function {name} returned {shown(value)} ({type(value).__name__}) for"
                f" {declared.with_nullable(True)}",
                detail=reason,
                hint="return a value of the declared result type, or declare another one",
            )
    return UserError(
        "SS5131",
        f"Python function {name} returned values that do not fit {declared.with_nullable(True)}",
        hint="return values of the declared result type, or declare another one",
    )


def shown(value: Any) -> str:
    """A value in an error: cut, and never failing."""
    try:
        text = repr(value)
    except Exception as error:
        return f"<{type(value).__name__}, whose repr fails: {type(error).__name__}>"
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
