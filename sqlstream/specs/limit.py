"""Spec of LIMIT and OFFSET without ORDER BY."""

from __future__ import annotations

from sqlstream.specs.spec import OperatorSpec, StateBound


class LimitSpec(OperatorSpec, frozen=True, tag="limit"):
    """The first `fetch` rows after `offset`, in order of arrival; `fetch` < 0 means all. Input is insert-only."""

    fetch: int
    offset: int = 0

    def kept_state(self) -> str:
        return "a count of rows"

    def state_bound(self) -> StateBound:
        return StateBound("one number", True)
