"""Window table-valued functions: TUMBLE, HOP, CUMULATE and SESSION over a time attribute."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream import config
from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Expression, InputRef, Literal, references
from sqlstream.planner.bind.context import suggest
from sqlstream.planner.bind.expressions.casts import cast_to, require_key
from sqlstream.planner.bind.expressions.literals import bind_literal
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.scope import FromItem, Namespace, Scope
from sqlstream.planner.dialect import nodes
from sqlstream.planner.relational.nodes import Project, Watermark, WindowTvf
from sqlstream.schema import Field, Schema
from sqlstream.specs.window import WindowKind, WindowSpec
from sqlstream.types import ROWTIME_PRECISION_MAX, LogicalType, TimeAttribute, TypeRoot


def bind_window_tvf(node: nodes.WindowTvf, input: FromItem, namespace: Namespace) -> FromItem:
    """`input` with window_start, window_end and window_time appended. UserError SS30xx for an impossible window."""
    binder = ScalarBinder(namespace, input.scope, f"{node.args['kind']}")
    if isinstance(node.this, nodes.FilePath):
        input = _with_event_time(node, input, binder)
    column = _time_column(node, input, binder)
    time_type = input.node.schema.types[column]
    keys = tuple(_column_index(key, binder, is_key=True) for key in node.args.get("partition_by") or ())
    window = window_spec(str(node.args["kind"]), _sizes(node), namespace.span(node), namespace, time_type)
    schema = Schema(input.node.schema.fields + window_fields(time_type))
    tvf = WindowTvf(
        input=input.node,
        window=window,
        time_column=column,
        partition_keys=keys,
        schema=schema,
        span=namespace.span(node),
    )
    return FromItem(tvf, Scope.of(schema, input.qualifier))


def _with_event_time(node: nodes.WindowTvf, input: FromItem, binder: ScalarBinder) -> FromItem:
    """Files at a path, whose timestamp is event time for the window: no row of them is late, since their watermark comes with
    their end. Its precision is that of event time."""
    source, span = input.node, binder.span(node)
    column = _column_index(node.args["time_column"], binder)
    given = source.schema.types[column]
    if not sql.is_timestamp(given) or given.time_attribute is not TimeAttribute.NONE:
        return input
    time = LogicalType(
        given.root, nullable=given.nullable, precision=min(given.precision, ROWTIME_PRECISION_MAX)
    )
    columns: list[Expression] = [*references(source.schema.types)]
    columns[column] = cast_to(columns[column], time, span)
    fields = list(source.schema.fields)
    fields[column] = Field(fields[column].name, time)
    rows = Project(input=source, expressions=tuple(columns), schema=Schema(tuple(fields)), span=span)
    fields[column] = Field(fields[column].name, sql.as_rowtime(time))
    schema = Schema(tuple(fields))
    timed = Watermark(
        input=rows,
        column=column,
        expression=Literal(None, time.with_nullable(True)),
        schema=schema,
        span=span,
    )
    return FromItem(timed, Scope.of(schema, input.qualifier))


def window_fields(time_type: LogicalType) -> tuple[Field, ...]:
    boundary = sql.timestamp(3).not_null()
    root = TypeRoot.TIMESTAMP_LTZ if sql.is_proctime(time_type) else time_type.root
    window_time = LogicalType(root, nullable=False, precision=3, time_attribute=time_type.time_attribute)
    return (Field("window_start", boundary), Field("window_end", boundary), Field("window_time", window_time))


def _time_column(node: nodes.WindowTvf, input: FromItem, binder: ScalarBinder) -> int:
    written = node.args["time_column"]
    index = _column_index(written, binder)
    field = input.node.schema.fields[index]
    if field.type.time_attribute is TimeAttribute.NONE:
        attributes = [
            f.name for f in input.node.schema.fields if f.type.time_attribute is not TimeAttribute.NONE
        ]
        hint = (
            suggest(field.name, attributes, "time attributes")
            if attributes
            else f"declare WATERMARK FOR {field.name} AS {field.name} - INTERVAL '5' SECOND in the table,"
            " or add a column AS PROCTIME()"
        )
        raise UserError(
            "SS3002",
            f"{node.args['kind']} needs a time attribute,"
            f' but "{field.name}" is a plain {field.type.with_nullable(True)}',
            span=binder.span(written),
            hint=hint,
        )
    return index


def _column_index(node: exp.Expr, binder: ScalarBinder, is_key: bool = False) -> int:
    bound = binder.bind(node)
    if is_key:
        require_key(bound, "PARTITION BY", binder.span(node))
    if not isinstance(bound, InputRef):
        raise UserError("SS3002", "a window takes columns of its table only", span=binder.span(node))
    return bound.index


def _sizes(node: nodes.WindowTvf) -> dict[str, exp.Expr]:
    names = ("size", "slide", "step", "gap", "offset")
    return {name: node.args[name] for name in names if node.args.get(name) is not None}


def window_spec(
    kind_name: str,
    sizes: Mapping[str, exp.Expr],
    span: Span | None,
    namespace: Namespace,
    time_type: LogicalType,
    divides: bool = True,
) -> WindowSpec:
    """The window of `sizes` (size, slide, step, gap, offset). UserError SS3002 for an impossible one. `divides`: the
    size has to be a multiple of the slide, as in Flink's window functions; its group windows need only cover all rows."""
    kind = WindowKind(kind_name)
    size_name = "gap" if kind is WindowKind.SESSION else "size"
    slide_name = {WindowKind.HOP: "slide", WindowKind.CUMULATE: "step"}.get(kind, "")
    size_ms = _interval_ms(kind, sizes, size_name, span, namespace)
    slide_ms = _interval_ms(kind, sizes, slide_name, span, namespace) if slide_name else 0
    if slide_ms and (size_ms % slide_ms != 0 if divides else size_ms < slide_ms):
        is_no = "is no multiple of" if divides else "is less than"
        wanted = f"a multiple of its {slide_name}" if divides else f"no less than its {slide_name}"
        raise UserError(
            "SS3002",
            f"{kind.value} needs a size that is {wanted}: {size_ms} ms {is_no} {slide_ms} ms",
            span=namespace.span(sizes["size"]),
            hint=f"the {slide_name} comes first, then the size",
        )
    offset = sizes.get("offset")
    return WindowSpec(
        kind,
        size_ms=size_ms,
        slide_ms=slide_ms,
        offset_ms=literal_ms(offset, "the offset of a window", namespace) if offset is not None else 0,
        is_event_time=sql.is_rowtime(time_type),
        time_zone=_time_zone(time_type, namespace),
    )


