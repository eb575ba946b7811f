"""CASE, the functions that choose between their arguments, and CAST."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.expressions import Call
from sqlstream.functions.arguments import MANY, always, as_given, is_any_nullable, scalar, to_shared
from sqlstream.functions.comparison import NESTED, comparable
from sqlstream.functions.merging import common_type
from sqlstream.functions.signature import Rejects, ScalarFunction
from sqlstream.types import BOOLEAN, LogicalType, TypeRoot

Types = tuple[LogicalType, ...]


def _to_ordered(types: Types) -> Types | None:
    return None if any(t.root in NESTED for t in types) else to_shared(types)


def _case_values(types: Types) -> Types:
    """The values and, last, ELSE; the arguments at even positions before it are the conditions."""
    return (*types[1::2], types[-1])


def _case_arguments(types: Types) -> Types | None:
    if len(types) % 2 == 0 or any(t.root not in (TypeRoot.BOOLEAN, TypeRoot.NULL) for t in types[0:-1:2]):
        return None
    values = to_shared(_case_values(types))
    if values is None:
        return None
    pairs = zip(types[0:-1:2], values[:-1], strict=True)
    return (
        *(t for condition, value in pairs for t in (BOOLEAN.with_nullable(condition.nullable), value)),
        values[-1],
    )


def _case_type(types: Types) -> LogicalType | None:
    return common_type(_case_values(types))


def _coalesced(types: Types) -> LogicalType | None:
    shared = common_type(types)
    return None if shared is None else shared.with_nullable(all(t.nullable for t in types))


def _if_null(types: Types) -> LogicalType | None:
    shared = common_type(types)
    return None if shared is None else shared.with_nullable(types[0].nullable and types[1].nullable)


def _extreme(types: Types) -> LogicalType | None:
    shared = common_type(types)
    return None if shared is None else shared.with_nullable(is_any_nullable(types))


FUNCTIONS: tuple[ScalarFunction, ...] = (
    scalar(
        "SINGLE_ROW(value, rows)",
        "conditional:single_row",
        as_given,
        lambda types: types[0].with_nullable(True) if types[1].root is TypeRoot.BIGINT else None,
        rejects=Rejects.VALUES,
    ),
    scalar("KEY_BYTES(value)", "conditional:KEY_BYTES", as_given, always(sql.BYTES.not_null())),
    scalar(
        "CASE WHEN condition THEN value … [ELSE value] END",
        "conditional:CASE",
        _case_arguments,
        _case_type,
        name="CASE",
        args=(3, MANY),
    ),
    scalar("IF(condition, value1, value2)", "conditional:CASE", _case_arguments, _case_type).described(
        "The first value where the condition is true, else the second.", "IF(1 < 2, 'a', 'b')", "a"
    ),
    scalar("COALESCE(value1 [, value2]*)", "conditional:COALESCE", to_shared, _coalesced).described(
        "The first argument that is not NULL.", "COALESCE(CAST(NULL AS INT), 2)", "2"
    ),
    scalar("IFNULL(value, replacement)", "conditional:COALESCE", to_shared, _if_null).described(
        "The value, or the replacement where it is NULL.", "IFNULL(CAST(NULL AS INT), 0)", "0"
    ),
    scalar(
        "NULLIF(value1, value2)",
        "conditional:null_if",
        comparable,
        lambda types: types[0].with_nullable(True),
        tries_text=True,
    ).described("NULL where both values are equal, else the first.", "NULLIF(5, 0)", "5"),
    scalar("GREATEST(value1[, value2]*)", "conditional:GREATEST", _to_ordered, _extreme).described(
        "The greatest argument; NULL when one is NULL.", "GREATEST(1, 3, 2)", "3"
    ),
    scalar("LEAST(value1[, value2]*)", "conditional:LEAST", _to_ordered, _extreme).described(
        "The least argument; NULL when one is NULL.", "LEAST(1, 3, 2)", "1"
    ),
)


# CAST and TRY_CAST: the target is the type of the call, and the binder checks that the cast exists.


def _check(call: Call) -> None:
    _check_parts(call.args[0].type, call.type)


def _check_parts(source: LogicalType, target: LogicalType) -> None:
    """UserError SS3106 where elements of a MULTISET would become those of another type."""
    if source.root is not target.root or source.same_as(target):
        return
    if source.root is TypeRoot.MULTISET:
        raise UserError(
            "SS3106", f"CAST of {source.with_nullable(True)} to {target.with_nullable(True)} is not supported"
        )
    for a, b in ((source.element, target.element), (source.key, target.key)):
        if a is not None and b is not None:
            _check_parts(a, b)
    for field, other in zip(source.fields, target.fields, strict=False):
        _check_parts(field.type, other.type)


CONVERSIONS: tuple[ScalarFunction, ...] = (
    scalar(
        "CAST(value AS type)", "cast:cast", as_given, lambda types: None, args=(1, 1), check=_check
    ).described(
        "The value in another type; a text that does not fit fails the job.", "CAST('12' AS INT)", "12"
    ),
    scalar(
        "TRY_CAST(value AS type)", "cast:cast", as_given, lambda types: None, args=(1, 1), check=_check
    ).described("The value in another type, NULL where it does not fit.", "TRY_CAST('12' AS INT)", "12"),
)
