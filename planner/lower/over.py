"""Functions OVER a frame as SQL of a batch engine."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlstream.expressions import AggregateCall
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.aggregates import AGGREGATES
from sqlstream.planner.lower.engine import EngineDialect, refuse
from sqlstream.planner.lower.lowering import ordered
from sqlstream.planner.relational.nodes import Window
from sqlstream.specs.over import NEIGHBOURS, RANKING, WHOLE_PARTITION_RANKING, Frame, OverCall
from sqlstream.types import INTEGER_ROOTS, TIMESTAMP_ROOTS, TypeRoot, is_proctime

Wrap = Callable[[exp.Expr], exp.Expr]
_VALUES = frozenset({"FIRST_VALUE", "LAST_VALUE", "NTH_VALUE"})
_AGGREGATES = frozenset({"count", "sum", *AGGREGATES.values()})


def lower_over_call(node: Window, call: OverCall, engine: EngineDialect) -> exp.Expr:
    """One call over the relation `i`. UserError SS3301 for what the engine has no equal counterpart for."""
    types = node.input.schema.types
    if any(is_proctime(types[k.column]) for k in node.order):
        raise refuse(engine.title, "OVER in order of processing time", span=node.span)
    _check_spark(node, call, engine)
    partition = [tree.input_column(k) for k in node.partition_keys]
    order = ordered(node.order, "i")

    def over(function: exp.Expr) -> exp.Expr:
        window = tree.over(function, partition, order)
        if call.has_frame and order:
            window.set("spec", _frame(call.frame, types[node.order[0].column].root, engine))
        return window

    if call.function in RANKING | WHOLE_PARTITION_RANKING:
        args = [tree.number(call.number)] if call.function == "NTILE" else []
        number = over(tree.call(call.function.lower(), *args))
        is_as_declared = engine.sqlglot_name == "duckdb" and call.function != "NTILE"
        return number if is_as_declared else tree.cast(number, engine.type_(call.type))
    if call.function in NEIGHBOURS | _VALUES:
        return over(_value(call, engine))
    aggregate = AggregateCall(call.function, call.args, call.type, call.is_distinct, call.filter, call.ref)
    return _windowed(engine.aggregate(aggregate, node.input.schema), over, engine)


def _check_spark(node: Window, call: OverCall, engine: EngineDialect) -> None:
    if engine.sqlglot_name == "duckdb":
        return
    if call.is_distinct:
        raise refuse(engine.title, f"{call.function} OVER with DISTINCT", span=node.span)
    is_by_value = call.has_frame and call.frame.is_range and any((call.frame.start, call.frame.end))
    if is_by_value and (t := node.input.schema.types[node.order[0].column]).root not in _SPARK_RANGES:
        raise refuse(engine.title, f"a RANGE of {t.with_nullable(True)}", span=node.span)


def _value(call: OverCall, engine: EngineDialect) -> exp.Expr:
    if call.filter >= 0:
        raise refuse(engine.title, f"{call.function} with FILTER")
    value = tree.input_column(call.args[0])
    args = [value]
    if call.function in NEIGHBOURS or call.function == "NTH_VALUE":
        args.append(tree.number(call.number))
    args += [tree.input_column(a) for a in call.args[1:]]
    if call.skips_nulls and engine.sqlglot_name == "spark":
        return exp.IgnoreNulls(this=tree.call(call.function.lower(), *args))
    if call.skips_nulls:
        # The words belong to the whole call, and stand behind its last argument, where sqlglot leaves them out.
        args[-1] = tree.raw(f"{args[-1].sql(engine.sqlglot_name)} IGNORE NULLS")
    return tree.call(call.function.lower(), *args)


def _windowed(expression: exp.Expr, over: Wrap, engine: EngineDialect) -> exp.Expr:
    """The expression with OVER behind each aggregate function in it."""

    def wrapped(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Filter):
            return over(node if engine.sqlglot_name == "duckdb" else _without_filter(node))
        is_aggregate = isinstance(node, exp.Anonymous) and str(node.this).lower() in _AGGREGATES
        return over(node) if is_aggregate else node

    return _replaced(expression, wrapped)


def _without_filter(node: exp.Filter) -> exp.Expr:
    """The aggregate with NULL, which it passes over, as the argument of rows that the filter leaves out."""
    aggregate = node.this.copy()
    assert isinstance(aggregate, exp.Anonymous)
    condition = node.expression.this
    (given,) = aggregate.expressions
    value = tree.number(1) if isinstance(given, exp.Star) else given
    return tree.call(str(aggregate.this), tree.case([(condition.copy(), value.copy())], tree.null()))


def _replaced(node: exp.Expr, wrapped: Wrap) -> exp.Expr:
    made: exp.Expr = wrapped(node)
    if made is not node:
        return made
    copy = node.copy()
    for part in list(copy.iter_expressions()):
        part.replace(_replaced(part, wrapped))
    return copy


def _frame(frame: Frame, root: TypeRoot, engine: EngineDialect) -> exp.Expr:
    start, start_side = _bound(frame.start, "PRECEDING", frame.is_range, root, engine)
    end, end_side = _bound(frame.end, "FOLLOWING", frame.is_range, root, engine)
    return exp.WindowSpec(
        kind="RANGE" if frame.is_range else "ROWS",
        start=start,
        start_side=start_side,
        end=end,
        end_side=end_side,
    )


def _bound(
    offset: float | None, unbounded: str, is_range: bool, root: TypeRoot, engine: EngineDialect
) -> tuple[str | exp.Expr, str | None]:
    if offset is None:
        return "UNBOUNDED", unbounded
    if offset == 0:
        return "CURRENT ROW", None
    side = "PRECEDING" if offset < 0 else "FOLLOWING"
    size = exp.Literal.number(abs(offset))
    if is_range and root in _TIMES and engine.sqlglot_name == "spark":
        return tree.raw(f"INTERVAL '{abs(offset) / 1000:.3f}' SECOND"), side
    if is_range and root in _TIMES:
        return tree.call("to_milliseconds", size), side
    return size, side


_TIMES = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ, TypeRoot.DATE, TypeRoot.TIME})
_SPARK_RANGES = frozenset({*INTEGER_ROOTS, *TIMESTAMP_ROOTS})
