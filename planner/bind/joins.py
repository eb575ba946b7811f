"""JOIN: two relations → one, with the columns of both in scope."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from planner.bind.calls import bind_call
from planner.bind.from_item import FromItem
from planner.bind.namespace import Namespace
from planner.bind.over import append_columns
from planner.bind.scalar import ScalarBinder
from planner.bind.scope import Scope, ScopeColumn
from planner.relational.nodes import Join, RelationalJoinKind
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Expression, InputRef, conjunction
from sqlstream.schema import Field, Schema

_LEFT_NULLABLE = frozenset({RelationalJoinKind.RIGHT, RelationalJoinKind.FULL})
_RIGHT_NULLABLE = frozenset({RelationalJoinKind.LEFT, RelationalJoinKind.FULL})


def bind_join(left: FromItem, right: FromItem, join: exp.Join, namespace: Namespace) -> FromItem:
    """`left` joined with `right`. UserError for a table name that both have, NATURAL, and a missing condition."""
    span = namespace.span(join)
    if join.args.get("method") is not None:
        hint = "name the columns with USING (…) or ON"
        raise UserError("SS3001", f"{join.args['method']} JOIN is not supported yet", span=span, hint=hint)
    _check_distinct_names(left.scope, right.scope, namespace.span(join.this) or span)
    kind = RelationalJoinKind(join.args.get("side") or "INNER")
    scope = _joined_scope(left.scope, right.scope)
    using = [str(name.name) for name in join.args.get("using") or ()]
    if using:
        return _bind_using(left, right, join, kind, scope, namespace)
    on = join.args.get("on")
    condition = ScalarBinder(namespace, scope, "ON").bind_condition(on) if on is not None else None
    if condition is None and join.args.get("kind") != "CROSS":
        raise UserError("SS3004", "JOIN needs a condition", span=span, hint="add ON …, or write CROSS JOIN")
    return _join(left, right, kind, condition, scope, span)


def _bind_using(
    left: FromItem,
    right: FromItem,
    join: exp.Join,
    kind: RelationalJoinKind,
    scope: Scope,
    namespace: Namespace,
) -> FromItem:
    width = len(left.scope.columns)
    pairs: list[tuple[int, int]] = []
    conditions: list[Expression] = []
    for name in join.args["using"]:
        span = namespace.span(name)
        left_index = left.scope.resolve((str(name.name),), span)[0]
        right_index = right.scope.resolve((str(name.name),), span)[0]
        pairs.append((left_index, width + right_index))
        sides = (
            InputRef(left_index, left.node.schema.types[left_index]),
            InputRef(width + right_index, right.node.schema.types[right_index]),
        )
        conditions.append(bind_call("=", sides, span))
    joined = _join(left, right, kind, conjunction(conditions), scope, namespace.span(join))
    return _merge_columns(joined, pairs, kind, namespace.span(join))


def _merge_columns(
    joined: FromItem, pairs: list[tuple[int, int]], kind: RelationalJoinKind, span: Span | None
) -> FromItem:
    """The scope of JOIN … USING: one plain column per pair, which `*` lists first. The columns of both sides keep
    their qualified names."""
    columns = list(joined.scope.columns)
    types = joined.node.schema.types
    node = joined.node
    shown: list[int] = []
    for left, right in pairs:
        kept = right if kind is RelationalJoinKind.RIGHT else left
        if kind is RelationalJoinKind.FULL:
            sides = (InputRef(left, types[left]), InputRef(right, types[right]))
            node, (kept,) = append_columns(node, [bind_call("COALESCE", sides, span)])
            columns.append(ScopeColumn(columns[left].name, node.schema.types[kept]))
        for side in {left, right} - {kept}:
            columns[side] = dataclasses.replace(columns[side], is_plain=False)
        shown.append(kept)
    merged = {i for pair in pairs for i in pair}
    star = (*shown, *(i for i in joined.scope.star if i not in merged))
    return FromItem(node, Scope(tuple(columns), star))


def _join(
    left: FromItem,
    right: FromItem,
    kind: RelationalJoinKind,
    condition: Expression | None,
    scope: Scope,
    span: Span | None,
) -> FromItem:
    left_fields = _nullable(left.node.schema.fields) if kind in _LEFT_NULLABLE else left.node.schema.fields
    right_fields = (
        _nullable(right.node.schema.fields) if kind in _RIGHT_NULLABLE else right.node.schema.fields
    )
    schema = Schema(left_fields + right_fields)
    node = Join(left=left.node, right=right.node, kind=kind, condition=condition, schema=schema, span=span)
    columns = tuple(dataclasses.replace(c, type=t) for c, t in zip(scope.columns, schema.types, strict=True))
    return FromItem(node, dataclasses.replace(scope, columns=columns))


def _nullable(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    return tuple(Field(f.name, f.type.with_nullable(True)) for f in fields)


def _joined_scope(left: Scope, right: Scope) -> Scope:
    width = len(left.columns)
    return Scope(left.columns + right.columns, left.star + tuple(width + i for i in right.star))


def _check_distinct_names(left: Scope, right: Scope, span: Span | None) -> None:
    both = set(left.qualifiers) & set(right.qualifiers) - {()}
    if both:
        name = sorted(both)[0][-1]
        raise UserError(
            "SS2012",
            f'"{name}" is named twice in FROM',
            span=span,
            hint=f"give one of them another name with AS, e.g. {name} AS {name}2",
        )
