"""Group windows, GROUP BY TUMBLE(time, size), as a window function below the aggregation, and functions like TUMBLE_START."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from sqlstream.errors import UserError
from sqlstream.expressions import Expression, InputRef
from sqlstream.planner.bind.literals import bind_literal
from sqlstream.planner.bind.namespace import Namespace
from sqlstream.planner.bind.over import append_columns
from sqlstream.planner.bind.scalar import ScalarBinder
from sqlstream.planner.bind.scope import Scope
from sqlstream.planner.bind.windows import window_fields, window_spec
from sqlstream.planner.dialect import nodes
from sqlstream.planner.relational.nodes import RelationalNode, WindowTvf
from sqlstream.schema import Schema
from sqlstream.specs.window import WindowKind, WindowSpec
from sqlstream.types import TimeAttribute

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
    columns = tuple(InputRef(p, widened.schema.types[p]) for p in places)
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
