"""GROUP BY with GROUPING SETS, CUBE and ROLLUP, as the sets of its keys."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

from sqlglot import exp

from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import UserError
from sqlstream.expressions import Expression, InputRef, Literal, references
from sqlstream.planner.bind.expressions.calls import bind_call
from sqlstream.planner.bind.expressions.literals import bind_literal
from sqlstream.planner.bind.expressions.over import append_columns
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.relations.windows import window_fields, window_spec
from sqlstream.planner.bind.scope import Namespace, Scope
from sqlstream.planner.dialect import nodes
from sqlstream.planner.relational.nodes import RelationalNode, WindowTvf
from sqlstream.schema import Schema
from sqlstream.specs.window import WindowKind, WindowSpec
from sqlstream.types import BIGINT, INT, LogicalType, TimeAttribute

SETS_MAX = 1024
ARGUMENTS_MAX = 62
"""Bits of a BIGINT that is never negative."""

GROUPING_FUNCTIONS = frozenset({"GROUPING", "GROUPING_ID", "GROUP_ID"})
_SETS = (exp.GroupingSets, exp.Rollup, exp.Cube)

Set = tuple[exp.Expr, ...]


def key_sets(items: Sequence[exp.Expr], namespace: Namespace) -> list[Set]:
    """The sets of keys, as written: one for a plain GROUP BY; those of several items are combined, each with each. UserError
    SS3441 for too many."""
    return _combined([_sets_of(item, namespace) for item in items], items, namespace)


def is_grouping_call(node: exp.Expr) -> bool:
    return isinstance(node, nodes.FunctionCall) and str(node.this) in GROUPING_FUNCTIONS


def grouping_value(
    function: str, places: Sequence[int], sets: Sequence[frozenset[int]], number: InputRef | None
) -> Expression:
    """The value of a function over the keys at `places`, where column `number` holds the set of a row. GROUPING, GROUPING_ID: a
    bit for each key, the last one lowest, 1 where the set leaves it out. GROUP_ID: how often the same set came before."""
    if function == "GROUP_ID":
        values = [list(sets[:i]).count(kept) for i, kept in enumerate(sets)]
    else:
        values = [sum((p not in s) << i for i, p in enumerate(reversed(places))) for s in sets]
    type_ = BIGINT.not_null()
    if number is None or len(set(values)) == 1:
        return Literal(values[0], type_)
    args: list[Expression] = []
    for value in sorted(set(values))[1:]:
        tests = [
            bind_call("=", (number, Literal(i, INT.not_null())), None)
            for i, found in enumerate(values)
            if found == value
        ]
        args += [tests[0] if len(tests) == 1 else bind_call("OR", tuple(tests), None), Literal(value, type_)]
    return bind_call("CASE", (*args, Literal(min(values), type_)), None)


def check_grouping_call(node: nodes.FunctionCall, namespace: Namespace) -> None:
    """UserError SS2006 for a wrong number of arguments."""
    name, count = str(node.this), len(node.expressions)
    if name == "GROUP_ID":
        if count:
            raise UserError("SS2006", "GROUP_ID takes no arguments", span=namespace.span(node))
    elif not 1 <= count <= ARGUMENTS_MAX:
        raise UserError(
            "SS2006",
            f"{name} takes 1 to {ARGUMENTS_MAX} keys of GROUP BY, not {count}",
            span=namespace.span(node),
            hint=f"write {name}(key, …)",
        )


def nullable_key(type_: LogicalType, is_left_out: bool) -> LogicalType:
    """The type of a key column, which is NULL in the rows of sets that leave it out."""
    return type_.with_nullable(True) if is_left_out else type_


def _sets_of(item: exp.Expr, namespace: Namespace) -> list[Set]:
    check_not_given_up()
    if isinstance(item, exp.GroupingSets):
        return [s for part in item.expressions for s in _sets_of(part, namespace)]
    if isinstance(item, exp.Rollup | exp.Cube):
        elements = [_set_of(part, namespace) for part in item.expressions]
        if isinstance(item, exp.Rollup):
            return [_joined(elements[:count]) for count in range(len(elements), -1, -1)]
        _check_count(2 ** len(elements), item, namespace)
        counts = range(len(elements), -1, -1)
        return [_joined(chosen) for n in counts for chosen in itertools.combinations(elements, n)]
    if _is_list(item):
        return _combined(
            [_sets_of(part, namespace) for part in item.expressions], item.expressions, namespace
        )
    return [(item,)]


def _set_of(item: exp.Expr, namespace: Namespace) -> Set:
    """An element of ROLLUP or CUBE: a key or several in parentheses."""
    for part in item.walk():
        if isinstance(part, _SETS):
            hint = "write GROUPING SETS (…) around both"
            raise UserError("SS3441", "ROLLUP and CUBE take keys", span=namespace.span(part), hint=hint)
    return tuple(_flat([item]))


def _flat(items: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    """GROUP BY (a, b), c is GROUP BY a, b, c, and () adds nothing."""
    for item in items:
        if _is_list(item):
            yield from _flat(item.expressions)
        else:
            yield item


def _is_list(item: exp.Expr) -> bool:
    is_row = isinstance(item, nodes.FunctionCall) and str(item.this) == "ROW"
    return is_row or isinstance(item, exp.Tuple)


def _joined(parts: Sequence[Set]) -> Set:
    return tuple(key for part in parts for key in part)


def _combined(factors: list[list[Set]], items: Sequence[exp.Expr], namespace: Namespace) -> list[Set]:
    """One of each factor, in all ways."""
    _check_count(math.prod(len(f) for f in factors), items[0] if items else None, namespace)
    return [_joined(chosen) for chosen in itertools.product(*factors)]


def _check_count(count: int, item: exp.Expr | None, namespace: Namespace) -> None:
    if count > SETS_MAX:
        raise UserError(
            "SS3441",
            f"GROUP BY has {count} grouping sets, and {SETS_MAX} are possible",
            span=namespace.span(item),
            hint="list the sets that are needed with GROUPING SETS (…)",
        )


# Group windows, GROUP BY TUMBLE(time, size), as a window function below the aggregation, and functions like
# TUMBLE_START.


_ARGUMENTS = {
    "TUMBLE": ("size", "offset"),
    "HOP": ("slide", "size", "offset"),
    "SESSION": ("gap",),
}
"""The arguments after the time, in order."""

_COLUMNS = {"START": 0, "END": 1, "ROWTIME": 2, "PROCTIME": 2}
_USAGE = {
    "TUMBLE": "TUMBLE(time, INTERVAL '10' MINUTE)",
    "HOP": "HOP(time, INTERVAL '1' MINUTE, INTERVAL '10' MINUTE), the slide before the size",
    "SESSION": "SESSION(time, INTERVAL '10' MINUTE)",
}


@dataclasses.dataclass(frozen=True)
class GroupWindow:
    """The window of a GROUP BY: `time` is its time attribute, `node` appends the columns window_start, window_end and
    window_time to its input."""

    time: Expression
    window: WindowSpec
    node: WindowTvf

    @property
    def columns(self) -> tuple[InputRef, InputRef, InputRef]:
        width, types = len(self.node.input.schema), self.node.schema.types
        start, end, time = (InputRef(i, types[i]) for i in range(width, width + 3))
        return start, end, time

    def column_of(self, call: nodes.FunctionCall, namespace: Namespace, scope: Scope) -> InputRef:
        """The column that an auxiliary function such as TUMBLE_START names. UserError SS3440 when its arguments are not those
        of the window, or when it is not one of this kind of time."""
        kind, suffix = _name_parts(call)
        span = namespace.span(call)
        wanted = self.window.kind.value
        if not suffix:
            hint = f"select {kind}_START(…), {kind}_END(…) or {kind}_ROWTIME(…)"
            raise UserError("SS3440", f"{kind} has no value outside of GROUP BY", span=span, hint=hint)
        time, window = _read_window(call, kind, namespace, scope)
        if kind != wanted or time != self.time or window != self.window:
            raise UserError(
                "SS3440",
                f"{call.this} names another window than GROUP BY",
                span=span,
                hint=f"repeat the arguments of {wanted} in GROUP BY as they are",
            )
        if suffix in ("ROWTIME", "PROCTIME") and (suffix == "ROWTIME") != self.window.is_event_time:
            other = f"{kind}_{'ROWTIME' if self.window.is_event_time else 'PROCTIME'}"
            detail = "event time" if self.window.is_event_time else "processing time"
            raise UserError(
                "SS3440", f"{call.this} of a window over {detail}", span=span, hint=f"write {other}"
            )
        return self.columns[_COLUMNS[suffix]]


def is_group_window(node: exp.Expr) -> bool:
    """Whether the node is TUMBLE(…), HOP(…) or SESSION(…), with or without a suffix such as _START."""
    if not isinstance(node, nodes.FunctionCall):
        return False
    kind, suffix = _name_parts(node)
    return kind in _ARGUMENTS and (not suffix or suffix in _COLUMNS)


def takes_group_window(node: exp.Expr) -> bool:
    """Whether the node is TUMBLE(…), HOP(…) or SESSION(…), an item of GROUP BY."""
    return is_group_window(node) and not _name_parts(node)[1]


def bind_group_window(
    call: nodes.FunctionCall,
    keys: tuple[Expression, ...],
    input: RelationalNode,
    scope: Scope,
    namespace: Namespace,
) -> tuple[GroupWindow, tuple[InputRef, ...]]:
    """The window over `input`, and the columns that hold `keys`, by which SESSION is partitioned."""
    kind, _ = _name_parts(call)
    time, window = _read_window(call, kind, namespace, scope)
    widened, places = append_columns(input, [time, *keys])
    columns = references(widened.schema.types, places)
    partition = tuple(dict.fromkeys(places[1:])) if window.kind is WindowKind.SESSION else ()
    schema = Schema(widened.schema.fields + window_fields(time.type))
    node = WindowTvf(
        input=widened,
        window=window,
        time_column=places[0],
        partition_keys=partition,
        schema=schema,
        span=namespace.span(call),
    )
    return GroupWindow(time, window, node), columns[1:]


def _name_parts(node: exp.Expr) -> tuple[str, str]:
    """("HOP", "START") of HOP_START(…)."""
    kind, _, suffix = str(node.this).partition("_")
    return kind, suffix


def _read_window(
    call: nodes.FunctionCall, kind: str, namespace: Namespace, scope: Scope
) -> tuple[Expression, WindowSpec]:
    """The time attribute and the window of a call. UserError SS3002 where they are no such."""
    span, names = namespace.span(call), _ARGUMENTS[kind]
    counts = range(2 + (kind == "HOP"), len(names) + 2)
    if len(call.expressions) not in counts:
        raise UserError(
            "SS2006", f"{kind} takes a time, {_counted(names)}", span=span, hint=f"write {_USAGE[kind]}"
        )
    time = ScalarBinder(namespace, scope, str(call.this)).bind(call.expressions[0])
    if time.type.time_attribute is TimeAttribute.NONE:
        attributes = [c.name for c in scope.columns if c.type.time_attribute is not TimeAttribute.NONE]
        hint = (
            f"the time attributes are {', '.join(dict.fromkeys(attributes))}"
            if attributes
            else "declare a WATERMARK in the table, or add a column AS PROCTIME()"
        )
        plain = time.type.with_nullable(True)
        message = f"{call.this} needs a time attribute, but this is a plain {plain}"
        raise UserError("SS3002", message, span=namespace.span(call.expressions[0]), hint=hint)
    sizes = dict(zip(names, call.expressions[1:], strict=False))
    for name, written in sizes.items():
        if bind_literal(written, namespace.span(written)) is None:
            raise UserError(
                "SS3002",
                f"the {name} of {kind} must be an interval literal",
                span=namespace.span(written),
                hint=f"write {_USAGE[kind]}",
            )
    return time, window_spec(kind, sizes, span, namespace, time.type, divides=False)


def _counted(names: tuple[str, ...]) -> str:
    required = ", ".join(f"a {n}" for n in names if n != "offset")
    return required + (" and possibly an offset" if "offset" in names else "")