def _time_zone(time_type: LogicalType, namespace: Namespace) -> str:
    """The zone by whose clock the windows are cut. A TIMESTAMP is local by itself."""
    if time_type.root is not TypeRoot.TIMESTAMP_LTZ:
        return "UTC"
    return str(config.get(namespace.context.config, "table.local-time-zone"))


def _interval_ms(
    kind: WindowKind, sizes: Mapping[str, exp.Expr], name: str, span: Span | None, namespace: Namespace
) -> int:
    written = sizes.get(name)
    if written is None:
        raise UserError("SS3002", f"{kind.value} needs a {name}", span=span)
    value = literal_ms(written, f"the {name} of a window", namespace)
    if value <= 0:
        raise UserError("SS3002", f"the {name} of a window must be positive", span=namespace.span(written))
    return value


def literal_ms(node: exp.Expr, what: str, namespace: Namespace, code: str = "SS3002") -> int:
    """UserError `code` for a value that is no interval literal."""
    span: Span | None = namespace.span(node)
    literal = bind_literal(node, span)
    if literal is None or literal.type.root is not TypeRoot.INTERVAL_DAY_TIME:
        raise UserError(
            code,
            f"{what} must be an interval literal of days to seconds",
            span=span,
            hint="write it as INTERVAL '10' MINUTE",
        )
    assert isinstance(literal.value, int)
    return literal.value
