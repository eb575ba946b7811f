"""Spec of the operator that fails a job for rows with one primary key."""

from __future__ import annotations

from sqlstream.specs.spec import OperatorSpec, StateBound, keys_or_ttl, until_ttl


class ConflictCheckSpec(OperatorSpec, frozen=True, tag="conflict_check"):
    """Passes on all rows, and fails the job (SS5081) when several of them have the same `keys` at a time (ON CONFLICT DO ERROR).

    A row may come before the one that it replaces is retracted, from another subtask: it is looked at with each watermark, at the
    end of the input, and at each checkpoint whose barriers wait for the rows before them. `table` is the table that they go to.
    """

    keys: tuple[int, ...]
    table: str
    state_ttl_ms: int = 0

    def kept_state(self) -> str:
        return (
            f"the number of rows of each key; dropped: with the last row, or {until_ttl(self.state_ttl_ms)}"
        )

    def state_bound(self) -> StateBound:
        return keys_or_ttl(bool(self.keys), self.state_ttl_ms)
