"""The limits of an operator's keys: at most 64 columns, none of them an ARRAY, a MAP or a ROW."""

from __future__ import annotations

from planner.physical.node import PhysicalInput
from sqlstream.errors import Span, UserError
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.schema import Schema
from sqlstream.specs import (
    GroupAggregateSpec,
    JoinSpec,
    LookupJoinSpec,
    OverSpec,
    OverTiming,
    RankSpec,
    SortSpec,
    Spec,
    WindowAggregateSpec,
    WindowKind,
    WindowTvfSpec,
)
from sqlstream.types import CONSTRUCTED_ROOTS, LogicalType

KEY_COLUMNS_MAX = 64
_SIMPLE = "group, join or distribute by columns of simple types"


def check_keys(spec: Spec | None, inputs: tuple[PhysicalInput, ...], span: Span | None) -> None:
    """UserError SS3090 for a key that the operator cannot keep."""
    for physical_input in inputs:
        if physical_input.exchange.kind is ExchangeKind.HASH:
            _check(physical_input.node.schema, physical_input.exchange.keys, "a key", _SIMPLE, span)
    match spec:
        case GroupAggregateSpec() | WindowAggregateSpec():
            for call in spec.aggregates:
                if call.is_distinct:
                    _check_count(call.args, f"an argument of {call.function}(DISTINCT …)", span)
        case WindowTvfSpec() if (
            spec.window.kind is WindowKind.SESSION and not inputs[0].node.traits.is_insert_only
        ):
            _check_width(inputs[0].node.schema, span)
        case LookupJoinSpec():
            _check(inputs[0].node.schema, spec.left_keys, "a lookup key", _SIMPLE, span)
        case OverSpec() | SortSpec() | JoinSpec() | RankSpec():
            # Rows that are retracted are found by the encodings of all their values, whatever their types.
            is_updated = isinstance(spec, OverSpec) and spec.timing is OverTiming.ON_CHANGE
            for physical_input in inputs:
                if is_updated or not physical_input.node.traits.is_insert_only:
                    _check_width(physical_input.node.schema, span)


def _check_count(columns: tuple[int, ...], what: str, span: Span | None) -> None:
    if len(columns) > KEY_COLUMNS_MAX:
        message = f"{what} has {len(columns)} columns, more than {KEY_COLUMNS_MAX}"
        raise UserError("SS3090", message, span=span, hint="use fewer columns")


def _check(schema: Schema, columns: tuple[int, ...], what: str, hint: str, span: Span | None) -> None:
    _check_count(columns, what, span)
    for column in columns:
        field = schema.fields[column]
        if field.type.root in CONSTRUCTED_ROOTS:
            message = f"a value of type {shown(field.type)} cannot be {what}"
            raise UserError("SS3090", message, span=span, hint=hint)


def _check_width(schema: Schema, span: Span | None) -> None:
    if len(schema) > KEY_COLUMNS_MAX:
        message = f"a row that is updated has {len(schema)} columns, more than {KEY_COLUMNS_MAX}"
        raise UserError("SS3090", message, span=span, hint="leave out columns that are not needed")


def shown(t: LogicalType) -> str:
    return str(t.without_time_attribute().with_nullable(True))
