"""The columns that a name can mean at one place of a query."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import NoReturn, Protocol

from sqlglot import exp

from sqlstream.catalog import CatalogView, ObjectPath
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Expression, InputRef
from sqlstream.planner.bind.context import BindContext, FileDefinitions, suggest
from sqlstream.planner.dialect.habits import column_hint
from sqlstream.planner.dialect.nodes import span_of
from sqlstream.planner.relational.nodes import RelationalNode
from sqlstream.schema import Schema
from sqlstream.types import LogicalType, TypeRoot

_WITH_FIELDS = (TypeRoot.ROW, TypeRoot.VARIANT)


@dataclasses.dataclass(frozen=True)
class ScopeColumn:
    """`qualifier` is the alias of the column's table, or catalog, database and name. `is_plain`: an unqualified name can
    mean the column, which is False for the sides of JOIN … USING."""

    name: str
    type: LogicalType
    qualifier: tuple[str, ...] = ()
    is_plain: bool = True

    def __str__(self) -> str:
        return ".".join((*self.qualifier[-1:], self.name))


@dataclasses.dataclass(frozen=True)
class Scope:
    """Columns by position in the input row. `star` lists the columns that `*` expands to, in order."""

    columns: tuple[ScopeColumn, ...] = ()
    star: tuple[int, ...] = ()

    @staticmethod
    def of(schema: Schema, qualifier: tuple[str, ...] = ()) -> Scope:
        columns = tuple(ScopeColumn(f.name, f.type, qualifier) for f in schema.fields)
        return Scope(columns, tuple(range(len(columns))))

    @property
    def qualifiers(self) -> tuple[tuple[str, ...], ...]:
        return tuple(dict.fromkeys(c.qualifier for c in self.columns))

    def star_of(self, qualifier: tuple[str, ...], span: Span | None) -> tuple[int, ...]:
        """The columns that `t.*` expands to."""
        found = tuple(i for i, c in enumerate(self.columns) if _matches(c, qualifier))
        if not found:
            self._fail_table(qualifier, span)
        return found

    def row_column(self, name: tuple[str, ...]) -> int | None:
        """The ROW column that `name.*` means when `name` is no table's."""
        if not name or any(_matches(c, name) for c in self.columns):
            return None
        found = self._lookup(name[:-1], name[-1])
        is_row = len(found) == 1 and self.columns[found[0]].type.root is TypeRoot.ROW
        return found[0] if is_row else None

    def resolve(self, parts: tuple[str, ...], span: Span | None) -> tuple[int, tuple[str, ...]]:
        """Column index and the nested field names after it. In `a.b`, column b of table a precedes field b of column a."""
        for length in range(min(3, len(parts) - 1), -1, -1):
            found = self._lookup(parts[:length], parts[length])
            if len(found) > 1:
                self._fail_ambiguous(parts[: length + 1], found, span)
            if found:
                rest = parts[length + 1 :]
                if rest and self.columns[found[0]].type.root not in _WITH_FIELDS:
                    self._fail_field(parts, length, found[0], span)
                return found[0], rest
        raise self._unknown(parts, span)

    def _fail_field(self, parts: tuple[str, ...], length: int, index: int, span: Span | None) -> NoReturn:
        """`a.b` where `a` is a column without fields: column b of a table a, or a value that has no b."""
        qualifier, name = parts[: length + 1], parts[length + 1]
        if any(_matches(c, qualifier) for c in self.columns):
            raise self._unknown(parts[: length + 2], span)
        column = self.columns[index]
        shown = str(column.type.without_time_attribute().with_nullable(True))
        if column.type.root is TypeRoot.MAP:
            hint = f"write {'.'.join(qualifier)}['{name}']"
        elif column.type.root in (TypeRoot.ARRAY, TypeRoot.MULTISET):
            hint = f"write {'.'.join(qualifier)}[1] for an element, or UNNEST it in FROM"
        elif length == 0:
            hint = f'"{qualifier[-1]}" is a column here; no table of FROM has this name'
        else:
            hint = f"leave .{name} out"
        raise UserError(
            "SS2003",
            f'column "{".".join(qualifier)}" is {shown} and has no field "{name}"',
            span=span,
            hint=hint,
        )

    def _lookup(self, qualifier: tuple[str, ...], name: str) -> list[int]:
        return [
            i
            for i, c in enumerate(self.columns)
            if c.name == name and (_matches(c, qualifier) if qualifier else c.is_plain)
        ]

    def _fail_ambiguous(self, parts: tuple[str, ...], found: list[int], span: Span | None) -> NoReturn:
        candidates = [str(self.columns[i]) for i in found]
        distinct = len(set(candidates)) == len(candidates)
        raise UserError(
            "SS2004",
            f'column "{".".join(parts)}" is ambiguous',
            span=span,
            detail=f"it could be {' or '.join(dict.fromkeys(candidates))}",
            hint="write the table's name before it"
            if distinct
            else "give the columns different names with AS",
        )

    def _unknown(self, parts: tuple[str, ...], span: Span | None) -> UserError:
        if len(parts) > 1:
            qualified = [c for c in self.columns if _matches(c, parts[:-1])]
            if not qualified:
                self._fail_table(parts[:-1], span)
            place, name, columns = f' in table "{".".join(parts[:-1])}"', parts[-1], qualified
        else:
            tables = [".".join(q[-1:]) for q in self.qualifiers if q]
            place = f' in table "{tables[0]}"' if len(tables) == 1 else ""
            name, columns = parts[0], list(self.columns)
        hint = column_hint(name) if len(parts) == 1 else ""
        hint = (
            hint
            or suggest(name, [c.name for c in columns], "columns")
            or ("" if self.columns else "this query has no FROM; put text in single quotes")
        )
        return UserError("SS2003", f'column "{name}" does not exist{place}', span=span, hint=hint)

    def _fail_table(self, qualifier: tuple[str, ...], span: Span | None) -> NoReturn:
        tables = [q[-1] for q in self.qualifiers if q]
        unnamed = (
            "name the columns alone, or give what stands in FROM a name with AS"
            if self.columns
            else f"this query has no FROM: add FROM {qualifier[-1]}"
        )
        raise UserError(
            "SS2001",
            f'"{".".join(qualifier)}" is not a table of this query\'s FROM',
            span=span,
            hint=suggest(qualifier[-1], tables) if tables else unnamed,
        )


