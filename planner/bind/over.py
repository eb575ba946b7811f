"""Functions OVER (PARTITION BY … ORDER BY … frame): columns appended below the SELECT list."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Expression, InputRef, SortKey
from sqlstream.function_ref import FunctionKind, FunctionRef
from sqlstream.functions import AGGREGATE_FUNCTIONS
from sqlstream.functions.user import aggregate_signature
from sqlstream.planner.bind.calls import check_argument_count, resolve_types
from sqlstream.planner.bind.casts import cast_to
from sqlstream.planner.bind.comparable import field_orders, require_group_key, require_key, require_order
from sqlstream.planner.bind.frames import bind_frame, constant_count
from sqlstream.planner.bind.scalar import ScalarBinder
from sqlstream.planner.bind.user_functions import user_function
from sqlstream.planner.dialect import nodes
from sqlstream.planner.relational.nodes import Project, RelationalNode, Window
from sqlstream.schema import Field, Schema
from sqlstream.specs.over import NEIGHBOURS, RANKING, RUNNING, WHOLE_PARTITION_RANKING, Frame, OverCall
from sqlstream.types import LogicalType

_RANKS: dict[str, LogicalType] = {
    **dict.fromkeys(RANKING, sql.BIGINT.not_null()),
    "NTILE": sql.INT.not_null(),
    "CUME_DIST": sql.DOUBLE.not_null(),
    "PERCENT_RANK": sql.DOUBLE.not_null(),
}
_USAGE = {
    "NTILE": "NTILE(buckets)",
    "LAG": "LAG(value[, offset[, default]])",
    "LEAD": "LEAD(value[, offset[, default]])",
    "NTH_VALUE": "NTH_VALUE(value, n)",
}
ROWS_MAX = 1_000_000
"""The largest offset of LAG and LEAD, n of NTH_VALUE and number of buckets of NTILE."""

WINDOW_FUNCTIONS = frozenset((*_RANKS, *_USAGE))
"""Functions that are called with OVER only."""


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
    passed: list[Expression] = [InputRef(i, t) for i, t in enumerate(node.schema.types)]
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
        if self.ref is None and self.name not in WINDOW_FUNCTIONS and self.name not in AGGREGATE_FUNCTIONS:
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
                hint=f"write {self._usage()} OVER (PARTITION BY key ORDER BY column)",
            )
        if self.over.args.get("frame") is not None:
            hint = f"write {self._usage()} OVER (PARTITION BY key ORDER BY column), in a window without ROWS or RANGE"
            raise UserError("SS3004", f"{self.name}() takes no frame", span=place, hint=hint)

    def _usage(self) -> str:
        return _USAGE.get(self.name, f"{self.name}()")

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
        if self.name in WINDOW_FUNCTIONS:
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
        if self.name in _USAGE:
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
