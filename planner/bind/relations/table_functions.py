"""LATERAL TABLE(f(…)): the rows that a user's table function makes of each row before it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp

from sqlstream.errors import Span, UserError
from sqlstream.expressions import Expression
from sqlstream.function_ref import FunctionKind
from sqlstream.planner.bind.context import suggest
from sqlstream.planner.bind.expressions.calls import bind_call, is_aggregate, is_builtin
from sqlstream.planner.bind.expressions.over import append_columns
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.expressions.user_functions import (
    FunctionCatalog,
    bind_user_call,
    refuse_kind,
    user_function,
)
from sqlstream.planner.bind.scope import FromItem, Namespace, Scope, ScopeColumn, column_aliases
from sqlstream.planner.dialect import nodes
from sqlstream.planner.dialect.habits import foreign_table_function, unknown_table_function
from sqlstream.planner.relational.nodes import Filter, Unnest
from sqlstream.planner.relational.unnest import ORDINALITY
from sqlstream.types import LogicalType, TypeRoot

_OUTER_HINT = "compute the condition in the function, or filter its rows in a CROSS JOIN"


def bind_table_function(node: exp.Lateral, left: FromItem, is_outer: bool, namespace: Namespace) -> FromItem:
    """`left` with a row per row that the function makes. The call is an array of rows, which are then elements of their own.
    UserError SS2005 for a function that there is none of, SS2030 for one that returns a value."""
    call = node.this
    assert isinstance(call, nodes.FunctionCall)
    span = namespace.span(call)
    found = user_function(call, namespace)
    if found is None:
        raise unknown_call(call, namespace)
    if found.ref.kind is FunctionKind.PROCESS_TABLE:
        raise refuse_kind(found, span)
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


def unknown_call(call: nodes.FunctionCall | nodes.TableCall, namespace: Namespace) -> UserError:
    """The error for a call that is none of a user's function, to be raised."""
    name, span = str(call.this), namespace.span(call)
    if namespace.fixed_span is None:
        span = call.meta.get("name_span", span)
    if is_builtin(name) and not foreign_table_function(name):
        kind = "an aggregate" if is_aggregate(name) else "a scalar function"
        hint = (
            "call it in SELECT; elements of an array become rows by CROSS JOIN UNNEST(array) AS u (element)"
        )
        return UserError("SS2030", f"{name} is {kind}, and makes no rows", span=span, hint=hint)
    context = namespace.context
    own = FunctionCatalog(context.catalog, None).visible(context.current_catalog, context.current_database)
    tables = tuple(f.path.name for f in own if f.ref.kind in (FunctionKind.TABLE, FunctionKind.PROCESS_TABLE))
    return unknown_table_function(str(call.meta.get("written", name)), span, tables)


def bind_join_table_function(left: FromItem, join: exp.Join, namespace: Namespace) -> FromItem:
    """`left` joined with LATERAL TABLE(f(…)). UserError SS3442 for a join that has no meaning so."""
    return bind_row_join(left, join, namespace, bind_table_function, "LATERAL TABLE", "rows", _OUTER_HINT)


# UNNEST in FROM: the elements of a collection, which may be a column of the tables before it.


_UNNEST_OUTER_HINT = "filter the elements in a subquery, or compute the condition in SELECT"


def bind_unnest(node: exp.Unnest, left: FromItem, is_outer: bool, namespace: Namespace) -> FromItem:
    """`left` with a row per element of the collection. UserError SS3442 for a value that is no collection."""
    collection = _collection(node, left.scope, namespace)
    widened, (place,) = append_columns(left.node, [collection])
    columns = tuple(range(len(left.scope.columns)))
    has_ordinality = bool(node.args.get("offset"))
    alias, names = _names(node, collection.type, has_ordinality, namespace)
    unnest = Unnest.over(widened, place, columns, names, is_outer, has_ordinality)
    fields = unnest.schema.fields[len(columns) :]
    made = tuple(ScopeColumn(f.name, f.type, (alias,) if alias else ()) for f in fields)
    width = len(columns)
    scope = Scope((*left.scope.columns, *made), (*left.scope.star, *range(width, width + len(made))))
    return FromItem(unnest, scope)


def bind_join_unnest(left: FromItem, join: exp.Join, namespace: Namespace) -> FromItem:
    """`left` joined with UNNEST of a value of its rows. UserError SS3442 for a join that has no meaning so."""
    return bind_row_join(left, join, namespace, bind_unnest, "UNNEST", "elements", _UNNEST_OUTER_HINT)


