"""Tables of the Python API: each method makes another table, and the last one runs the SQL that it stands for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlstream.client.dbapi.errors import ProgrammingError
from sqlstream.client.dbapi.places import Place
from sqlstream.client.dbapi.tables.combined import Combined
from sqlstream.client.dbapi.tables.expressions import (
    Aggregation,
    Column,
    ColumnLike,
    Expression,
    NamedExpression,
    OrderBy,
    Selectable,
    SortKey,
    Value,
    Written,
    column,
    lit,
    many,
)
from sqlstream.client.dbapi.tables.inserts import Insert, explained
from sqlstream.client.dbapi.tables.query import (
    Block,
    NamedTable,
    Side,
    Star,
    WindowedTable,
    names_of,
)
from sqlstream.client.dbapi.tables.relation import Relation, next_id
from sqlstream.client.dbapi.tables.text import path_text, quoted
from sqlstream.client.dbapi.tables.user_functions import ProcessedTable
from sqlstream.client.dbapi.tables.windows import Window
from sqlstream.errors import did_you_mean

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

    from sqlstream.changelog import RowKind
    from sqlstream.client.dbapi.connection import Connection, Cursor
    from sqlstream.client.dbapi.python_values import Row

_BOUNDS = ("window_start", "window_end")


class Table(Combined):
    """Rows that SQL describes: a table or view of the catalog, or what methods have made of one. Immutable, and nothing runs
    before `execute`, or a method that reads rows.

    `t.price` and `t["price"]` are columns. The latter is the way to those whose names a method has. They are found by their
    names in the table on which a method is called, and in a join on the side that was made of `t`.
    """

    @property
    def columns(self) -> list[str]:
        """The names of the columns, which the session is asked for."""
        return [name for name, _ in self.schema()]

    def schema(self) -> list[tuple[str, str]]:
        """The names and SQL types of the columns, which the session is asked for."""
        with self._cursor() as cursor:
            rows = cursor.execute(self._statement("DESCRIBE ")).fetchall()
        return [(str(row[0]), str(row[1])) for row in rows]

    # -- rows --------------------------------------------------------------------------------------

    def filter(self, *conditions: Value) -> Table:
        """The rows for which all conditions hold."""
        if None in [c for c in conditions if not isinstance(c, Expression)]:
            hint = "write a condition, or leave the filter out"
            raise ProgrammingError("None holds for no row", code="SS3447", hint=hint)
        block = self._block(lambda block: block.is_open)
        return self._made(block, where=(*block.where, *map(lit, conditions)), keeps_window=True)

    def distinct(self) -> Table:
        """Each row once."""
        block = self._unordered(
            lambda block: not block.is_distinct and block.limit is None and not block.offset
        )
        return self._made(block, is_distinct=True)

    def order_by(self, *keys: OrderBy) -> Table:
        """The rows in an order: `t.price`, `"price"`, `t.price.desc()`. It comes last, or before `limit`."""
        order = tuple(key if isinstance(key, SortKey) else SortKey(column(key)) for key in keys)
        # Where there is a SELECT list, a name in a computed key could mean a column of it or of what it was computed of.
        is_plain = all(isinstance(key.expression, Column) for key in order)
        block = self._block(
            lambda b: not b.order and b.limit is None and not b.offset and (is_plain or b.is_open)
        )
        return self._made(block, order=order)

    def limit(self, count: int, offset: int = 0) -> Table:
        """The first rows, without `offset` of them."""
        _check_counts("limit", 0, count, offset)
        block = self._block(lambda block: block.limit is None and not block.offset)
        return self._made(block, limit=count, offset=offset)

    def top(
        self,
        count: int,
        *,
        by: OrderBy | Sequence[OrderBy],
        partition_by: ColumnLike | Sequence[ColumnLike] = (),
        rank: str = "",
    ) -> Table:
        """The first `count` rows of each partition in an order. `rank` names a column for the place of each row, from 1."""
        _check_counts("top", 1, count)
        number = Aggregation(("ROW_NUMBER()",)).over(partition_by=partition_by, order_by=by)
        if rank:
            ranked = self.with_columns(number.alias(rank))
            return ranked.filter(ranked[rank] <= count)
        block = self._unordered(lambda block: block.is_open)
        return self._made(block, qualify=number <= count, keeps_window=True)

    # -- columns of rows ---------------------------------------------------------------------------

    def select(self, *items: Selectable, **named: Value) -> Table:
        """These columns. A table stands for all of its columns, and `name=expression` names one."""
        written = _items(items, named)
        if not written:
            raise ProgrammingError("select takes a column at least", code="SS3447")
        return self._made(self._unordered(lambda block: block.is_open), items=written)

    def with_columns(self, *items: NamedExpression, **named: Value) -> Table:
        """All columns, and these behind them. A column that is there already is given another value by `replace`."""
        added = _items(items, named)
        return self._made(
            self._unordered(lambda block: block.is_open), items=(Star(), *added), keeps_window=True
        )

    def replace(self, **named: Value) -> Table:
        """All columns, some of them with other values."""
        values: list[str | Written] = []
        for name, value in named.items():
            values += [", " if values else " REPLACE (", NamedExpression(lit(value), name)]
        return self._starred("", (*values, ")")) if values else self

    def drop(self, *names: ColumnLike) -> Table:
        """All columns but these."""
        left_out = ", ".join(names_of(column(name)) for name in names)
        return self._starred(f" EXCEPT ({left_out})") if names else self

    def rename(self, names: Mapping[str, str] | None = None, **more: str) -> Table:
        """All columns, some of them with other names: `t.rename(old="new")`, `t.rename({"old": "new"})`."""
        renamed = {**(names or {}), **more}
        pairs = ", ".join(f"{quoted(old)} AS {quoted(new)}" for old, new in renamed.items())
        return self._starred(f" RENAME ({pairs})") if renamed else self

    def _starred(self, suffix: str, more: tuple[str | Written, ...] = ()) -> Table:
        block = self._unordered(lambda block: block.is_open)
        return self._made(block, items=(Star(suffix=suffix, more=more),), keeps_window=True)

    # -- functions with state ----------------------------------------------------------------------

    def process(
        self,
        function: Any,
        *,
        partition_by: ColumnLike | Sequence[ColumnLike] = (),
        order_by: OrderBy | Sequence[OrderBy] = (),
        on_time: ColumnLike | None = None,
        uid: str = "",
        **arguments: Any,
    ) -> Processed:
        """The rows that a process table function makes of this table, its first one. `arguments` are its constants, and further
        tables: `payments=(t, "customer")` with the columns that it is partitioned by, or `(t, "customer", "ts")` with those that
        it is ordered by, too. `on_time` is the row time of all of them,
        for timers and in the output; `uid` names the state. Side outputs are tables, too: `.output("late")`."""
        made = self._function(function)
        declared = made.declared.process
        if declared is None:
            raise ProgrammingError(
                "process takes a process table function",
                code="SS3447",
                hint="write a class of ProcessTableFunction; a @udtf is called by map_batches or join_rows",
            )
        given: dict[str, Any] = {declared.tables[0].name: (self, partition_by, order_by), **arguments}
        tables, constants = [], []
        for name, value in given.items():
            if name not in made.declared.parameters:
                raise ProgrammingError(f'the function has no argument "{name}"', code="SS3447")
            if name not in {table.name for table in declared.tables}:
                constants.append((name, lit(value)))
                continue
            table, keys, order = (*(value if isinstance(value, tuple) else (value,)), (), ())[:3]
            if not isinstance(table, Relation):
                raise ProgrammingError(f'argument "{name}" is a table, and no value', code="SS3447")
            partition = [names_of(column(key)) for key in many(keys)]
            sorting = [key if isinstance(key, SortKey) else SortKey(column(key)) for key in many(order)]
            ordered = [names_of(key.expression) + key.suffix for key in sorting]
            tables.append((name, table._plain_source(), tuple(partition), tuple(ordered)))
        place, id_ = Place.here(), next_id()
        time = names_of(column(on_time)) if on_time is not None else ""
        source = ProcessedTable(made, tuple(tables), tuple(constants), time, uid, place)
        side = Side(source, id_, self._lineage, place=place)
        return Processed(self._connection, Block((side,), frozenset((id_,)), place=place), id_)

    # -- groups and windows ------------------------------------------------------------------------

    def window(self, window: Window) -> Table:
        """Each row once for each window that it is in, with the columns `window_start`, `window_end` and `window_time`. What is
        grouped behind it is grouped by window too."""
        place = Place.here()
        time = self._time_attribute() if window.on is None else column(window.on)
        names_of(time)
        assert isinstance(time, Column)
        source = WindowedTable(window, time.name, self._plain_source(), place)
        windowed = dataclasses.replace(self._side(""), source=source, columns=(), place=place)
        id_ = next_id()
        return Table(self._connection, Block((windowed,), frozenset((id_,)), place=place), id_, True)

    def group_by(self, *keys: ColumnLike | NamedExpression, **named: Value) -> Groups:
        """Groups of the rows with equal keys: `t.group_by(t.auction).agg(n=count())`."""
        return Groups(self, _items(keys, named))

    def agg(self, *items: NamedExpression, **named: Value) -> Table:
        """Aggregates of all rows, or of those of each window."""
        return self.group_by().agg(*items, **named)

    # -- running -----------------------------------------------------------------------------------

    def to_sql(self) -> str:
        """The query that the table stands for."""
        return str(self._statement())

    def execute(self) -> Cursor:
        """Run the query; the cursor has its rows as they come."""
        return self._connection.cursor().execute(self._statement())

    def rows(self) -> list[Row]:
        """All rows of a query over tables that end."""
        with self.execute() as cursor:
            return cursor.fetchall()

    def arrow(self) -> pa.Table:
        """All rows of a query over tables that end, as an Arrow table."""
        with self.execute() as cursor:
            return cursor.fetch_arrow_table()

    def df(self) -> pandas.DataFrame:
        """All rows of a query over tables that end, as a DataFrame of pandas."""
        return self.arrow().to_pandas()

    def changelog(self) -> Iterator[tuple[RowKind, Row]]:
        """The changes of the query as they come, each with its kind; it runs until the iterator is closed."""
        with self.execute() as cursor:
            yield from cursor.changelog()

    def explain(self, *details: str) -> str:
        """What EXPLAIN prints: the plans, or of `"STATE"` what is kept, of `"ANALYZE"` what a run has done."""
        return explained(self._connection, details, self._write)

    def create_view(
        self, name: str | tuple[str, ...], *, temporary: bool = True, replace: bool = False
    ) -> Table:
        """The table as a view of that name; returns it by the name."""
        if replace:
            with self._cursor() as cursor:
                cursor.execute(f"DROP {'TEMPORARY ' * temporary}VIEW IF EXISTS {path_text(name)}")
        with self._cursor() as cursor:
            cursor.execute(self._statement(f"CREATE {'TEMPORARY ' * temporary}VIEW {path_text(name)} AS\n"))
        return self._connection.table(*((name,) if isinstance(name, str) else name))

    def insert_into(
        self,
        name: str | tuple[str, ...],
        columns: Sequence[str] = (),
        *,
        overwrite: bool = False,
        by_name: bool = False,
    ) -> Insert:
        """An INSERT of the rows into a table, which `execute` runs. Columns are matched by their places, or by their names."""
        head = f"INSERT {'OVERWRITE' if overwrite else 'INTO'} {path_text(name)}"
        if columns:
            head += f" ({', '.join(map(quoted, columns))})"
        return Insert(self, f"{head}{' BY NAME' if by_name else ''}\n")

    def __repr__(self) -> str:
        return f"<sqlstream.Table {' '.join(self.to_sql().split())}>"


class Processed(Table):
    """The rows of a process table function, and its side outputs. State: those that were asked for."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._outputs: dict[str, Table] = {}

    @property
    def _kind(self) -> type[Table]:
        return Table

    def output(self, name: str) -> Table:
        """The side output of this name. Read in one job, the outputs of one call are those of one operator."""
        if name not in self._outputs:
            self._outputs[name] = self._output(name)
        return self._outputs[name]

    def _output(self, name: str) -> Table:
        assert isinstance(self._body, Block)
        (side,) = self._body.sides
        assert isinstance(side.source, ProcessedTable)
        declared = side.source.function.declared.process
        names = [output.name for output in declared.outputs] if declared is not None else []
        if name not in names:
            raise ProgrammingError(
                f'the function has no output "{name}"',
                code="SS3447",
                hint=did_you_mean(name, names) or "declare it in its class as a SideOutput",
            )
        source, id_ = dataclasses.replace(side.source, output=name), next_id()
        side = dataclasses.replace(side, source=source, head=id_)
        return Table(self._connection, Block((side,), frozenset((id_,)), place=side.place), id_)


