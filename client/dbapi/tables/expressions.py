"""Expressions of the Python API: what is written with operators and methods stands for SQL text."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias

from sqlstream.client.dbapi.errors import ProgrammingError, translating
from sqlstream.client.dbapi.literals import sql_literal
from sqlstream.client.dbapi.places import Place
from sqlstream.client.dbapi.tables.text import Writer, interval, quoted
from sqlstream.errors import did_you_mean
from sqlstream.types import LogicalType

if TYPE_CHECKING:
    from sqlstream.client.dbapi.tables.relation import Relation
    from sqlstream.client.dbapi.tables.table import Table

# From loose to tight, as the grammar has it (planner/dialect/expressions.py).
OR, AND, NOT, IS, COMPARISON, RANGE, SUM, PRODUCT, SIGN, ATOM = range(10)

Value: TypeAlias = Any
"""An expression, or a Python value that has a literal: None, bool, int, float, Decimal, str, bytes, date, time, datetime,
timedelta, UUID, list, tuple, dict."""


class Names(Protocol):
    """Tells how a column is written at one place of a query."""

    def reference(self, column: Column, /) -> str: ...


class Written(Protocol):
    """A part of a statement."""

    def write(self, writer: Writer, names: Names, /) -> None: ...


class Expression:
    """A value of each row. Immutable; operators and methods make others of it.

    `&`, `|` and `~` are AND, OR and NOT. `==` and the other comparisons make conditions, so that an expression has no truth value
    of its own. Names of columns and texts of values are quoted, whatever they hold.
    """

    __slots__ = ("_parts", "_place", "_rank")
    __hash__ = object.__hash__
    # `expr[…]` is an element, so that Python would take an expression for a sequence without an end.
    __iter__ = None

    def __init__(self, parts: Sequence[str | Written], rank: int = ATOM) -> None:
        self._parts = tuple(parts)
        self._rank = rank
        self._place = Place.here()

    def write(self, writer: Writer, names: Names) -> None:
        """Add the SQL text."""
        start = writer.length
        for part in self._parts:
            if isinstance(part, str):
                writer.add(part)
            else:
                part.write(writer, names)
        writer.mark(start, self._place)

    def __repr__(self) -> str:
        writer = Writer()
        self.write(writer, _Plain())
        return f"<{type(self).__name__} {writer.text()}>"

    def __bool__(self) -> NoReturn:
        raise ProgrammingError(
            "an expression of SQL has no truth value in Python",
            code="SS3447",
            hint="write & for and, | for or, ~ for not, and parentheses around comparisons: (t.a > 1) & (t.b < 2)",
        )

    # -- logic -------------------------------------------------------------------------------------

    def __and__(self, other: Value) -> Expression:
        return _binary(self, "AND", other, AND)

    def __rand__(self, other: Value) -> Expression:
        return _binary(other, "AND", self, AND)

    def __or__(self, other: Value) -> Expression:
        return _binary(self, "OR", other, OR)

    def __ror__(self, other: Value) -> Expression:
        return _binary(other, "OR", self, OR)

    def __invert__(self) -> Expression:
        return Computed(("NOT ", at(self, NOT)), NOT)

    # -- comparisons -------------------------------------------------------------------------------

    def __eq__(self, other: Value) -> Expression:  # type: ignore[override]
        return _comparison(self, "=", other)

    def __ne__(self, other: Value) -> Expression:  # type: ignore[override]
        return _comparison(self, "<>", other)

    def __lt__(self, other: Value) -> Expression:
        return _comparison(self, "<", other)

    def __le__(self, other: Value) -> Expression:
        return _comparison(self, "<=", other)

    def __gt__(self, other: Value) -> Expression:
        return _comparison(self, ">", other)

    def __ge__(self, other: Value) -> Expression:
        return _comparison(self, ">=", other)

    def is_null(self) -> Expression:
        return Computed((at(self, RANGE), " IS NULL"), IS)

    def is_not_null(self) -> Expression:
        return Computed((at(self, RANGE), " IS NOT NULL"), IS)

    def is_distinct_from(self, other: Value) -> Expression:
        """`<>` that takes NULL for a value."""
        return Computed((at(self, RANGE), " IS DISTINCT FROM ", at(other, RANGE)), IS)

    def is_not_distinct_from(self, other: Value) -> Expression:
        """`=` that takes NULL for a value."""
        return Computed((at(self, RANGE), " IS NOT DISTINCT FROM ", at(other, RANGE)), IS)

    def is_in(self, values: Sequence[Value] | Table) -> Expression:
        """Whether one of the values, or of the rows of a table with one column, is equal."""
        from sqlstream.client.dbapi.tables.table import Table

        if isinstance(values, Table):
            return Computed((at(self, SUM), " IN ", values), RANGE)
        if not isinstance(values, Sequence) or isinstance(values, str) or not values:
            raise ProgrammingError(
                "is_in takes a sequence of values that is not empty, or a table", code="SS3447"
            )
        return Computed((at(self, SUM), " IN (", *listed(values), ")"), RANGE)

    def between(self, low: Value, high: Value) -> Expression:
        return Computed((at(self, SUM), " BETWEEN ", at(low, SUM), " AND ", at(high, SUM)), RANGE)

    def like(self, pattern: Value) -> Expression:
        """`%` stands for any text and `_` for a character."""
        return Computed((at(self, SUM), " LIKE ", at(pattern, SUM)), RANGE)

    def similar_to(self, pattern: Value) -> Expression:
        return Computed((at(self, SUM), " SIMILAR TO ", at(pattern, SUM)), RANGE)

    # -- arithmetic --------------------------------------------------------------------------------

    def __add__(self, other: Value) -> Expression:
        return _binary(self, "+", other, SUM)

    def __radd__(self, other: Value) -> Expression:
        return _binary(other, "+", self, SUM)

    def __sub__(self, other: Value) -> Expression:
        return _binary(self, "-", other, SUM)

    def __rsub__(self, other: Value) -> Expression:
        return _binary(other, "-", self, SUM)

    def __mul__(self, other: Value) -> Expression:
        return _binary(self, "*", other, PRODUCT)

    def __rmul__(self, other: Value) -> Expression:
        return _binary(other, "*", self, PRODUCT)

    def __truediv__(self, other: Value) -> Expression:
        """SQL's division, which cuts the result of whole numbers."""
        return _binary(self, "/", other, PRODUCT)

    def __rtruediv__(self, other: Value) -> Expression:
        return _binary(other, "/", self, PRODUCT)

    def __mod__(self, other: Value) -> Expression:
        return _binary(self, "%", other, PRODUCT)

    def __rmod__(self, other: Value) -> Expression:
        return _binary(other, "%", self, PRODUCT)

    def __neg__(self) -> Expression:
        # In parentheses: `- -x` would begin a comment without the blank.
        return Computed(("-", at(self, ATOM)), SIGN)

    # -- parts and types ---------------------------------------------------------------------------

    def __getitem__(self, key: Value) -> Expression:
        """The element of an array, of which the first is 1, or the value of a key of a map."""
        return Computed((at(self, ATOM), "[", lit(key), "]"))

    def field(self, name: str) -> Expression:
        """A field of a ROW."""
        return Computed(("(", self, ").", quoted(name)))

    def cast(self, type_: str | LogicalType) -> Expression:
        """The value in another type; what does not fit fails the job. `type_` is SQL text, or a value of `sqlstream.types`."""
        return Computed(("CAST(", self, " AS ", type_text(type_), ")"))

    def try_cast(self, type_: str | LogicalType) -> Expression:
        """The value in another type, and NULL for what does not fit."""
        return Computed(("TRY_CAST(", self, " AS ", type_text(type_), ")"))

    # -- in a clause -------------------------------------------------------------------------------

    def alias(self, name: str) -> NamedExpression:
        """The expression as a column of this name."""
        return NamedExpression(self, name)

    def asc(self, *, nulls_first: bool | None = None) -> SortKey:
        return SortKey(self, " ASC", nulls_first)

    def desc(self, *, nulls_first: bool | None = None) -> SortKey:
        return SortKey(self, " DESC", nulls_first)


