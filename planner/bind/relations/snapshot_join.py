"""JOIN LATERAL SNAPSHOT(…): each row with what a table of changes holds when the row comes."""

from __future__ import annotations

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.expressions import Expression
from sqlstream.planner.bind.context import suggest
from sqlstream.planner.bind.expressions.calls import bind_call
from sqlstream.planner.bind.expressions.casts import can_cast_implicitly, cast_to, plain
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.relations.joins import bind_join
from sqlstream.planner.bind.relations.temporal_join import check_kind, without_times
from sqlstream.planner.bind.relations.windows import literal_ms
from sqlstream.planner.bind.scope import FromItem, Namespace, Scope
from sqlstream.planner.relational import nodes as plan
from sqlstream.schema import Field, Schema


def bind_snapshot_join(
    left: FromItem, right: FromItem, table: Schema, join: exp.Join, namespace: Namespace
) -> FromItem:
    """`left` joined with SNAPSHOT(input => `right`, …), whose columns are those of `table`, perhaps renamed. UserError SS3499 for
    arguments that are no times."""
    function = join.this.this
    check_kind(join, "LATERAL SNAPSHOT", namespace)
    on_time = _on_time(function, table, namespace)
    joined = bind_join(left, without_times(right), join, namespace)
    node = joined.node
    assert isinstance(node, plan.Join)
    time = None if on_time < 0 else table.fields[on_time]
    made = plan.SnapshotJoin(
        left=node.left,
        right=node.right,
        kind=node.kind,
        condition=node.condition,
        schema=node.schema,
        span=namespace.span(join.this),
        on_time=on_time,
        load_completed_time=None if time is None else _load_completed_time(function, time, namespace),
        idle_timeout_ms=_interval(function, "load_completed_idle_timeout", namespace),
        ttl_ms=_interval(function, "state_ttl", namespace),
    )
    return FromItem(made, joined.scope)


def _on_time(function: exp.Expr, table: Schema, namespace: Namespace) -> int:
    """The column of the right table; -1 where none is named, which only a stream needs."""
    written = function.args.get("on_time")
    if written is None:
        return -1
    name, span = str(written.name), namespace.span(written)
    if name not in table.names:
        hint = suggest(name, list(table.names), "columns") or "name it: on_time => DESCRIPTOR(ts)"
        raise UserError("SS2003", f'the table of SNAPSHOT has no column "{name}"', span=span, hint=hint)
    index = table.index_of(name)
    if not sql.is_rowtime(table.types[index]):
        raise UserError(
            "SS3499",
            f'on_time takes a row time, and "{name}" is a plain {plain(table.types[index])}',
            span=span,
            hint=f"declare WATERMARK FOR {name} AS {name} - INTERVAL '5' SECOND in the table",
        )
    return index


def _load_completed_time(function: exp.Expr, time: Field, namespace: Namespace) -> Expression:
    """By the clock of the row time: what is written, or when the job starts."""
    target = time.type.without_time_attribute().with_nullable(True)
    written = function.args.get("load_completed_time")
    if written is None:
        now = bind_call("CURRENT_TIMESTAMP", (), namespace.span(function))
        return cast_to(now, target, namespace.span(function))
    bound = ScalarBinder(namespace, Scope(), "load_completed_time").bind(written)
    if not sql.is_timestamp(bound.type) or not can_cast_implicitly(bound.type, target):
        raise UserError(
            "SS3499",
            f"load_completed_time takes a TIMESTAMP or a TIMESTAMP_LTZ, not {plain(bound.type)}",
            span=namespace.span(written),
            hint="write TIMESTAMP '2026-01-01 00:00:00', or leave it out: it is the time when the job starts",
        )
    return cast_to(bound, target, namespace.span(written))


def _interval(function: exp.Expr, name: str, namespace: Namespace) -> int | None:
    written = function.args.get(name)
    if written is None:
        return None
    value = literal_ms(written, name, namespace, "SS3499")
    if value < 0 or (value == 0 and name != "state_ttl"):
        hint = "write it as INTERVAL '10' SECOND, or leave it out"
        raise UserError("SS3499", f"{name} must be positive", span=namespace.span(written), hint=hint)
    return value
