"""What an operator's keys cannot be: an ARRAY, a MAP or a ROW."""

from __future__ import annotations

from sqlstream.errors import Span, UserError
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.planner.physical.node import PhysicalInput
from sqlstream.schema import Schema
from sqlstream.specs import LookupJoinSpec, Spec
from sqlstream.types import CONSTRUCTED_ROOTS, LogicalType

_SIMPLE = "group, join or distribute by columns of simple types"


def check_keys(spec: Spec | None, inputs: tuple[PhysicalInput, ...], span: Span | None) -> None:
    """UserError SS3090 for a key that the operator cannot keep."""
    for physical_input in inputs:
        if physical_input.exchange.kind is ExchangeKind.HASH:
            _check(physical_input.node.schema, physical_input.exchange.keys, "a key", span)
    if isinstance(spec, LookupJoinSpec):
        _check(inputs[0].node.schema, spec.left_keys, "a lookup key", span)


def _check(schema: Schema, columns: tuple[int, ...], what: str, span: Span | None) -> None:
    for column in columns:
        field = schema.fields[column]
        if field.type.root in CONSTRUCTED_ROOTS:
            message = f"a value of type {shown(field.type)} cannot be {what}"
            raise UserError("SS3090", message, span=span, hint=_SIMPLE)


def shown(t: LogicalType) -> str:
    return str(t.without_time_attribute().with_nullable(True))
