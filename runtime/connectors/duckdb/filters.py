"""Conditions that DuckDB can check while it reads, as its SQL. The plan checks all of them again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlstream.expressions import Call, Expression, InputRef, Literal
from sqlstream.types import INTEGER_ROOTS, LogicalType, TypeRoot

_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_ORDERED = (*INTEGER_ROOTS, TypeRoot.DATE, TypeRoot.DECIMAL)
_EQUAL_ONLY = (TypeRoot.CHAR, TypeRoot.VARCHAR)


def quote(name: str) -> str:
    """A name of DuckDB's SQL.

    >>> quote('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text of DuckDB's SQL."""
    return "'" + value.replace("'", "''") + "'"


def where(filters: Iterable[Expression], names: Sequence[str]) -> str:
    """` WHERE …` of the conjuncts that DuckDB decides as we do, over columns of these names; empty without one."""
    parts = [sql for f in filters if (sql := _condition(f, names)) is not None]
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def _condition(node: Expression, names: Sequence[str]) -> str | None:
    """None for what DuckDB could decide differently, such as an order of texts, where we compare UTF-16 units."""
    if isinstance(node, InputRef):
        return quote(names[node.index]) if node.type.root is TypeRoot.BOOLEAN else None
    if not isinstance(node, Call):
        return None
    if node.function in ("AND", "OR"):
        parts = [_condition(a, names) for a in node.args]
        return None if None in parts else "(" + f" {node.function} ".join(str(p) for p in parts) + ")"
    if node.function in ("IS NULL", "IS NOT NULL") and isinstance(node.args[0], InputRef):
        return f"{quote(names[node.args[0].index])} {node.function}"
    if node.function in _COMPARISONS and len(node.args) == 2:
        return _comparison(node, names)
    return None


def _comparison(node: Call, names: Sequence[str]) -> str | None:
    sides = [_side(a, names, node.function) for a in node.args]
    if None in sides or not any(isinstance(a, InputRef) for a in node.args):
        return None
    return f"({sides[0]} {node.function} {sides[1]})"


def _side(node: Expression, names: Sequence[str], function: str) -> str | None:
    t: LogicalType = node.type
    if t.root not in _ORDERED and not (t.root in _EQUAL_ONLY and function in ("=", "<>")):
        return None
    if isinstance(node, InputRef):
        return quote(names[node.index])
    if not isinstance(node, Literal) or node.value is None:
        return None
    if t.root in _EQUAL_ONLY:
        return text(str(node.value))
    if t.root is TypeRoot.DATE:
        return f"(DATE '1970-01-01' + {int(node.value)})"
    return f"({node.value})"
