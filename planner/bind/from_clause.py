"""The FROM clause: its items and joins → one relation."""

from __future__ import annotations

from sqlglot import exp

from planner.bind.environment import Environment
from planner.bind.joins import bind_join
from planner.bind.relation import Relation
from planner.bind.scope import Scope
from planner.bind.tables import bind_table, rename
from planner.bind.windows import bind_window_tvf
from planner.dialect import nodes
from planner.relational.nodes import RelationalNode, Values
from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.schema import Schema

_LATER: dict[type[exp.Expr], str] = {exp.Unnest: "UNNEST", exp.Lateral: "LATERAL"}


def bind_from(select: exp.Select, environment: Environment) -> Relation:
    """All of FROM; a query without FROM reads one row that has nothing to name."""
    clause = select.args.get("from_")
    if clause is None:
        return Relation(single_row(environment.span(select)), Scope())
    relation = bind_item(clause.this, environment)
    for join in select.args.get("joins") or ():
        relation = bind_join(relation, bind_item(join.this, environment), join, environment)
    return relation


def single_row(span: Span | None) -> RelationalNode:
    """One row with one column that no name reaches: a batch of no columns would have no length."""
    return Values(rows=((0,),), schema=Schema.of(("ZERO", sql.INT.not_null())), span=span)


def bind_item(node: exp.Expr, environment: Environment) -> Relation:
    """One item of FROM under its alias."""
    match node:
        case exp.Table():
            relation = bind_table(node, environment)
        case nodes.WindowTvf():
            relation = bind_window_tvf(node, bind_item(node.this, environment), environment)
        case exp.Subquery():
            query = environment.bind_subquery(node.this, environment)
            relation = Relation(query, Scope.of(query.schema))
        case _:
            what = _LATER.get(type(node), type(node).__name__.upper())
            raise UserError("SS3001", f"{what} in FROM is not supported yet", span=environment.span(node))
    for join in node.args.get("joins") or ():
        relation = bind_join(relation, bind_item(join.this, environment), join, environment)
    return _with_alias(relation, node.args.get("alias"), environment)


def _with_alias(relation: Relation, alias: exp.TableAlias | None, environment: Environment) -> Relation:
    if alias is None:
        return relation
    node = rename_columns(relation.node, alias, environment)
    if alias.this is None:
        return Relation(node, relation.scope)
    return Relation(node, Scope.of(node.schema, (str(alias.this.name),)))


def rename_columns(node: RelationalNode, alias: exp.TableAlias, environment: Environment) -> RelationalNode:
    """`node` with the columns of `AS t (x, y)`; UserError SS2012 when their number differs or one
    stands twice."""
    names = tuple(str(c.name) for c in alias.args.get("columns") or ())
    if not names:
        return node
    if len(names) != len(node.schema):
        raise UserError(
            "SS2012",
            f"{len(names)} column names for {len(node.schema)} columns",
            span=environment.span(alias),
            hint=f"the columns are {', '.join(node.schema.names)}",
        )
    if len(set(names)) < len(names):
        raise UserError("SS2012", "a column name stands twice", span=environment.span(alias))
    return rename(node, names)