class Groups:
    """The rows of a table by keys, and by window where the table has one: `agg` makes a row of each group."""

    def __init__(self, table: Table, keys: tuple[Written, ...]) -> None:
        self._table = table
        self._keys = keys

    def agg(self, *items: NamedExpression, **named: Value) -> Table:
        """A row of each group: its keys, and these aggregates."""
        table = self._table
        keys = [key if isinstance(key, NamedExpression) else _checked_key(key) for key in self._keys]
        names = {key.name for key in keys if isinstance(key, NamedExpression | Column)}
        if table._is_windowed:
            keys = [*(Column(bound) for bound in _BOUNDS if bound not in names), *keys]
        group = tuple(key.expression if isinstance(key, NamedExpression) else key for key in keys)
        written = (*keys, *_items(items, named))
        if not written:
            raise ProgrammingError("agg takes an aggregate at least", code="SS3447")
        block = table._unordered(lambda block: block.is_open)
        return table._made(block, items=written, group=group)


def named_table(
    connection: Connection, parts: tuple[str, ...], options: Mapping[str, str] | None = None
) -> Table:
    """A table or view of the catalog."""
    if not 1 <= len(parts) <= 3:
        raise ProgrammingError("a table is named by catalog, database and name", code="SS3446")
    for part in parts:
        quoted(part)
    id_, place = next_id(), Place.here()
    source = NamedTable(parts, tuple((options or {}).items()), place=place)
    return Table(connection, Block((Side(source, place=place),), frozenset((id_,)), place=place), id_)


