"""Operators execute specs, and readers those at the head of a task that read; their modules are loaded on first use."""

from __future__ import annotations

import dataclasses
from typing import Any

from sqlstream import operators
from sqlstream.errors import InternalError
from sqlstream.runtime.operators.operator import Operator, OperatorContext
from sqlstream.specs.spec import OperatorSpec
from sqlstream.spi.imported_by_need import imported

OPERATORS: dict[type[OperatorSpec], str] = {
    entry.load_spec(): f"sqlstream.runtime.operators.{entry.operator}"
    for entry in operators.OPERATORS
    if entry.operator
}
"""Spec → "module:class or function". Sources, VALUES and sinks are run by the task and are no operators."""

READERS: dict[type[OperatorSpec], str] = {
    entry.load_spec(): f"sqlstream.runtime.operators.{entry.reader}"
    for entry in operators.OPERATORS
    if entry.reader
}
"""Spec → "module:function" that takes a HeadOpening."""


def make_operator(spec: OperatorSpec, context: OperatorContext) -> Operator[Any]:
    """A fresh operator for `spec`."""
    place = OPERATORS.get(type(spec))
    if place is None:
        raise InternalError(f"{type(spec).__name__} has no operator")
    # A context of its own: its state is that of one operator.
    own = dataclasses.replace(context)
    operator: Operator[Any] = imported(place)(spec, own)
    return operator
