"""Queries: syntax tree + catalog → relational plan."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.errors import UserError
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.bind.counted_sets import bind_counted
from sqlstream.planner.bind.from_clause import rename_columns
from sqlstream.planner.bind.namespace import Namespace
from sqlstream.planner.bind.ordering import bind_output_order
from sqlstream.planner.bind.select import bind_select
from sqlstream.planner.bind.set_operations import bind_union, bind_values
from sqlstream.planner.bind.user_functions import resolve_functions
from sqlstream.planner.relational.nodes import RelationalNode


def bind_query(query: exp.Expr, context: BindContext) -> RelationalNode:
    """The relational plan of a SELECT, VALUES, WITH … or UNION. UserError with a position for a wrong query."""
    return bind_subquery(query, root_namespace(context))


def root_namespace(context: BindContext) -> Namespace:
    """The namespace of a user's statement, outside any view or WITH."""
    return Namespace(
        context, bind_subquery, catalog=context.current_catalog, database=context.current_database
    )


def bind_subquery(query: exp.Expr, namespace: Namespace) -> RelationalNode:
    """Bind a query at any depth; it can read the common table expressions of `namespace` and its own."""
    resolve_functions(query, namespace)
    namespace = _with_ctes(query, namespace)
    match query:
        case exp.Select():
            return bind_select(query, namespace)
        case exp.Union():
            return bind_union(query, namespace)
        case exp.Values():
            return bind_values(query, namespace)
        case exp.Subquery():
            return bind_output_order(bind_subquery(query.this, namespace), query, namespace)
        case exp.Intersect() | exp.Except():
            return bind_counted(query, namespace)
    raise UserError(
        "SS3001", f"{type(query).__name__.upper()} is not supported yet", span=namespace.span(query)
    )


def _bind_cte(query: exp.Expr, clause: exp.Expr, seen: set[str], namespace: Namespace) -> RelationalNode:
    """A query of WITH, of which `seen` are those before it, and it."""
    try:
        return bind_subquery(query, namespace)
    except UserError as error:
        for other in clause.expressions:
            name = str(other.args["alias"].this.name)
            if error.code == "SS2001" and error.message == f'table "{name}" does not exist':
                error.hint = f'define "{name}" before the query that reads it'
                if other.this is query:
                    error.hint = "a query of WITH cannot read itself: recursive queries are not supported"
        raise


def _with_ctes(query: exp.Expr, namespace: Namespace) -> Namespace:
    """Bind WITH in order: each expression can read those before it. UserError SS2012 for a repeated name."""
    clause = query.args.get("with_")
    names: set[str] = set()
    if clause is None:
        return namespace
    for cte in clause.expressions:
        alias = cte.args["alias"]
        name = str(alias.this.name)
        if name in names:
            raise UserError(
                "SS2012",
                f'"{name}" is defined twice in WITH',
                span=namespace.span(alias),
                hint="rename one",
            )
        names.add(name)
        bound = _bind_cte(cte.this, clause, names, namespace)
        namespace = namespace.with_cte(name, rename_columns(bound, alias, namespace))
    return namespace
