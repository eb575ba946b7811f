"""Spec of the operator that fails a job where a subquery that is used as a value keeps several rows."""

from __future__ import annotations

from sqlstream.expressions import Expression
from sqlstream.specs.spec import OperatorSpec, StateBound, until_ttl


class SingleRowCheckSpec(OperatorSpec, frozen=True, tag="single_row_check"):
    """Passes on the rows for which `has_several` is not TRUE, and holds back the others until they are retracted.

    Changes come from several subtasks, so a subquery may have two rows for a moment while one takes the place of the other. The
    job fails for a row that is held back at the end of the input, and where the input does not end (`is_bounded` is false) for
    one that has been held back for 10 seconds: by evaluating `checks`, calls of SINGLE_ROW, for it. `distribution` are the
    columns by which rows are distributed.
    """

    has_several: Expression
    checks: tuple[Expression, ...]
    distribution: tuple[int, ...]
    is_bounded: bool
    state_ttl_ms: int = 0

    def kept_state(self) -> str:
        return (
            "the rows whose subquery has several rows; dropped: with the retraction, or"
            f" {until_ttl(self.state_ttl_ms)}"
        )

    def state_bound(self) -> StateBound:
        return StateBound("the number of rows whose subquery has several rows at a time", True)
