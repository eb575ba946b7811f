"""Conditions that a database can check while it reads, as its SQL. The plan checks all of them again."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence

from sqlstream.expressions import Call, Expression, InputRef, Literal
from sqlstream.types import INTEGER_ROOTS, LogicalType, TypeRoot

_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_ORDERED = (*INTEGER_ROOTS, TypeRoot.DATE, TypeRoot.DECIMAL)
_EQUAL_ONLY = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()


def quote(name: str) -> str:
    """A name in SQL.

    >>> quote('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text in SQL."""
    return "'" + value.replace("'", "''") + "'"


def date_expression(days: int) -> str:
    """A day of any year, counted from 1970-01-01, for databases with a type for days."""
    return f"(DATE '1970-01-01' + {days})"


def date_text(days: int) -> str | None:
    """A day in ISO's form, for databases that store days so; None for years without four digits.

    >>> date_text(0), date_text(-1), date_text(10**7)
    ("'1970-01-01'", "'1969-12-31'", None)
    """
    try:
        return text(datetime.date.fromordinal(_EPOCH_ORDINAL + days).isoformat())
    except (ValueError, OverflowError):
        return None


def where(
    filters: Iterable[Expression],
    columns: Sequence[str | None],
    date: Callable[[int], str | None] = date_expression,
) -> str:
    """` WHERE …` of the conjuncts that a database decides as we do; empty without one. `columns` are the SQL of the columns that
    InputRefs number, None for one that it may compare in another way."""
    conditions = _Conditions(columns, date)
    parts = [sql for f in filters if (sql := conditions.of(f)) is not None]
    return f" WHERE {' AND '.join(parts)}" if parts else ""


class _Conditions:
    """Expressions as SQL, None for what the database could decide differently, such as an order of texts, where we compare
    UTF-16 units. No state."""

    def __init__(self, columns: Sequence[str | None], date: Callable[[int], str | None]) -> None:
        self._columns = columns
        self._date = date

    def of(self, node: Expression) -> str | None:
        if isinstance(node, InputRef):
            return self._columns[node.index] if node.type.root is TypeRoot.BOOLEAN else None
        if not isinstance(node, Call):
            return None
        if node.function in ("AND", "OR"):
            parts = [self.of(a) for a in node.args]
            return None if None in parts else "(" + f" {node.function} ".join(str(p) for p in parts) + ")"
        if node.function in ("IS NULL", "IS NOT NULL") and isinstance(node.args[0], InputRef):
            column = self._columns[node.args[0].index]
            return None if column is None else f"{column} {node.function}"
        if node.function in _COMPARISONS and len(node.args) == 2:
            return self._comparison(node)
        return None

    def _comparison(self, node: Call) -> str | None:
        sides = [self._side(a, node.function) for a in node.args]
        if None in sides or not any(isinstance(a, InputRef) for a in node.args):
            return None
        return f"({sides[0]} {node.function} {sides[1]})"

    def _side(self, node: Expression, function: str) -> str | None:
        t: LogicalType = node.type
        if t.root not in _ORDERED and not (t.root in _EQUAL_ONLY and function in ("=", "<>")):
            return None
        if isinstance(node, InputRef):
            return self._columns[node.index]
        if not isinstance(node, Literal) or node.value is None:
            return None
        if t.root in _EQUAL_ONLY:
            return None if "\0" in str(node.value) else text(str(node.value))
        if t.root is TypeRoot.DATE:
            return self._date(int(node.value))
        return f"({node.value})"