def given_query(connection: Connection, text: str) -> Table:
    """The rows of a query that is written in SQL. ProgrammingError with a position for text that is none."""
    from sqlstream.client.dbapi.errors import translating
    from sqlstream.client.dbapi.tables.query import GivenQuery
    from sqlstream.planner.dialect.parser import parse_query

    with translating(text):
        parse_query(text)
    id_ = next_id()
    return Table(connection, GivenQuery(text, frozenset((id_,)), Place.here()), id_)


def _items(items: Sequence[Any], named: Mapping[str, Value]) -> tuple[Written, ...]:
    """Columns of a SELECT list."""
    found: list[Written] = []
    for item in items:
        if isinstance(item, Table):
            found.append(Star(item))
        else:
            found.append(item if isinstance(item, NamedExpression) else column(item))
    return (*found, *(NamedExpression(lit(value), name) for name, value in named.items()))


def _checked_key(key: Written) -> Expression:
    if not isinstance(key, Expression):
        raise ProgrammingError("a group has columns as keys, and no tables", code="SS3447")
    return key


def _check_counts(method: str, least: int, *counts: int) -> None:
    for number in counts:
        if not isinstance(number, int) or isinstance(number, bool) or number < least:
            raise ProgrammingError(f"{method} takes whole numbers from {least}", code="SS3447")
