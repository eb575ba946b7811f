"""Queries: syntax tree + catalog → relational plan."""

from __future__ import annotations

from sqlglot import exp

from planner.bind.context import BindContext
from planner.bind.environment import Environment
from planner.bind.from_clause import rename_columns
from planner.bind.ordering import bind_output_order
from planner.bind.select import bind_select
from planner.bind.set_operations import bind_union, bind_values
from planner.relational.nodes import RelationalNode
from sqlstream.errors import UserError


def bind_query(query: exp.Expr, context: BindContext) -> RelationalNode:
    """The relational plan of a SELECT, VALUES, WITH … or UNION. UserError with a position for whatever
    it cannot mean."""
    return bind_subquery(query, root_environment(context))


def root_environment(context: BindContext) -> Environment:
    """Where a statement of the user starts."""
    return Environment(
        context, bind_subquery, catalog=context.current_catalog, database=context.current_database
    )


def bind_subquery(query: exp.Expr, environment: Environment) -> RelationalNode:
    """A query at any depth; it sees the common table expressions of `environment` and its own."""
    environment = _with_ctes(query, environment)
    match query:
        case exp.Select():
            return bind_select(query, environment)
        case exp.Union():
            return bind_union(query, environment)
        case exp.Values():
            return bind_values(query, environment)
        case exp.Subquery():
            return bind_output_order(bind_subquery(query.this, environment), query, environment)
        case exp.Intersect() | exp.Except():
            raise UserError(
                "SS3001",
                f"{type(query).__name__.upper()} is not supported yet",
                span=environment.span(query),
                hint="write it as a join",
            )
    raise UserError(
        "SS3001", f"{type(query).__name__.upper()} is not supported yet", span=environment.span(query)
    )


def _with_ctes(query: exp.Expr, environment: Environment) -> Environment:
    """Bind WITH in order: each expression sees those before it. UserError SS2012 for a name that stands
    twice."""
    clause = query.args.get("with_")
    names: set[str] = set()
    for cte in clause.expressions if clause is not None else ():
        alias = cte.args["alias"]
        name = str(alias.this.name)
        if name in names:
            raise UserError(
                "SS2012",
                f'"{name}" is defined twice in WITH',
                span=environment.span(alias),
                hint="rename one",
            )
        names.add(name)
        bound = bind_subquery(cte.this, environment)
        environment = environment.with_cte(name, rename_columns(bound, alias, environment))
    return environment