def _collection(node: exp.Unnest, scope: Scope, namespace: Namespace) -> Expression:
    """The ARRAY or MULTISET; a MAP is the ARRAY of its entries."""
    written = node.expressions[0]
    span = namespace.span(written)
    bound = ScalarBinder(namespace, scope, "UNNEST").bind(written)
    match bound.type.root:
        case TypeRoot.ARRAY | TypeRoot.MULTISET:
            return bound
        case TypeRoot.MAP:
            return bind_call("MAP_ENTRIES", (bound,), span)
    shown = bound.type.without_time_attribute().with_nullable(True)
    hint = "UNNEST a column of type ARRAY, MAP or MULTISET, or a value such as SPLIT(text, ',')"
    raise UserError("SS3442", f"UNNEST takes a collection, not {shown}", span=span, hint=hint)


def _names(
    node: exp.Unnest, collection: LogicalType, has_ordinality: bool, namespace: Namespace
) -> tuple[str, tuple[str, ...]]:
    """The alias, and the names of the columns: those of the alias, or the fields'. The one column of elements that are no ROW
    has the alias itself as its name."""
    alias = node.args.get("alias")
    name = str(alias.this.name) if alias is not None else ""
    element = collection.element
    assert element is not None
    fields = [f.name for f in element.fields] if element.root is TypeRoot.ROW else [name or "EXPR$0"]
    own = (*fields, *([ORDINALITY] if has_ordinality else ()))
    return name, column_aliases(alias, own, namespace) or own


# Joins of rows with those that each of them makes: UNNEST and LATERAL TABLE behind JOIN.


BindMade = Callable[[Any, FromItem, bool, Namespace], FromItem]
"""From the item of FROM, the rows before it, and whether those without made rows are kept, to both."""


def bind_row_join(
    left: FromItem,
    join: exp.Join,
    namespace: Namespace,
    bind: BindMade,
    title: str,
    made: str,
    outer_hint: str,
) -> FromItem:
    """`left` joined with what `bind` makes of its rows. UserError SS3442 for a join that has no meaning so, which calls the
    clause by `title`, and what it makes `made`."""
    node, on = join.this, join.args.get("on")
    side = join.args.get("side")
    kind = side or join.args.get("kind") or "INNER"
    if kind in ("RIGHT", "FULL", "SEMI", "ANTI") or join.args.get("using") or join.args.get("method"):
        written = "NATURAL" if join.args.get("method") else "USING" if join.args.get("using") else kind
        raise UserError(
            "SS3442",
            f"{title} takes no {written} join: its {made} belong to the rows before it",
            span=namespace.span(join),
            hint=f"write CROSS JOIN {title}(…) or LEFT JOIN {title}(…) ON TRUE",
        )
    is_outer = side == "LEFT"
    is_always = on is None or (isinstance(on, exp.Boolean) and bool(on.this))
    if is_outer and not is_always:
        message = f"LEFT JOIN {title} takes ON TRUE alone"
        raise UserError("SS3442", message, span=namespace.span(on), hint=outer_hint)
    qualifiers = {q[-1] for q in left.scope.qualifiers if q}
    alias = node.args.get("alias")
    if alias is not None and str(alias.this.name) in qualifiers:
        name, hint = str(alias.this.name), "give one of them another name with AS"
        raise UserError("SS2012", f'"{name}" is named twice in FROM', span=namespace.span(alias), hint=hint)
    item = bind(node, left, is_outer, namespace)
    if is_always or on is None:
        return item
    condition = ScalarBinder(namespace, item.scope, "ON").bind_condition(on)
    filtered = Filter(input=item.node, condition=condition, schema=item.node.schema, span=namespace.span(on))
    return FromItem(filtered, item.scope)


def written_arguments(
    node: nodes.TableCall,
    function: str,
    names: Sequence[str],
    given: Mapping[str, nodes.CallArgument],
    namespace: Namespace,
    refusal: Callable[[str, Span | None, str], UserError],
    usage: str,
    folds_case: bool = False,
) -> Iterator[tuple[str, nodes.CallArgument]]:
    """Each argument with the one of `names` that it is for, by its name or place. `refusal` makes the errors of arguments that
    fit none; UserError SS1001 for one that the caller has put into `given` before."""
    is_named = False
    for place, argument in enumerate(node.expressions):
        span = namespace.span(argument)
        written = argument.args.get("name")
        if written is None and is_named:
            raise refusal("an argument without a name stands behind one with a name", span, "name it")
        if written is None and place >= len(names):
            raise refusal(f"{function} takes at most {len(names)} arguments", span, f"write {usage}")
        is_named = written is not None
        name = names[place] if written is None else str(written.name)
        if written is not None and folds_case:
            name = name.lower()
        if name not in names:
            raise refusal(
                f'{function} has no argument "{name}"', span, suggest(name, list(names), "arguments")
            )
        if name in given:
            raise UserError("SS1001", f'argument "{name}" is given twice', span=span, hint="give it once")
        yield name, argument
