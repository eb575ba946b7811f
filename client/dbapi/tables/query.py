"""What a table of the Python API stands for: one SELECT, a set operation, or a query that is given as text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from sqlstream.client.dbapi.errors import ProgrammingError
from sqlstream.client.dbapi.literals import text_literal
from sqlstream.client.dbapi.places import Place
from sqlstream.client.dbapi.tables.expressions import (
    Column,
    Computed,
    Expression,
    Names,
    SortKey,
    Written,
    joined,
)
from sqlstream.client.dbapi.tables.text import Writer, quoted
from sqlstream.client.dbapi.tables.user_functions import ProcessedTable
from sqlstream.client.dbapi.tables.windows import Window

if TYPE_CHECKING:
    from sqlstream.client.dbapi.tables.relation import Relation


# -- what stands in FROM -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class NamedTable:
    """A table or view by its name, as it was at the time `version` if that is given."""

    parts: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()
    version: Expression | None = None
    place: Place | None = None
    is_of_catalog: bool = True

    @property
    def name(self) -> str:
        return self.parts[-1]

    def write(self, writer: Writer, names: Names) -> None:
        start = writer.length
        writer.add(".".join(map(quoted, self.parts)))
        if self.options:
            pairs = (f"{text_literal(k)} = {text_literal(v)}" for k, v in self.options)
            writer.add(f" /*+ OPTIONS({', '.join(pairs)}) */")
        if self.version is not None:
            writer.add(" FOR SYSTEM_TIME AS OF ")
            self.version.write(writer, names)
        writer.mark(start, self.place)


@dataclasses.dataclass(frozen=True, eq=False)
class DerivedTable:
    """The rows of another table, as a subquery."""

    table: Relation
    name: str = ""

    def write(self, writer: Writer, names: Names) -> None:
        # Not in `names`: a subquery of FROM does not see the tables beside it.
        self.table.write(writer)


@dataclasses.dataclass(frozen=True, eq=False)
class WindowedTable:
    """A window function over a table."""

    window: Window
    time: str
    source: NamedTable | DerivedTable
    place: Place | None

    @property
    def name(self) -> str:
        return self.source.name

    def write(self, writer: Writer, names: Names) -> None:
        start = writer.length
        writer.add(f"{self.window.kind}(TABLE ")
        self.source.write(writer, names)
        if self.window.partition_by:
            keys = (quoted(k) if isinstance(k, str) else names_of(k) for k in self.window.partition_by)
            writer.add(f" PARTITION BY ({', '.join(keys)})")
        writer.add(f", DESCRIPTOR({quoted(self.time)}), {', '.join(self.window.sizes)})")
        writer.mark(start, self.place)


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """The rows that a table function, or UNNEST, makes of each row of the tables before it: `before` and `after` stand around
    the expression."""

    before: str
    expression: Expression
    after: str
    name: str = ""

    def write(self, writer: Writer, names: Names) -> None:
        writer.add(self.before)
        self.expression.write(writer, names)
        writer.add(self.after)


@dataclasses.dataclass(frozen=True, eq=False)
class CalledTable:
    """A table function over a table: `head` stands before it, and `arguments` behind."""

    head: str
    source: NamedTable | DerivedTable
    arguments: tuple[str | Written, ...]
    place: Place | None = None

    @property
    def name(self) -> str:
        return self.source.name

    def write(self, writer: Writer, names: Names) -> None:
        start = writer.length
        writer.add(self.head)
        self.source.write(writer, names)
        write_all((*self.arguments, ")"), writer, names)
        writer.mark(start, self.place)


Source: TypeAlias = NamedTable | DerivedTable | WindowedTable | Rows | CalledTable | ProcessedTable


@dataclasses.dataclass(frozen=True, eq=False)
class Side:
    """A source with its alias and the names of its columns, and how it is joined with those before it. It is the table `head`,
    and has the columns of all of `lineage`."""

    source: Source
    head: int = -1
    lineage: frozenset[int] = frozenset()
    alias: str = ""
    columns: tuple[str, ...] = ()
    join: str = ""
    on: Expression | tuple[str, ...] | None = None
    place: Place | None = None


# -- queries -----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Star:
    """All columns, or those of one table, with what `suffix` changes about them."""

    table: Relation | None = None
    suffix: str = ""
    more: tuple[str | Written, ...] = ()

    def write(self, writer: Writer, names: Names) -> None:
        assert isinstance(names, Scope)
        writer.add((names.star(self.table) if self.table is not None else "*") + self.suffix)
        write_all(self.more, writer, names)


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """One SELECT. `own` are the tables that stand for it, or for it with fewer clauses. `group` is None where it does not
    aggregate."""

    sides: tuple[Side, ...]
    own: frozenset[int]
    where: tuple[Expression, ...] = ()
    items: tuple[Written, ...] = ()
    group: tuple[Expression, ...] | None = None
    qualify: Expression | None = None
    is_distinct: bool = False
    order: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0
    place: Place | None = None

    @property
    def is_from_alone(self) -> bool:
        """Whether it has no clause but FROM."""
        return not (self.where or self.order) and self.is_open

    @property
    def is_open(self) -> bool:
        """Whether it has no clause but FROM, WHERE and ORDER BY."""
        is_plain = not self.items and self.group is None and self.qualify is None and not self.is_distinct
        return is_plain and self.limit is None and not self.offset

    def write(self, writer: Writer, outer: Scope | None = None) -> None:
        """Add the SQL text. ProgrammingError SS3446 for a column of a table that does not stand here."""
        scope = Scope.of(self, outer)
        start = writer.length
        writer.add("SELECT DISTINCT " if self.is_distinct else "SELECT ")
        write_all(joined(self.items or (Star(),)), writer, scope)
        for number, side in enumerate(self.sides):
            writer.line()
            self._write_side(side, scope.aliases[number], writer, scope)
        if self.where:
            _clause("WHERE ", [_conjunction(self.where)], writer, scope)
        if self.group:
            _clause("GROUP BY ", joined([_key(key) for key in self.group]), writer, scope)
        if self.qualify is not None:
            _clause("QUALIFY ", [self.qualify], writer, scope)
        if self.order:
            order = [dataclasses.replace(k, expression=_key(k.expression)) for k in self.order]
            _clause("ORDER BY ", joined(order), writer, scope)
        if self.limit is not None:
            _clause(f"LIMIT {self.limit}", (), writer, scope)
        if self.offset:
            _clause(f"OFFSET {self.offset}", (), writer, scope)
        writer.mark(start, self.place)

    def _write_side(self, side: Side, alias: str, writer: Writer, scope: Scope) -> None:
        start = writer.length
        writer.add(f"{side.join} " if side.join else "FROM ")
        side.source.write(writer, scope)
        is_plain = isinstance(side.source, NamedTable) and not side.columns
        if not is_plain or alias != side.source.name:
            writer.add(f" AS {quoted(alias)}")
        if side.columns:
            writer.add(f"({', '.join(map(quoted, side.columns))})")
        if isinstance(side.on, tuple):
            writer.add(f" USING ({', '.join(map(quoted, side.on))})")
        elif side.on is not None:
            writer.add(" ON ")
            side.on.write(writer, scope)
        writer.mark(start, side.place)


@dataclasses.dataclass(frozen=True, eq=False)
class SetOperation:
    """Several queries between UNION, INTERSECT or EXCEPT."""

    operator: str
    tables: tuple[Relation, ...]
    own: frozenset[int]
    place: Place | None = None

    def write(self, writer: Writer, outer: Scope | None = None) -> None:
        start = writer.length
        for number, table in enumerate(self.tables):
            if number:
                writer.line()
                writer.add(self.operator)
                writer.line()
            table.write(writer, outer, is_operand=True)
        writer.mark(start, self.place)


@dataclasses.dataclass(frozen=True, eq=False)
class GivenQuery:
    """A query that the user has written as SQL."""

    text: str
    own: frozenset[int]
    place: Place | None = None

    def write(self, writer: Writer, outer: Scope | None = None) -> None:
        start = writer.length
        # On a line of its own, for a comment at its end.
        writer.add(f"{self.text}\n" if "--" in self.text else self.text)
        writer.mark(start, self.place)


@dataclasses.dataclass(frozen=True, eq=False)
class Iteration:
    """WITH RECURSIVE: the rows of `start`, and those that `step`, which reads `name`, makes of the rows of each round."""

    name: str
    start: Relation
    step: Relation
    operator: str
    own: frozenset[int]
    place: Place | None = None

    def write(self, writer: Writer, outer: Scope | None = None) -> None:
        start = writer.length
        writer.add(f"WITH RECURSIVE {quoted(self.name)} AS (")
        writer.indent(1)
        writer.line()
        self.start.write(writer, is_operand=True)
        writer.line()
        writer.add(self.operator)
        writer.line()
        self.step.write(writer, is_operand=True)
        writer.indent(-1)
        writer.line()
        writer.add(")")
        writer.line()
        writer.add(f"SELECT * FROM {quoted(self.name)}")
        writer.mark(start, self.place)


Body: TypeAlias = Block | SetOperation | GivenQuery | Iteration


# -- names -------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Scope:
    """Implements `Names`: the tables of a SELECT and, behind them, those of the query around it. `aliases` are those of
    `block.sides`."""

    block: Block
    aliases: tuple[str, ...]
    outer: Scope | None = None

    @staticmethod
    def of(block: Block, outer: Scope | None) -> Scope:
        taken = {alias.lower() for scope in _chain(outer) for alias in scope.aliases}
        aliases = []
        for side in block.sides:
            wanted = side.alias or side.source.name
            alias, number = wanted or "t1", 1
            while alias.lower() in taken:
                number += 1
                alias = f"{wanted or 't'}{number}"
            taken.add(alias.lower())
            aliases.append(alias)
        return Scope(block, tuple(aliases), outer)

    def reference(self, column: Column) -> str:
        name = quoted(column.name)
        if column.table is None:
            return name
        for scope in _chain(self):
            if (found := scope._side_of(column.table)) is not None:
                is_only = scope is self and len(self.block.sides) == 1
                return name if is_only else f"{quoted(scope.aliases[found])}.{name}"
            if column.table._id in scope.block.own:
                return name
        raise _strange(column.table, f'column "{column.name}"')

    def star(self, table: Relation) -> str:
        """All columns of a table."""
        found = self._side_of(table)
        if found is None and table._id not in self.block.own:
            raise _strange(table, "a table")
        return "*" if found is None or len(self.aliases) == 1 else f"{quoted(self.aliases[found])}.*"

    def _side_of(self, table: Relation) -> int | None:
        """Which of the sides has the columns of a table. ProgrammingError SS3446 where several have."""
        sides = self.block.sides
        if len(sides) == 1 and table._id in self.block.own and not self.block.items:
            return 0
        found = [i for i, side in enumerate(sides) if table._id in side.lineage]
        exact = [i for i in found if sides[i].head == table._id]
        found = exact or found
        if len(found) > 1:
            raise ProgrammingError(
                f"{_shown(table)} stands on several sides of a join",
                code="SS3446",
                hint='give one of them another name before the join: other = t.alias("other")',
            )
        return found[0] if found else None


def _chain(scope: Scope | None) -> Iterator[Scope]:
    while scope is not None:
        yield scope
        scope = scope.outer


def _strange(table: Relation, what: str) -> ProgrammingError:
    return ProgrammingError(
        f"{what} is one of {_shown(table)}, which does not stand here",
        code="SS3446",
        hint="name columns of the table that the method is called on, or of those that it was made of",
    )


def _shown(table: Relation) -> str:
    body = table._body
    sides = body.sides if isinstance(body, Block) else ()
    name = sides[0].alias or sides[0].source.name if len(sides) == 1 else ""
    return f'table "{name}"' if name else "another table"


# -- writing -----------------------------------------------------------------------------------------


def write_all(parts: Sequence[str | Written], writer: Writer, names: Names) -> None:
    for part in parts:
        if isinstance(part, str):
            writer.add(part)
        else:
            part.write(writer, names)


def _clause(word: str, parts: Sequence[str | Written], writer: Writer, scope: Scope) -> None:
    writer.line()
    writer.add(word)
    write_all(parts, writer, scope)


def _conjunction(conditions: Sequence[Expression]) -> Expression:
    found = conditions[0]
    for condition in conditions[1:]:
        found = found & condition
    return found


def _key(key: Expression) -> Expression:
    """An item of GROUP BY or ORDER BY: a number alone would be a position."""
    is_number = len(key._parts) == 1 and isinstance(key._parts[0], str) and key._parts[0].isdigit()
    return Computed(("(", key, ")")) if is_number else key


def names_of(given: Expression) -> str:
    """The name of a column, as SQL writes it, where a computed value has no place. ProgrammingError SS3447 for one."""
    if not isinstance(given, Column):
        raise ProgrammingError("a column is wanted here, and no computed value", code="SS3447")
    return quoted(given.name)
