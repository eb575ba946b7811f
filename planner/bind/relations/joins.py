"""JOIN: two relations → one, with the columns of both in scope."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from sqlstream.errors import Span, UserError
from sqlstream.expressions import TRUE, Expression, InputRef, conjunction, conjuncts
from sqlstream.planner.bind.expressions.calls import bind_call
from sqlstream.planner.bind.expressions.over import append_columns
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.expressions.subqueries import Subqueries, has_subquery
from sqlstream.planner.bind.scope import FromItem, Namespace, Scope, ScopeColumn
from sqlstream.planner.relational.nodes import Apply, Join
from sqlstream.schema import Field, Schema
from sqlstream.specs.join import JoinKind


def bind_join(left: FromItem, right: FromItem, join: exp.Join, namespace: Namespace) -> FromItem:
    """`left` joined with `right`. UserError for a table name that both have, and a missing condition."""
    span = namespace.span(join)
    _check_distinct_names(left.scope, right.scope, namespace.span(join.this) or span)
    kind = _kind(join)
    scope = _joined_scope(left.scope, right.scope)
    names = _equated_names(left.scope, right.scope, join, namespace)
    if names:
        return _bind_using(left, right, join, kind, names, namespace)
    on = join.args.get("on")
    is_as_of = join.this.args.get("version") is not None
    place = "the ON of a join FOR SYSTEM_TIME AS OF" if is_as_of else "ON"
    binder = ScalarBinder(namespace, scope, place, None if is_as_of else Subqueries())
    condition = binder.bind_condition(on) if on is not None else None
    if condition is not None and has_subquery(condition):
        assert on is not None
        return _with_subqueries(left, right, on, condition, kind, binder)
    # Without a common column a NATURAL join is one of all pairs.
    if condition is None and join.args.get("kind") != "CROSS" and join.args.get("method") is None:
        raise UserError("SS3004", "JOIN needs a condition", span=span, hint="add ON …, or write CROSS JOIN")
    return _join(left, right, kind, condition, scope, span)


def _with_subqueries(
    left: FromItem,
    right: FromItem,
    on: exp.Expr,
    condition: Expression,
    kind: JoinKind,
    binder: ScalarBinder,
) -> FromItem:
    """A join whose condition has subqueries: of an INNER join they filter its rows. Of a LEFT, SEMI or ANTI join they filter
    those of the right side, and may compare no others."""
    namespace, span = binder.namespace, binder.span(on)
    if kind is JoinKind.INNER:
        assert binder.subqueries is not None
        plain = [p for p in conjuncts(condition) if not has_subquery(p)]
        other = conjunction([p for p in conjuncts(condition) if has_subquery(p)])
        assert other is not None
        joined = _join(left, right, kind, conjunction(plain), binder.scope, span)
        node = binder.subqueries.filtered(joined.node, other, namespace.depth, span)
        return FromItem(node, joined.scope)
    plain = []
    node = right.node
    for part in _written_conjuncts(on):
        bound = binder.bind_condition(part)
        if not has_subquery(bound):
            plain.append(bound)
            continue
        own = ScalarBinder(namespace, right.scope, "ON", Subqueries())
        try:
            of_right = own.bind_condition(part)
        except UserError as error:
            hint = "compare columns of the left table in WHERE, or in a subquery in FROM"
            message = f"a subquery in the ON of a {kind.value} JOIN reads columns of its right table alone"
            raise UserError("SS3470", message, span=binder.span(part), hint=hint) from error
        assert own.subqueries is not None
        node = own.subqueries.filtered(node, of_right, namespace.depth, span)
    if kind is not JoinKind.LEFT and not kind.is_left_only:
        hint = "compare in WHERE, or in a subquery in FROM"
        raise UserError(
            "SS3470", f"a subquery has no place in the ON of a {kind.value} JOIN", span=span, hint=hint
        )
    return _join(left, FromItem(node, right.scope), kind, conjunction(plain), binder.scope, span)


def _written_conjuncts(on: exp.Expr) -> list[exp.Expr]:
    if not isinstance(on, exp.And):
        return [on]
    return [*_written_conjuncts(on.this), *_written_conjuncts(on.args["expression"])]


def apply_lateral(
    left: FromItem, right: FromItem, join: exp.Join, namespace: Namespace, span: Span | None
) -> FromItem:
    """`left` joined with the rows that LATERAL has for each of its rows: CROSS, INNER or LEFT, with a condition or ON TRUE."""
    _check_distinct_names(left.scope, right.scope, namespace.span(join.this) or span)
    kind = _kind(join)
    if kind not in (JoinKind.INNER, JoinKind.LEFT) or join.args.get("using"):
        hint = "write CROSS JOIN LATERAL, or LEFT JOIN LATERAL … ON TRUE"
        raise UserError("SS3474", "LATERAL takes an INNER, CROSS or LEFT JOIN … ON", span=span, hint=hint)
    scope = _joined_scope(left.scope, right.scope)
    on = join.args.get("on")
    condition = ScalarBinder(namespace, scope, "ON").bind_condition(on) if on is not None else None
    joined = _join(left, right, kind, None if condition == TRUE else condition, scope, span)
    assert isinstance(joined.node, Join)
    node = Apply(
        left=left.node,
        right=right.node,
        kind=kind,
        depth=namespace.depth,
        condition=joined.node.condition,
        schema=joined.node.schema,
        span=span,
    )
    return FromItem(node, joined.scope)


def _kind(join: exp.Join) -> JoinKind:
    half = join.args.get("kind")
    return JoinKind(half if half in ("SEMI", "ANTI") else join.args.get("side") or "INNER")


def _equated_names(
    left: Scope, right: Scope, join: exp.Join, namespace: Namespace
) -> list[tuple[str, Span | None]]:
    """The columns of USING, or those that a NATURAL join finds on both sides, each with its place in the statement."""
    if join.args.get("method") is None:
        return [(str(name.name), namespace.span(name)) for name in join.args.get("using") or ()]
    other = {right.columns[i].name for i in right.star}
    common = dict.fromkeys(name for i in left.star if (name := left.columns[i].name) in other)
    return [(name, namespace.span(join)) for name in common]


def _bind_using(
    left: FromItem,
    right: FromItem,
    join: exp.Join,
    kind: JoinKind,
    names: list[tuple[str, Span | None]],
    namespace: Namespace,
) -> FromItem:
    width = len(left.scope.columns)
    pairs: list[tuple[int, int]] = []
    conditions: list[Expression] = []
    for name, span in names:
        left_index = left.scope.resolve((name,), span)[0]
        right_index = right.scope.resolve((name,), span)[0]
        pairs.append((left_index, width + right_index))
        sides = (
            InputRef(left_index, left.node.schema.types[left_index]),
            InputRef(width + right_index, right.node.schema.types[right_index]),
        )
        conditions.append(bind_call("=", sides, span))
    scope, span = _joined_scope(left.scope, right.scope), namespace.span(join)
    joined = _join(left, right, kind, conjunction(conditions), scope, span)
    return joined if kind.is_left_only else _merge_columns(joined, pairs, kind, span)


def _merge_columns(
    joined: FromItem, pairs: list[tuple[int, int]], kind: JoinKind, span: Span | None
) -> FromItem:
    """The scope of JOIN … USING: one plain column per pair, which `*` lists first. The columns of both sides keep
    their qualified names."""
    columns = list(joined.scope.columns)
    types = joined.node.schema.types
    node = joined.node
    shown: list[int] = []
    for left, right in pairs:
        kept = right if kind is JoinKind.RIGHT else left
        if kind is JoinKind.FULL:
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
    kind: JoinKind,
    condition: Expression | None,
    scope: Scope,
    span: Span | None,
) -> FromItem:
    if kind.is_left_only:
        schema = left.node.schema
        half = Join(
            left=left.node, right=right.node, kind=kind, condition=condition, schema=schema, span=span
        )
        return FromItem(half, left.scope)
    left_fields = _nullable(left.node.schema.fields) if kind.pads(1) else left.node.schema.fields
    right_fields = _nullable(right.node.schema.fields) if kind.pads(0) else right.node.schema.fields
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