class Computed(Expression):
    """What operators and methods make. Python asks the right side of a comparison first where its class is one below that of the
    left side, and would turn the comparison round: so no class of values is below another."""

    __slots__ = ()


class Column(Expression):
    """A column by its name: of a table (`t.price`, `t["price"]`), or of whatever table stands there (`col("price")`)."""

    __slots__ = ("name", "table")

    def __init__(self, name: str, table: Relation | None = None) -> None:
        super().__init__(())
        quoted(name)
        self.name = name
        self.table = table

    if not TYPE_CHECKING:  # for types it cannot be called

        def __call__(self, *_: object, **__: object) -> NoReturn:
            """ProgrammingError SS3446: a method of tables was meant."""
            methods = [] if self.table is None else [n for n in dir(self.table) if not n.startswith("_")]
            raise ProgrammingError(
                f'"{self.name}" is a column, and no method of a table',
                code="SS3446",
                hint=did_you_mean(self.name, methods) or "the methods are on the page of queries in Python",
            )

    def write(self, writer: Writer, names: Names) -> None:
        start = writer.length
        writer.add(names.reference(self))
        writer.mark(start, self._place)


class Aggregation(Expression):
    """A call of an aggregate or ranking function, for `agg`, and with `over` for each row."""

    __slots__ = ()

    def where(self, condition: Value) -> Aggregation:
        """The aggregate of the rows for which the condition holds."""
        return Aggregation((self, " FILTER (WHERE ", lit(condition), ")"))

    def within_group(self, *order: OrderBy) -> Aggregation:
        """The aggregate of the rows in this order."""
        return Aggregation((self, " WITHIN GROUP (ORDER BY ", *sort_keys(order), ")"))

    def ignore_nulls(self) -> Aggregation:
        return Aggregation((self, " IGNORE NULLS"))

    def respect_nulls(self) -> Aggregation:
        return Aggregation((self, " RESPECT NULLS"))

    def over(
        self,
        *,
        partition_by: ColumnLike | Sequence[ColumnLike] = (),
        order_by: OrderBy | Sequence[OrderBy] = (),
        rows: tuple[Value, Value] | None = None,
        range_: tuple[Value, Value] | None = None,
    ) -> Expression:
        """The value of the aggregate over the rows around each one.

        `rows` and `range_` are how far the frame reaches before and behind the row: a number of rows, a number or timedelta of
        the ORDER BY's column, 0 for the row itself, None for all. `rows=(2, 0)` is the row and the two before it.
        """
        keys, order = many(partition_by), many(order_by)
        parts: list[str | Written] = []
        if keys:
            parts += ["PARTITION BY ", *listed([column(k) for k in keys])]
        if order:
            parts += [" " * bool(parts), "ORDER BY ", *sort_keys(order)]
        if rows is not None and range_ is not None:
            raise ProgrammingError("a frame has rows or a range, and not both", code="SS3447")
        for unit, frame in (("ROWS", rows), ("RANGE", range_)):
            if frame is not None:
                parts += [" " * bool(parts), f"{unit} BETWEEN ", *_bound(frame[0], "PRECEDING"), " AND "]
                parts += _bound(frame[1], "FOLLOWING")
        return Computed((self, " OVER (", *parts, ")"))