def nested_field(t: LogicalType, name: str, span: Span | None) -> int:
    """Position of a ROW's field; UserError SS2003 with a suggestion when there is none."""
    if t.root is not TypeRoot.ROW:
        raise UserError(
            "SS2003",
            f'{t.without_time_attribute()} has no field "{name}"',
            span=span,
            hint="only a ROW has fields",
        )
    names = [f.name for f in t.fields]
    if name not in names:
        raise UserError(
            "SS2003", f'field "{name}" does not exist in {t}', span=span, hint=suggest(name, names, "fields")
        )
    return names.index(name)


def _matches(column: ScopeColumn, qualifier: tuple[str, ...]) -> bool:
    return bool(qualifier) and column.qualifier[-len(qualifier) :] == qualifier


# The tables that a name can mean in one query: WITH queries, and the tables and views of a catalog and database.


_NUMBERS = itertools.count()


@dataclasses.dataclass(frozen=True)
class OuterQuery:
    """One level of nesting of subqueries: the columns of its rows, and the level that it is in itself."""

    scope: Scope
    depth: int
    outer: OuterQuery | None


@dataclasses.dataclass(frozen=True)
class Namespace:
    """Resolves names of tables in one query, as `Scope` resolves names of columns at one place of it.

    `context` belongs to the whole statement. `ctes` are the WITH queries that the query can read, `views` the views being
    expanded. `bind_subquery` binds a query inside FROM; it is passed as a value because the binder of queries imports the
    binder of FROM. Nodes of a view or a computed column have positions in another text than the user's script: for these,
    errors point at `fixed_span`, the place in the script that refers to the view or column.
    """

    context: BindContext
    bind_subquery: Callable[[exp.Expr, Namespace], RelationalNode]
    ctes: Mapping[str, RelationalNode] = dataclasses.field(default_factory=dict)
    views: tuple[ObjectPath, ...] = ()
    catalog: str = ""
    database: str = ""
    fixed_span: Span | None = None
    outer: OuterQuery | None = None
    """The query whose columns a subquery can read."""
    files: FileDefinitions | None = None
    """What the view that is being expanded keeps of the files that it reads by their path; None outside of any view."""
    bound_views: dict[tuple[ObjectPath, Span | None], RelationalNode] = dataclasses.field(
        default_factory=dict
    )
    """Bound views of this statement, by view and place that refers to it: each is bound once."""
    number: int = dataclasses.field(default_factory=_NUMBERS.__next__)
    """Another one for each statement, and for each view in it."""

    def span(self, node: exp.Expr | None) -> Span | None:
        """The position in the user's script that errors about `node` point at."""
        return self.fixed_span if self.fixed_span is not None else span_of(node)

    def with_cte(self, name: str, query: RelationalNode) -> Namespace:
        return dataclasses.replace(self, ctes={**self.ctes, name: query})

    @property
    def depth(self) -> int:
        """How many queries this one is a subquery of."""
        return 0 if self.outer is None else self.outer.depth + 1

    def within(self, scope: Scope) -> Namespace:
        """The same tables, for a subquery in a query with the columns of `scope`."""
        return dataclasses.replace(self, outer=OuterQuery(scope, self.depth, self.outer))

    def at(self, span: Span | None) -> Namespace:
        """The same names, for stored text that the script refers to at `span`."""
        return (
            self if self.fixed_span is not None else dataclasses.replace(self, fixed_span=span or Span(0, 0))
        )

    def inside_view(self, view: CatalogView, span: Span | None) -> Namespace:
        """The namespace of a view's query: the catalog and database of its names, and no WITH query of the outer query."""
        return dataclasses.replace(
            self.at(span),
            number=next(_NUMBERS),
            ctes={},
            outer=None,
            views=(*self.views, view.path),
            catalog=view.query_catalog or view.path.catalog,
            database=view.query_database or view.path.database,
            files=FileDefinitions(None, view.files),
        )


