"""CASE and the functions that choose between their arguments."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.functions.arguments import always, is_any_nullable
from sqlstream.functions.comparison import NESTED, comparable
from sqlstream.functions.merging import common_type
from sqlstream.functions.signature import ScalarFunction
from sqlstream.types import BOOLEAN, LogicalType, TypeRoot

Types = tuple[LogicalType, ...]
_MANY = 100_000


def _to_shared(types: Types) -> Types | None:
    shared = common_type(types)
    return None if shared is None else tuple(shared.with_nullable(t.nullable) for t in types)


def _to_ordered(types: Types) -> Types | None:
    return None if any(t.root in NESTED for t in types) else _to_shared(types)


def _case_values(types: Types) -> Types:
    """The values and, last, ELSE; the arguments at even positions before it are the conditions."""
    return (*types[1::2], types[-1])


def _case_arguments(types: Types) -> Types | None:
    if len(types) % 2 == 0 or any(t.root not in (TypeRoot.BOOLEAN, TypeRoot.NULL) for t in types[0:-1:2]):
        return None
    values = _to_shared(_case_values(types))
    if values is None:
        return None
    pairs = zip(types[0:-1:2], values[:-1], strict=True)
    return (
        *(t for condition, value in pairs for t in (BOOLEAN.with_nullable(condition.nullable), value)),
        values[-1],
    )


def _if_arguments(types: Types) -> Types | None:
    return _case_arguments(types)


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
    ScalarFunction(
        "SINGLE_ROW",
        "SINGLE_ROW(value, rows)",
        2,
        2,
        lambda types: types[0].with_nullable(True) if types[1].root is TypeRoot.BIGINT else None,
    ),
    ScalarFunction("KEY_BYTES", "KEY_BYTES(value)", 1, 1, always(sql.BYTES.not_null())),
    ScalarFunction(
        "CASE", "CASE WHEN condition THEN value … [ELSE value] END", 3, _MANY, _case_type, _case_arguments
    ),
    ScalarFunction("IF", "IF(condition, value1, value2)", 3, 3, _case_type, _if_arguments),
    ScalarFunction("COALESCE", "COALESCE(value1 [, value2]*)", 1, _MANY, _coalesced, _to_shared),
    ScalarFunction("IFNULL", "IFNULL(value, replacement)", 2, 2, _if_null, _to_shared),
    ScalarFunction(
        "NULLIF",
        "NULLIF(value1, value2)",
        2,
        2,
        lambda types: types[0].with_nullable(True),
        comparable,
        tries_text=True,
    ),
    ScalarFunction("GREATEST", "GREATEST(value1[, value2]*)", 1, _MANY, _extreme, _to_ordered),
    ScalarFunction("LEAST", "LEAST(value1[, value2]*)", 1, _MANY, _extreme, _to_ordered),
)