class Case(Expression):
    """`when(…)` chains: NULL where no condition holds, unless `otherwise` says what then."""

    __slots__ = ("_branches",)

    def __init__(self, branches: tuple[tuple[Value, Value], ...]) -> None:
        self._branches = branches
        super().__init__(("CASE", *self._written(), " END"))

    def _written(self) -> list[str | Written]:
        parts: list[str | Written] = []
        for condition, value in self._branches:
            parts += [" WHEN ", lit(condition), " THEN ", lit(value)]
        return parts

    def when(self, condition: Value, value: Value) -> Case:
        return Case((*self._branches, (condition, value)))

    def otherwise(self, value: Value) -> Expression:
        return Computed(("CASE", *self._written(), " ELSE ", lit(value), " END"))


@dataclasses.dataclass(frozen=True, eq=False)
class NamedExpression:
    """An expression with the name of its column."""

    expression: Expression
    name: str
    place: Place | None = dataclasses.field(default_factory=Place.here)

    def write(self, writer: Writer, names: Names) -> None:
        start = writer.length
        self.expression.write(writer, names)
        writer.add(f" AS {quoted(self.name)}")
        writer.mark(start, self.place)


@dataclasses.dataclass(frozen=True, eq=False)
class SortKey:
    """An item of ORDER BY."""

    expression: Expression
    direction: str = ""
    nulls_first: bool | None = None

    @property
    def suffix(self) -> str:
        nulls = "" if self.nulls_first is None else f" NULLS {'FIRST' if self.nulls_first else 'LAST'}"
        return self.direction + nulls

    def write(self, writer: Writer, names: Names) -> None:
        self.expression.write(writer, names)
        writer.add(self.suffix)


ColumnLike: TypeAlias = Expression | str
"""An expression, or the name of a column."""
Selectable: TypeAlias = "Expression | NamedExpression | str | Table"
"""What `select` takes: a table stands for all of its columns."""
OrderBy: TypeAlias = Expression | SortKey | str


class _Plain:
    """Columns by their names alone."""

    def reference(self, column: Column) -> str:
        return quoted(column.name)


def col(name: str) -> Column:
    """The column of this name, of whatever table stands there."""
    return Column(name)


