"""Spec of the operator that computes values which differ each time they are computed."""

from __future__ import annotations

from sqlstream.expressions import Expression
from sqlstream.specs.spec import OperatorSpec, StateBound, until_ttl


class KeptValuesSpec(OperatorSpec, frozen=True, tag="kept_values"):
    """The columns of the input, then the values of `expressions` over them, which differ each time: a row that is retracted has
    those with which it came (Flink: 'table.optimizer.non-deterministic-update.strategy' = 'TRY_RESOLVE').

    A row is found again by `keys`: columns of which no two rows have the same values at a time, or all. Rows are distributed by
    `distribution`, those of them whose types can be hashed.
    """

    keys: tuple[int, ...]
    distribution: tuple[int, ...]
    expressions: tuple[Expression, ...]
    state_ttl_ms: int = 0

    def kept_state(self) -> str:
        return f"the values of each row that is there; dropped: {until_ttl(self.state_ttl_ms)}"

    def state_bound(self) -> StateBound:
        if self.state_ttl_ms:
            return StateBound(f"the number of rows that come within {self.state_ttl_ms} ms", True)
        return StateBound("the number of rows that are there", False)
