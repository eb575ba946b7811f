"""Functions OVER (PARTITION BY … ORDER BY … frame): columns appended below the SELECT list."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Expression, InputRef, SortKey, references
from sqlstream.function_ref import FunctionKind, FunctionRef
from sqlstream.functions import AGGREGATE_FUNCTIONS
from sqlstream.functions.placed import OVER_FUNCTIONS
from sqlstream.functions.user import aggregate_signature
from sqlstream.planner.bind.expressions.calls import check_argument_count, resolve_types
from sqlstream.planner.bind.expressions.casts import (
    cast_to,
    field_orders,
    plain,
    require_group_key,
    require_key,
    require_order,
)
from sqlstream.planner.bind.expressions.literals import bind_literal
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.expressions.user_functions import user_function
from sqlstream.planner.dialect import nodes
from sqlstream.planner.relational.nodes import Project, RelationalNode, Window
from sqlstream.schema import Field, Schema
from sqlstream.specs.over import (
    NEIGHBOURS,
    RANKING,
    RUNNING,
    WHOLE_PARTITION,
    WHOLE_PARTITION_RANKING,
    Frame,
    OverCall,
)
from sqlstream.types import LogicalType, TypeRoot

_RANKS: dict[str, LogicalType] = {
    **dict.fromkeys(RANKING, sql.BIGINT.not_null()),
    "NTILE": sql.INT.not_null(),
    "CUME_DIST": sql.DOUBLE.not_null(),
    "PERCENT_RANK": sql.DOUBLE.not_null(),
}
ROWS_MAX = 1_000_000
"""The largest offset of LAG and LEAD, n of NTH_VALUE and number of buckets of NTILE."""


@dataclasses.dataclass(frozen=True)
class _Bound:
    """One call whose columns are still expressions. `is_apart`: it gets a node of its own, so that a filter on it can be a
    Top-N."""

    partition: tuple[Expression, ...]
    sorted_by: tuple[tuple[Expression, bool, bool], ...]
    function: str
    args: tuple[Expression, ...]
    type: LogicalType
    frame: Frame
    is_distinct: bool
    filter: Expression | None
    number: int
    skips_nulls: bool
    ref: FunctionRef | None = None

    @property
    def is_apart(self) -> bool:
        return self.function in RANKING

    def expressions(self) -> list[Expression]:
        extra = [] if self.filter is None else [self.filter]
        return [*self.partition, *(e for e, _, _ in self.sorted_by), *self.args, *extra]


def over_calls(node: exp.Expr) -> list[nodes.FunctionCall]:
    """The OVER calls anywhere in `node`."""
    check_not_given_up()
    found = nodes.walk_level(node)
    return [n for n in found if isinstance(n, nodes.FunctionCall) and n.args.get("over") is not None]


def add_windows(
    input: RelationalNode, calls: list[nodes.FunctionCall], binder: ScalarBinder
) -> RelationalNode:
    """`input` with one column per distinct call; `binder` receives the map from syntax node to column."""
    bound = [(call, _OverBinder(call, binder).bind()) for call in calls]
    distinct: dict[_Bound, nodes.FunctionCall] = {}
    for call, b in bound:
        distinct.setdefault(b, call)
    assert binder.subqueries is not None
    written = [e for b in distinct for e in b.expressions()]
    wide, indexes = append_columns(*binder.subqueries.attached(input, written, binder.namespace.depth))
    places = iter(indexes)
    found = {b: [next(places) for _ in b.expressions()] for b in distinct}
    columns: dict[_Bound, InputRef] = {}
    node = wide
    for group in _grouped(list(distinct)):
        node = _window(node, group, found, columns, binder.span(distinct[group[0]]))
    for call, b in bound:
        binder.over_columns[id(call)] = columns[b]
    return node


def _grouped(calls: list[_Bound]) -> list[list[_Bound]]:
    """The calls of each node: those over the same partitions and order, then each rank."""
    groups: dict[object, list[_Bound]] = {}
    for call in sorted(calls, key=lambda c: c.is_apart):
        key = call if call.is_apart else (call.partition, call.sorted_by)
        groups.setdefault(key, []).append(call)
    return list(groups.values())


def _window(
    node: RelationalNode,
    group: list[_Bound],
    found: dict[_Bound, list[int]],
    columns: dict[_Bound, InputRef],
    span: Span | None,
) -> Window:
    first = group[0]
    places, keys = found[first], len(first.partition)
    order = {
        place: SortKey(place, desc, nulls_first)
        for place, (_, desc, nulls_first) in reversed(list(zip(places[keys:], first.sorted_by, strict=False)))
    }
    calls, fields = [], list(node.schema.fields)
    for call in group:
        own = found[call][keys + len(call.sorted_by) :]
        args = tuple(own[: len(call.args)])
        filtered = own[-1] if call.filter is not None else -1
        calls.append(
            OverCall(
                call.function,
                args,
                call.type,
                call.frame,
                call.is_distinct,
                filtered,
                call.number,
                call.skips_nulls,
                call.ref,
            )
        )
        columns[call] = InputRef(len(fields), call.type)
        fields.append(Field(f"{call.function}${len(columns)}", call.type))
    return Window(
        input=node,
        partition_keys=tuple(dict.fromkeys(places[:keys])),
        order=tuple(reversed(order.values())),
        calls=tuple(calls),
        schema=Schema(tuple(fields)),
        span=span,
    )


def append_columns(node: RelationalNode, expressions: list[Expression]) -> tuple[RelationalNode, list[int]]:
    """`node` with a further column per expression that is not one of its columns, and the column of each expression."""
    passed: list[Expression] = [*references(node.schema.types)]
    fields = list(node.schema.fields)
    indexes = []
    for expression in expressions:
        if isinstance(expression, InputRef):
            indexes.append(expression.index)
            continue
        if expression not in passed:
            passed.append(expression)
            fields.append(Field(f"$f{len(fields)}", expression.type))
        indexes.append(passed.index(expression))
    if len(fields) > len(node.schema):
        node = Project(input=node, expressions=tuple(passed), schema=Schema(tuple(fields)), span=node.span)
    return node, indexes


class _OverBinder:
    """Binds one call. No state but the call."""

    def __init__(self, call: nodes.FunctionCall, binder: ScalarBinder) -> None:
        self.call, self.binder = call, binder
        self.name, self.over = str(call.this), call.args["over"]
        self.span = binder.span(call)
        user = user_function(call, binder.namespace)
        if user is not None and user.ref.kind is not FunctionKind.AGGREGATE:
            hint = "leave out OVER" if user.ref.kind is FunctionKind.SCALAR else ""
            message = f"{user.path.name} takes no OVER: it is no aggregate"
            raise UserError("SS2006", message, span=self.span, hint=hint)
        self.ref = None if user is None else user.ref
        if self.ref is not None:
            # A user's function may have the name of a built-in one.
            self.name = self.ref.name

    def bind(self) -> _Bound:
        binder, over = self.binder, self.over
        if self.ref is None and self.name not in OVER_FUNCTIONS and self.name not in AGGREGATE_FUNCTIONS:
            raise UserError(
                "SS3001",
                f"{self.name}() OVER is not supported yet",
                span=self.span,
                hint="OVER takes aggregate functions, ranks, LAG, LEAD and NTH_VALUE",
            )
        if self.call.args.get("order") is not None:
            hint = "order the rows of the frame by the ORDER BY of OVER"
            raise UserError("SS3461", "OVER takes no WITHIN GROUP (ORDER BY …)", span=self.span, hint=hint)
        keys, ordered = over.args.get("partition_by") or (), over.args.get("order_by") or ()
        partition = tuple(require_group_key(binder.bind(e), "PARTITION BY", binder.span(e)) for e in keys)
        sorted_by = tuple(
            by
            for o in ordered
            for by in field_orders(
                (
                    require_order(binder.bind(o.this), binder.span(o.this)),
                    bool(o.args.get("desc")),
                    bool(o.args.get("nulls_first")),
                )
            )
        )
        args, result, number = self._arguments()
        frame = RUNNING
        if self._takes_no_frame:
            self._check_without_frame(bool(sorted_by))
        else:
            frame = bind_frame(over, [e for e, _, _ in sorted_by], binder)
        condition = self.call.args.get("filter")
        return _Bound(
            partition,
            sorted_by,
            self.name,
            args,
            result,
            frame,
            bool(self.call.args.get("is_distinct")),
            binder.bind_condition(condition) if condition is not None else None,
            number,
            self._skips_nulls(),
            self.ref,
        )

    @property
    def _takes_no_frame(self) -> bool:
        return self.name in RANKING | WHOLE_PARTITION_RANKING | NEIGHBOURS

    def _check_without_frame(self, is_sorted: bool) -> None:
        place = self.binder.span(self.over) or self.span
        if not is_sorted:
            raise UserError(
                "SS3004",
                f"{self.name}() needs an ORDER BY in its OVER",
                span=place,
                hint=f"write {OVER_FUNCTIONS[self.name].form}",
            )
        if self.over.args.get("frame") is not None:
            hint = f"write {OVER_FUNCTIONS[self.name].form}, in a window without ROWS or RANGE"
            raise UserError("SS3004", f"{self.name}() takes no frame", span=place, hint=hint)

    def _usage(self) -> str:
        return OVER_FUNCTIONS[self.name].usage if self.name in OVER_FUNCTIONS else f"{self.name}()"

    def _skips_nulls(self) -> bool:
        written = self.call.args.get("nulls")
        can_skip = self.name in NEIGHBOURS or self.name in ("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE")
        if written is not None and not can_skip:
            raise UserError("SS2006", f"{self.name} takes no {written} NULLS", span=self.span)
        if written is None:
            return self.name in ("FIRST_VALUE", "LAST_VALUE")
        return str(written) == "IGNORE"

    def _arguments(self) -> tuple[tuple[Expression, ...], LogicalType, int]:
        """The arguments, the type of the result, and the number among them."""
        written = self.call.expressions
        if self.name in OVER_FUNCTIONS:
            for clause, text in (("is_distinct", "DISTINCT"), ("filter", "FILTER")):
                if self.call.args.get(clause):
                    raise UserError(
                        "SS2006", f"{self.name} takes no {text}: it is no aggregate", span=self.span
                    )
        if self.name in _RANKS and self.name != "NTILE":
            if written:
                raise UserError("SS2006", f"{self.name} takes no arguments", span=self.span)
            return (), _RANKS[self.name], 0
        if self.name == "NTILE":
            self._check_count(1, 1)
            return (), _RANKS["NTILE"], self._number(written[0], 1)
        if self.name in (*NEIGHBOURS, "NTH_VALUE"):
            return self._neighbour(written)
        return self._aggregate(written)

    def _neighbour(self, written: list[exp.Expr]) -> tuple[tuple[Expression, ...], LogicalType, int]:
        is_nth = self.name == "NTH_VALUE"
        self._check_count(2 if is_nth else 1, 2 if is_nth else 3)
        value = self.binder.bind(written[0])
        number = self._number(written[1], int(is_nth)) if len(written) > 1 else 1
        result = value.type.without_time_attribute().with_nullable(True)
        if len(written) < 3:
            return (value,), result, number
        default = cast_to(self.binder.bind(written[2]), result, self.binder.span(written[2]))
        return (value, default), result, number

    def _aggregate(self, written: list[exp.Expr]) -> tuple[tuple[Expression, ...], LogicalType, int]:
        function = AGGREGATE_FUNCTIONS[self.name] if self.ref is None else aggregate_signature(self.ref)
        is_star = self.name == "COUNT" and len(written) == 1 and isinstance(written[0], exp.Star)
        is_distinct = bool(self.call.args.get("is_distinct"))
        written = [] if is_star else written
        if is_star and is_distinct:
            raise UserError("SS2006", "COUNT(DISTINCT *) does not exist", span=self.span)
        if self.name == "COUNT" and not written and not is_star:
            raise UserError(
                "SS2006", "COUNT takes * or an argument", span=self.span, hint=f"write {function.usage}"
            )
        args = tuple(self.binder.bind(a) for a in written)
        check_argument_count(function, len(args), self.span)
        if is_distinct:
            for arg, node in zip(args, written, strict=True):
                require_key(arg, f"{self.name}(DISTINCT …)", self.binder.span(node))
        result, wanted = resolve_types(function, args, self.span)
        return tuple(cast_to(a, t, self.span) for a, t in zip(args, wanted, strict=True)), result, 0

    def _check_count(self, least: int, most: int) -> None:
        count = len(self.call.expressions)
        if not least <= count <= most:
            takes = f"{least}" if least == most else f"{least} to {most}"
            plural = "" if most == 1 else "s"
            message = f"{self.name} takes {takes} argument{plural}, not {count}"
            raise UserError("SS2006", message, span=self.span, hint=f"write {self._usage()}")

    def _number(self, node: exp.Expr, least: int) -> int:
        value = constant_count(node, self.binder)
        if value is None or not least <= value <= ROWS_MAX:
            raise UserError(
                "SS2006",
                f"{self.name} takes a constant from {least} to {ROWS_MAX} here",
                span=self.binder.span(node) or self.span,
                hint=f"write {self._usage()}",
            )
        return value


# The frame of an OVER.


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