def lit(value: Value) -> Expression:
    """A Python value as a literal; an expression is what it is."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, NamedExpression | SortKey):
        raise ProgrammingError(
            "alias, asc and desc come last",
            code="SS3447",
            hint="write (a + b).alias(name), and give asc() and desc() to order_by",
        )
    return Computed((interval(value) if isinstance(value, datetime.timedelta) else sql_literal(value),))


def expr(text: str) -> Expression:
    """SQL text as an expression, for what has no method here: `expr("JSON_VALUE(x, '$.a' RETURNING INT)")`. ProgrammingError for
    text that is no expression. Never make it of what others have written: values and names belong into `lit` and `col`."""
    from sqlstream.planner.dialect.parser import parse_expression

    with translating(text):
        parse_expression(text)
    # On a line of its own, for a comment at its end.
    return Computed(("(", text, "\n)" if "--" in text else ")"))


def when(condition: Value, value: Value) -> Case:
    """CASE WHEN condition THEN value; more of them with `.when`, and the rest with `.otherwise`."""
    return Case(((condition, value),))


def exists(table: Table) -> Expression:
    """Whether a table has rows."""
    return Computed(("EXISTS ", table))


def scalar(table: Table) -> Expression:
    """The only value of a table of one row and column."""
    return Computed((table,))


def call(name: str | tuple[str, ...], *arguments: Value) -> Expression:
    """A call of a function of the user: `call("initials", t.name)`, or with database: `call(("db", "initials"), t.name)`."""
    parts = (name,) if isinstance(name, str) else name
    return Computed((".".join(map(quoted, parts)), "(", *listed(arguments), ")"))


def aggregate(name: str | tuple[str, ...], *arguments: Value, distinct: bool = False) -> Aggregation:
    """A call of an aggregate function of the user."""
    parts = (name,) if isinstance(name, str) else name
    return Aggregation((".".join(map(quoted, parts)), "(", "DISTINCT " * distinct, *listed(arguments), ")"))


def column(given: ColumnLike) -> Expression:
    """An expression; a text is the name of a column."""
    if isinstance(given, str):
        return Column(given)
    if not isinstance(given, Expression):
        raise ProgrammingError(
            f"a value of type {type(given).__name__} is no column",
            code="SS3447",
            hint='write t.price, "price", or lit(value) for the same value in each row',
        )
    return given


def many(given: Any) -> tuple[Any, ...]:
    """One or several, as a tuple."""
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def sort_keys(order: Sequence[OrderBy]) -> list[str | Written]:
    keys = [key if isinstance(key, SortKey) else SortKey(column(key)) for key in order]
    return joined(keys)


def listed(values: Sequence[Value]) -> list[str | Written]:
    """Expressions and literals with commas between them."""
    return joined([lit(value) for value in values])


def joined(parts: Sequence[Written], separator: str = ", ") -> list[str | Written]:
    found: list[str | Written] = []
    for part in parts:
        found += [separator, part] if found else [part]
    return found


def at(value: Value, rank: int) -> Expression:
    """The expression as an operand of an operator of that rank, in parentheses where it binds more loosely."""
    made = lit(value)
    return made if made._rank >= rank else Computed(("(", made, ")"))


def type_text(type_: str | LogicalType) -> str:
    """A type as SQL writes it. ProgrammingError for text that is none."""
    if isinstance(type_, LogicalType):
        return str(type_.without_time_attribute())
    from sqlstream.planner.dialect.parser import parse_type

    with translating(type_):
        parsed = parse_type(type_)
    written = str(parsed)
    # As it was written where that is nothing but words: INT for INTEGER.
    return type_ if re.fullmatch(r"[A-Za-z]+", type_) else written


def _binary(left: Value, operator: str, right: Value, rank: int) -> Expression:
    # Operators of one rank are computed from the left.
    return Computed((at(left, rank), f" {operator} ", at(right, rank + 1)), rank)


def _comparison(left: Expression, operator: str, right: Value) -> Expression:
    if right is None:
        raise ProgrammingError(
            f"{operator} NULL holds for no row",
            code="SS3447",
            hint="write is_null() or is_not_null(), and is_distinct_from(x) where x may be NULL",
        )
    return Computed((at(left, RANGE), f" {operator} ", at(right, RANGE)), COMPARISON)


def _bound(distance: Value, side: str) -> list[str | Written]:
    if distance is None:
        return [f"UNBOUNDED {side}"]
    if isinstance(distance, int) and distance == 0:
        return ["CURRENT ROW"]
    return [at(distance, SUM), f" {side}"]
