"""How large the state of a job is, and by how much it has grown."""

from __future__ import annotations

import msgspec

from sqlstream.bounds import Count, Millis


class Size(msgspec.Struct, frozen=True):
    """`entries` are keys, or rows of tables that have no key; state that is a log by time counts none."""

    nbytes: Count = 0
    entries: Count = 0


class OperatorGrowth(msgspec.Struct, frozen=True):
    operator: Count
    present: Size
    before: Size


class StateGrowth(msgspec.Struct, frozen=True):
    """From `before` to `present` so many `span_ms` have passed; 0: there is one measurement alone. `fullest_bytes` is the state
    in memory of the slot that has most, `fullest_before_bytes` what that one had, and `budget_bytes` what it may have, 0 for no
    bound."""

    span_ms: Millis
    operators: tuple[OperatorGrowth, ...]
    fullest_bytes: Count = 0
    fullest_before_bytes: Count = 0
    budget_bytes: Count = 0
    slots: Count = 1
