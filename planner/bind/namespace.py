"""The tables that a name can mean in one query: those of its catalog and database, and the WITH queries around it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from sqlglot import exp

from planner.bind.context import BindContext
from planner.dialect.nodes import span_of
from planner.relational.nodes import RelationalNode
from sqlstream.catalog import ObjectPath
from sqlstream.errors import Span


@dataclasses.dataclass(frozen=True)
class Namespace:
    """What names of tables mean in one query, as `Scope` says what names of columns mean at one place of it.

    `context` is what the whole statement may know. `ctes` are the WITH queries in reach, `views` those being expanded.
    `bind_subquery` binds a query inside FROM; it comes as a value because the binder of queries imports the binder of FROM.
    In the text of a view or of a computed column, nodes have positions of another text: `fixed_span`, the place in the
    user's script that refers to it, stands for all.
    """

    context: BindContext
    bind_subquery: Callable[[exp.Expr, Namespace], RelationalNode]
    ctes: Mapping[str, RelationalNode] = dataclasses.field(default_factory=dict)
    views: tuple[ObjectPath, ...] = ()
    catalog: str = ""
    database: str = ""
    fixed_span: Span | None = None
    bound_views: dict[tuple[ObjectPath, Span | None], RelationalNode] = dataclasses.field(
        default_factory=dict
    )
    """Views that this statement has read, by the place that refers to them: each is bound once."""

    def span(self, node: exp.Expr | None) -> Span | None:
        """The position in the user's script to blame for `node`."""
        return self.fixed_span if self.fixed_span is not None else span_of(node)

    def with_cte(self, name: str, query: RelationalNode) -> Namespace:
        return dataclasses.replace(self, ctes={**self.ctes, name: query})

    def at(self, span: Span | None) -> Namespace:
        """The same names for stored text that is referred to at `span`."""
        return (
            self if self.fixed_span is not None else dataclasses.replace(self, fixed_span=span or Span(0, 0))
        )

    def inside_view(self, path: ObjectPath, span: Span | None) -> Namespace:
        """A view sees its own catalog and database and no common table expression of the query around it."""
        return dataclasses.replace(
            self.at(span),
            ctes={},
            views=(*self.views, path),
            catalog=path.catalog,
            database=path.database,
        )
