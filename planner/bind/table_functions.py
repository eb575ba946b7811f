"""LATERAL TABLE(f(…)): the rows that a user's table function makes of each row before it."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from sqlstream.errors import UserError
from sqlstream.function_ref import FunctionKind
from sqlstream.planner.bind.calls import is_aggregate, is_builtin
from sqlstream.planner.bind.column_aliases import column_aliases
from sqlstream.planner.bind.from_item import FromItem
from sqlstream.planner.bind.namespace import Namespace
from sqlstream.planner.bind.over import append_columns
from sqlstream.planner.bind.row_joins import bind_row_join
from sqlstream.planner.bind.scalar import ScalarBinder
from sqlstream.planner.bind.scope import Scope, ScopeColumn
from sqlstream.planner.bind.user_functions import FunctionCatalog, bind_user_call, user_function
from sqlstream.planner.dialect import nodes
from sqlstream.planner.dialect.habits import foreign_table_function, unknown_table_function
from sqlstream.planner.relational.nodes import Unnest

_OUTER_HINT = "compute the condition in the function, or filter its rows in a CROSS JOIN"


def is_table_function(node: exp.Expr) -> bool:
    """Whether an item of FROM is a call of a table function."""
    return isinstance(node, exp.Lateral) and isinstance(node.this, nodes.FunctionCall)


def bind_table_function(node: exp.Lateral, left: FromItem, is_outer: bool, namespace: Namespace) -> FromItem:
    """`left` with a row per row that the function makes. The call is an array of rows, which are then elements of their own.
    UserError SS2005 for a function that there is none of, SS2030 for one that returns a value."""
    call = node.this
    assert isinstance(call, nodes.FunctionCall)
    span = namespace.span(call)
    found = user_function(call, namespace)
    if found is None:
        raise _unknown(call, namespace)
    if found.ref.kind is not FunctionKind.TABLE:
        kind = "an aggregate" if found.ref.kind is FunctionKind.AGGREGATE else "a scalar function"
        message = f"{found.path.name} is {kind}, and makes no rows"
        hint = f"write {found.ref.usage} in SELECT"
        raise UserError("SS2030", message, span=span, hint=hint)
    for clause, text in (("is_distinct", "DISTINCT"), ("filter", "FILTER"), ("over", "OVER")):
        if call.args.get(clause):
            raise UserError("SS2006", f"{found.path.name} takes no {text}: it is no aggregate", span=span)
    binder = ScalarBinder(namespace, left.scope, f"the arguments of {found.path.name}")
    rows = bind_user_call(found, tuple(binder.bind(a) for a in call.expressions), span)
    widened, (place,) = append_columns(left.node, [rows])
    columns = tuple(range(len(left.scope.columns)))
    alias = node.args.get("alias")
    name = str(alias.this.name) if alias is not None and alias.this is not None else ""
    own = tuple(f.name for f in found.ref.result_type.fields)
    names = column_aliases(alias, own, namespace) or own
    unnest = Unnest.over(widened, place, columns, names, is_outer, has_ordinality=False)
    width = len(columns)
    made = tuple(ScopeColumn(f.name, f.type, (name,) if name else ()) for f in unnest.schema.fields[width:])
    scope = Scope((*left.scope.columns, *made), (*left.scope.star, *range(width, width + len(made))))
    return FromItem(dataclasses.replace(unnest, span=span), scope)


def _unknown(call: nodes.FunctionCall, namespace: Namespace) -> UserError:
    """The error for a call that is none of a user's function, to be raised."""
    name, span = str(call.this), namespace.span(call)
    if is_builtin(name) and not foreign_table_function(name):
        kind = "an aggregate" if is_aggregate(name) else "a scalar function"
        hint = (
            "call it in SELECT; elements of an array become rows by CROSS JOIN UNNEST(array) AS u (element)"
        )
        return UserError("SS2030", f"{name} is {kind}, and makes no rows", span=span, hint=hint)
    context = namespace.context
    own = FunctionCatalog(context.catalog, None).visible(context.current_catalog, context.current_database)
    tables = tuple(f.path.name for f in own if f.ref.kind is FunctionKind.TABLE)
    return unknown_table_function(str(call.meta.get("written", name)), span, tables)


def bind_join_table_function(left: FromItem, join: exp.Join, namespace: Namespace) -> FromItem:
    """`left` joined with LATERAL TABLE(f(…)). UserError SS3442 for a join that has no meaning so."""
    return bind_row_join(left, join, namespace, bind_table_function, "LATERAL TABLE", "rows", _OUTER_HINT)