# A bound item of FROM: a relational node and the scope that names its columns.


COLUMNS_MAX = 10_000
"""Bound on the columns of one item: a chain of joins under SELECT * doubles them with every join."""


class ExpressionBinder(Protocol):
    """What binds the expressions of one place, as the binders of subqueries and of calls with a syntax of their own know it."""

    namespace: Namespace
    scope: Scope

    def bind(self, node: exp.Expr) -> Expression:
        """The resolved expression. UserError with the position of the wrong node."""

    def span(self, node: exp.Expr | None) -> Span | None:
        """Where the node stands in the statement."""

    def outer_column_of(self, index: int, type_: LogicalType, span: Span | None) -> InputRef:
        """The column of this place's rows that a subquery means by column `index` of the scope."""


@dataclasses.dataclass(frozen=True)
class FromItem:
    """A table, subquery or join. Column i of the scope is column i of the node."""

    node: RelationalNode
    scope: Scope

    def __post_init__(self) -> None:
        columns = len(self.node.schema)
        if columns > COLUMNS_MAX:
            raise UserError(
                "SS3019",
                f"an item of FROM has {columns} columns, and {COLUMNS_MAX} are possible",
                span=self.node.span,
                hint="select the columns that are needed instead of *",
            )

    @property
    def qualifier(self) -> tuple[str, ...]:
        """The one name that all columns share; empty for a join."""
        qualifiers = self.scope.qualifiers
        return qualifiers[0] if len(qualifiers) == 1 else ()


# The column names of `AS t (x, y)`.


def column_aliases(
    alias: exp.TableAlias | None, own: tuple[str, ...], namespace: Namespace
) -> tuple[str, ...]:
    """The names that the alias gives to the columns `own`; none where it gives none. UserError SS2012 when their number
    differs or one is repeated."""
    given = tuple(str(c.name) for c in alias.args.get("columns") or ()) if alias is not None else ()
    if not given:
        return ()
    if len(given) != len(own):
        raise UserError(
            "SS2012",
            f"{len(given)} column name{'s' * (len(given) != 1)} for {len(own)} column{'s' * (len(own) != 1)}",
            span=namespace.span(alias),
            hint=f"name all columns, which are {', '.join(own)}",
        )
    if len(set(given)) < len(given):
        raise UserError("SS2012", "a column name is repeated", span=namespace.span(alias), hint="rename one")
    return given
