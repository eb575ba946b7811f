"""Spec of a source that imports a Python function, and the shape of its answer."""

from __future__ import annotations

import msgspec

from sqlstream.errors import ErrorInfo
from sqlstream.function_ref import InspectedFunction
from sqlstream.specs.spec import OperatorSpec


class InspectFunctionSpec(OperatorSpec, frozen=True, tag="inspect_function"):
    """Output: one row of `sqlstream.specs.infer_table.ANSWER`, an `InspectionAnswer` as JSON."""

    module: str
    attribute: str


class InspectionAnswer(msgspec.Struct, frozen=True):
    """The declaration, or the error that says why there is none."""

    function: InspectedFunction | None = None
    error: ErrorInfo | None = None
