"""Specs of row-by-row operators: filter and project, drop -U (Flink: StreamExecCalc and others)."""

from __future__ import annotations

from sqlstream.expressions import Expression
from sqlstream.specs.spec import OperatorSpec


class CalcSpec(OperatorSpec, frozen=True, tag="calc"):
    """Keep the rows for which `condition` is TRUE (all when None), then output one column per projection.

    The row kind passes through. The condition applies to -U and +U separately: when it keeps only one of them, that is a -D or a
    +I.
    """

    projections: tuple[Expression, ...]
    condition: Expression | None = None


class DropUpdateBeforeSpec(OperatorSpec, frozen=True, tag="drop_update_before"):
    """Drop -U rows for a consumer that replaces rows by `keys` (Flink: StreamExecDropUpdateBefore). An update of a row whose key
    changes is a -D and a +I."""

    keys: tuple[int, ...] = ()
