"""Window table-valued functions by arithmetic of milliseconds: each row once per window that contains it."""

from __future__ import annotations

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.expressions import Call, InputRef
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.engine import EngineDialect, refuse
from sqlstream.planner.lower.expression import lower_expression
from sqlstream.planner.relational.nodes import WindowTvf
from sqlstream.specs.window import WindowKind
from sqlstream.times import is_utc
from sqlstream.types import TypeRoot


def lower_window_tvf(node: WindowTvf, source: exp.Expr, engine: EngineDialect) -> exp.Expr:
    """The rows of `source` with window_start, window_end and window_time as their last columns. Rows without a time are in
    no window."""
    width = len(node.input.schema)
    is_session = node.window.kind is WindowKind.SESSION
    if is_session and _is_shifted(node):
        # A session may lie on both sides of a change of the clock.
        zone = node.window.time_zone
        raise refuse(engine.title, f'a SESSION window of TIMESTAMP_LTZ in time zone "{zone}"')
    bounds = (_session if is_session else _aligned)(node, source, engine)
    start, end = tree.column("start_ms", "i"), tree.column("end_ms", "i")
    time = last = engine.timestamp(tree.operate(exp.Sub, end, tree.number(1)))
    if _is_shifted(node):
        t = node.input.schema.types[node.time_column].without_time_attribute()
        instant = Call("CAST", (InputRef(0, sql.timestamp(3)),), t)
        time = lower_expression(instant, engine, lambda _: last)
    added = (engine.timestamp(start), engine.timestamp(end), time)
    columns = [*_columns(node), *(tree.alias(value, f"c{width + i}") for i, value in enumerate(added))]
    return tree.select(columns, tree.subquery(bounds, "i"))


def _is_shifted(node: WindowTvf) -> bool:
    """Whether windows are cut by a clock that is not that of the time column."""
    t = node.input.schema.types[node.time_column]
    return t.root is TypeRoot.TIMESTAMP_LTZ and not is_utc(node.window.time_zone)


def _local_ms(node: WindowTvf, engine: EngineDialect) -> exp.Expr:
    """The time column as the windows are cut."""
    t = node.input.schema.types[node.time_column]
    if t.precision <= 3 and not _is_shifted(node):
        return engine.milliseconds(tree.input_column(node.time_column))
    time = InputRef(node.time_column, t.without_time_attribute())
    local = Call("CAST", (time,), sql.timestamp(3))
    return engine.milliseconds(lower_expression(local, engine, tree.input_column))


def _columns(node: WindowTvf) -> list[exp.Expr]:
    return [tree.input_column(i) for i in range(len(node.input.schema))]


def _aligned(node: WindowTvf, source: exp.Expr, engine: EngineDialect) -> exp.Expr:
    """TUMBLE, HOP and CUMULATE: bounds are multiples of the step, plus the offset."""
    window = node.window
    at, step = tree.column("at_ms", "i"), tree.column("step", "n")
    size, slide = tree.number(window.size_ms), tree.number(window.slide_ms)
    timed = _timed(node, source, engine)
    columns = _columns(node)
    if window.kind is WindowKind.TUMBLE:
        start = _floor(at, window.size_ms, window.offset_ms)
        end = tree.operate(exp.Add, start, size)
        bounds = [tree.alias(start, "start_ms"), tree.alias(end, "end_ms")]
        return tree.select([*columns, *bounds], tree.subquery(timed, "i"))
    if window.kind is WindowKind.HOP:
        last = _floor(at, window.slide_ms, window.offset_ms)
        start = tree.operate(exp.Sub, last, tree.operate(exp.Mul, step, slide))
        end = tree.operate(exp.Add, start, size)
    else:
        start = _floor(at, window.size_ms, window.offset_ms)
        count = tree.operate(exp.Add, step, tree.number(1))
        end = tree.operate(exp.Add, start, tree.operate(exp.Mul, count, slide))
    bounds = [tree.alias(at, "at_ms"), tree.alias(start, "start_ms"), tree.alias(end, "end_ms")]
    steps = exp.Join(this=engine.steps(-(-window.size_ms // window.slide_ms)), kind="CROSS")
    rows = tree.select([*columns, *bounds], tree.subquery(timed, "i"), joins=[steps])
    is_within = tree.all_of(
        [
            tree.operate(exp.GTE, at, tree.column("start_ms", "i")),
            tree.operate(exp.LT, at, tree.column("end_ms", "i")),
        ]
    )
    return tree.select_all(rows, where=is_within)


def _timed(node: WindowTvf, source: exp.Expr, engine: EngineDialect) -> exp.Expr:
    columns = [*_columns(node), tree.alias(_local_ms(node, engine), "at_ms")]
    return tree.select(columns, tree.subquery(source, "i"))


def _floor(time: exp.Expr, step: int, offset: int) -> exp.Expr:
    """The last multiple of `step` (plus offset) that is not after `time`, before 1970 too."""
    width = tree.number(step)
    shifted = (
        tree.operate(exp.Sub, time, tree.number(offset))
        if offset >= 0
        else (tree.operate(exp.Add, time, tree.number(-offset)))
    )
    rest = tree.operate(exp.Mod, shifted, width)
    return tree.operate(exp.Sub, time, tree.operate(exp.Mod, tree.operate(exp.Add, rest, width), width))


def _session(node: WindowTvf, source: exp.Expr, engine: EngineDialect) -> exp.Expr:
    """SESSION: two rows are in different sessions only when more than the gap is between them, as in Flink."""
    gap, at = tree.number(node.window.size_ms), tree.column("at_ms", "i")
    keys = [tree.input_column(k) for k in node.partition_keys]
    order = [exp.Ordered(this=at, nulls_first=True)]
    before = tree.over(tree.call("lag", at), keys, order)
    is_far = tree.operate(exp.GT, tree.operate(exp.Sub, at, before), gap)
    is_first = tree.case(
        [(tree.call("coalesce", is_far, tree.boolean(True)), tree.number(1))], tree.number(0)
    )
    marked = tree.select(
        [exp.Star(), tree.alias(is_first, "is_first")], tree.subquery(_timed(node, source, engine), "i")
    )
    number = tree.over(tree.call("sum", tree.column("is_first", "i")), keys, order)
    numbered = tree.select([exp.Star(), tree.alias(number, "session")], tree.subquery(marked, "i"))
    partition = [*keys, tree.column("session", "i")]
    start = tree.over(tree.call("min", at), partition)
    end = tree.operate(exp.Add, tree.over(tree.call("max", at), partition), gap)
    columns = [*_columns(node), tree.alias(start, "start_ms"), tree.alias(end, "end_ms")]
    return tree.select(columns, tree.subquery(numbered, "i"))
