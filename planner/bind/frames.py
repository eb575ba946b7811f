"""The frame of an OVER."""

from __future__ import annotations

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Expression
from sqlstream.planner.bind.casts import plain
from sqlstream.planner.bind.literals import bind_literal
from sqlstream.planner.bind.scalar import ScalarBinder
from sqlstream.planner.dialect import nodes
from sqlstream.specs.over import RUNNING, WHOLE_PARTITION, Frame
from sqlstream.types import LogicalType, TypeRoot

_DAY_MS = 86_400_000
_FRAME = "SS3400"


def bind_frame(over: nodes.OverClause, sorted_by: list[Expression], binder: ScalarBinder) -> Frame:
    """The frame that is written, or that of SQL: up to the peers of the current row, without an order the whole partition."""
    kind = over.args.get("frame")
    if kind is None:
        return RUNNING if sorted_by else WHOLE_PARTITION
    span = binder.span(over)
    is_range = kind == "RANGE"
    if not is_range and not sorted_by:
        raise UserError(_FRAME, "a ROWS frame needs an ORDER BY", span=span, hint="add ORDER BY to the OVER")
    written = over.args["start"], over.args["end"]
    start, end = (_offset(bound, is_range, sorted_by, binder) for bound in written)
    if start is None and written[0].args["kind"] == "FOLLOWING":
        raise UserError(_FRAME, "a frame cannot begin with UNBOUNDED FOLLOWING", span=binder.span(written[0]))
    if end is None and written[1].args["kind"] == "PRECEDING":
        raise UserError(_FRAME, "a frame cannot end with UNBOUNDED PRECEDING", span=binder.span(written[1]))
    if start is not None and end is not None and start > end:
        hint = "write the earlier bound first, such as BETWEEN 2 PRECEDING AND CURRENT ROW"
        raise UserError(_FRAME, "the frame ends before it begins", span=span, hint=hint)
    return Frame(is_range, start, end)


def _offset(
    bound: nodes.FrameBound, is_range: bool, sorted_by: list[Expression], binder: ScalarBinder
) -> int | float | None:
    """Relative to the current row; None is UNBOUNDED."""
    if bound.args["kind"] == "CURRENT ROW":
        return 0
    if bound.args.get("this") is None:
        return None
    span = binder.span(bound)
    size = (
        _range_size(bound.this, sorted_by, span, binder) if is_range else _row_count(bound.this, span, binder)
    )
    return -size if bound.args["kind"] == "PRECEDING" else size


def _row_count(node: exp.Expr, span: Span | None, binder: ScalarBinder) -> int:
    count = constant_count(node, binder)
    if count is None:
        raise UserError(
            _FRAME,
            "the bound of a ROWS frame is a whole number of rows",
            span=span,
            hint="write 10 PRECEDING",
        )
    return count


def constant_count(node: exp.Expr, binder: ScalarBinder) -> int | None:
    """The whole number, 0 or more, that is written; None for anything else."""
    literal = bind_literal(node, binder.span(node))
    value = None if literal is None else literal.value
    is_count = isinstance(value, int) and not isinstance(value, bool) and literal is not None
    if not is_count or not sql.is_integer(literal.type) or value < 0:  # type: ignore[union-attr,operator]
        return None
    return int(value)  # type: ignore[arg-type]


def _range_size(
    node: exp.Expr, sorted_by: list[Expression], span: Span | None, binder: ScalarBinder
) -> int | float:
    if len(sorted_by) != 1:
        raise UserError(
            _FRAME,
            "a RANGE of values needs exactly one ORDER BY expression",
            span=span,
            hint="use ROWS, or order by one column",
        )
    t = sorted_by[0].type
    literal = bind_literal(node, span)
    value = None if literal is None else literal.value
    if literal is None or value is None or isinstance(value, bool):
        raise UserError(_FRAME, "the bound of a RANGE frame is a constant", span=span, hint=_range_hint(t))
    size: int | float | None = None
    if literal.type.root is TypeRoot.INTERVAL_DAY_TIME and isinstance(value, int):
        is_time = sql.is_timestamp(t) or t.root is TypeRoot.TIME
        size = value if is_time or (t.root is TypeRoot.DATE and value % _DAY_MS == 0) else None
    elif sql.is_integer(literal.type) and isinstance(value, int):
        size = value if sql.is_integer(t) or t.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE) else None
    elif sql.is_numeric(literal.type) and t.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        size = float(value)
    if size is None or size < 0:
        message = f"{plain(literal.type)} is no bound of a RANGE over {plain(t)}"
        if size is not None:
            message = "the bound of a frame is not negative"
        raise UserError(_FRAME, message, span=span, hint=_range_hint(t))
    return size


def _range_hint(t: LogicalType) -> str:
    if t.root is TypeRoot.DATE:
        return "write whole days, such as INTERVAL '7' DAY PRECEDING"
    if sql.is_timestamp(t) or t.root is TypeRoot.TIME:
        return "write an interval of days or less, such as INTERVAL '1' HOUR PRECEDING"
    if sql.is_numeric(t) and t.root is not TypeRoot.DECIMAL:
        return "write a number, such as 10 PRECEDING"
    return "order by a time or a number that is no DECIMAL, or CAST it, or use ROWS"
