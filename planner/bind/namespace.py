"""The tables that a name can mean in one query: WITH queries, and the tables and views of a catalog and database."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping

from sqlglot import exp

from sqlstream.catalog import CatalogView, ObjectPath
from sqlstream.errors import Span
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.bind.file_definitions import FileDefinitions
from sqlstream.planner.bind.scope import Scope
from sqlstream.planner.dialect.nodes import span_of
from sqlstream.planner.relational.nodes import RelationalNode

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
