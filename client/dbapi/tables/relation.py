"""What a table of the Python API is made of: the query that it stands for, and how another clause is put on it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from sqlstream.client.dbapi.errors import ProgrammingError
from sqlstream.client.dbapi.places import Place, PlacedText
from sqlstream.client.dbapi.tables.expressions import (
    Column,
    Names,
)
from sqlstream.client.dbapi.tables.query import (
    Block,
    Body,
    CalledTable,
    DerivedTable,
    Iteration,
    NamedTable,
    Scope,
    SetOperation,
    Side,
    WindowedTable,
)
from sqlstream.client.dbapi.tables.text import Writer, path_text, two_connections

if TYPE_CHECKING:
    from sqlstream.client.dbapi.connection import Connection, Cursor

next_id = itertools.count(1).__next__
"""Numbers of relations."""


class Relation:
    """A query, and the connection that runs it. `_id` names it in the lineage of others. If it `_is_windowed`, its rows are
    grouped by window too."""

    def __init__(self, connection: Connection, body: Body, id_: int, is_windowed: bool = False) -> None:
        self._connection = connection
        self._body = body
        self._id = id_
        self._is_windowed = is_windowed

    # -- columns -----------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Column:
        if name.startswith("_"):
            raise AttributeError(name)
        return Column(name, self)

    def __getitem__(self, name: str) -> Column:
        return Column(name, self)

    # `t[…]` is a column, so that Python would take a table for a sequence without an end.
    __iter__ = None

    def _refuse_foreign(self, *others: Relation) -> None:
        """ProgrammingError SS3447 for tables of another connection. Those of expressions are refused as the SQL is written."""
        if any(other._connection is not self._connection for other in others):
            raise two_connections()

    # -- the SQL -----------------------------------------------------------------------------------

    def write(self, writer: Writer, names: Names | None = None, *, is_operand: bool = False) -> None:
        """Add the query in parentheses, as a subquery; `is_operand`: of a set operation, where a plain SELECT needs none."""
        writer.read_from(self._connection)
        body, outer = self._body, names if isinstance(names, Scope) else None
        if (
            is_operand
            and isinstance(body, Block)
            and not (body.order or body.limit is not None or body.offset)
        ):
            body.write(writer, outer)
            return
        writer.add("(")
        writer.indent(1)
        writer.line()
        body.write(writer, outer)
        writer.indent(-1)
        writer.line()
        writer.add(")")

    def _write(self, writer: Writer) -> None:
        writer.read_from(self._connection)
        self._body.write(writer)

    def _statement(self, prefix: str = "") -> PlacedText:
        writer = Writer()
        writer.add(prefix)
        self._write(writer)
        return writer.text()

    def _cursor(self) -> Cursor:
        return self._connection.cursor()

    @property
    def _kind(self) -> type[Any]:
        """The class of what methods make of this table."""
        return type(self)

    # -- making others -----------------------------------------------------------------------------

    @property
    def _lineage(self) -> frozenset[int]:
        """The tables whose columns this one has under their names."""
        if not isinstance(self._body, Block):
            return self._body.own
        return self._body.own.union(*(side.lineage for side in self._body.sides))

    def _side(self, join: str) -> Side:
        """The table as an item of FROM: itself where it is one already, or a subquery."""
        body = self._body
        if isinstance(body, Block) and body.is_from_alone and len(body.sides) == 1:
            return dataclasses.replace(body.sides[0], head=self._id, lineage=self._lineage, join=join)
        self._refuse_order()
        return Side(DerivedTable(self), self._id, self._lineage, join=join)

    def _plain_source(self) -> NamedTable | DerivedTable:
        """The table as the argument of a table function: by its name, or as a query."""
        side = self._side("")
        is_plain = isinstance(side.source, NamedTable | DerivedTable) and not side.columns
        return side.source if is_plain else DerivedTable(self)  # type: ignore[return-value]

    def _of(self, side: Side, keeps_lineage: bool = True) -> Self:
        id_ = next_id()
        side = dataclasses.replace(side, head=id_, lineage=side.lineage if keeps_lineage else frozenset())
        block = Block((side,), frozenset((id_,)), place=Place.here())
        return self._kind(self._connection, block, id_, self._is_windowed)

    def _block(self, fits: Any) -> Block:
        """The SELECT that the table is, if a clause fits into it; else one over it as a subquery."""
        if isinstance(self._body, Block) and fits(self._body):
            return self._body
        self._refuse_order()
        return Block((Side(DerivedTable(self), self._id, self._lineage),), frozenset())

    def _unordered(self, fits: Any) -> Block:
        block = self._block(fits)
        if block is self._body:
            self._refuse_order()
        return block

    def _refuse_order(self) -> None:
        """ProgrammingError for an order that nothing keeps."""
        body = self._body
        if isinstance(body, Block) and body.order and body.limit is None:
            raise ProgrammingError(
                "the order of the rows would be lost",
                code="SS3448",
                hint="put order_by behind this method, or limit behind order_by",
            )

    def _made(self, block: Block, *, keeps_window: bool = False, **changes: Any) -> Self:
        id_ = next_id()
        made = dataclasses.replace(block, own=block.own | {id_}, place=Place.here(), **changes)
        return self._kind(self._connection, made, id_, self._is_windowed and keeps_window)

    def _time_attribute(self) -> Column:
        """The row time of the tables that this one reads. ProgrammingError SS3449 unless there is one."""
        times: dict[tuple[str, ...], list[str]] = {}
        found: list[str] = []
        with self._cursor() as cursor:
            for parts in self._read_tables():
                if parts not in times:
                    rows = cursor.execute(f"DESCRIBE {path_text(parts)}").fetchall()
                    times[parts] = [row[0] for row in rows if row[5] is not None or "*ROWTIME*" in row[1]]
                found += times[parts]
        if len(found) != 1:
            said = f"several: {', '.join(found)}" if found else "none"
            raise ProgrammingError(
                f"a window needs one row time, and there are {said}"
                if found
                else "a window needs a row time, and there is none",
                code="SS3449",
                hint='name the time column: tumble("1 min", on="ts")',
            )
        return Column(found[0])

    def _read_tables(self) -> Iterator[tuple[str, ...]]:
        body = self._body
        if isinstance(body, SetOperation):
            for table in body.tables:
                yield from table._read_tables()
        if isinstance(body, Iteration):
            yield from body.start._read_tables()
        for side in body.sides if isinstance(body, Block) else ():
            source = side.source
            if isinstance(source, WindowedTable | CalledTable):
                source = source.source
            if isinstance(source, DerivedTable):
                yield from source.table._read_tables()
            elif isinstance(source, NamedTable) and source.version is None and source.is_of_catalog:
                yield source.parts
