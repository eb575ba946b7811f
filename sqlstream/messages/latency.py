"""What a job with a `latency.target` has measured and decided."""

from __future__ import annotations

import enum

import msgspec

from sqlstream.bounds import Count, Millis

DECISIONS_REMEMBERED_MAX = 20


class LatencyMode(enum.Enum):
    """What a job does about its target: it follows what is measured; it has the sizes of the plan, as latency does not depend on
    them; or the target cannot be kept, and it has the settings of the highest throughput until it has caught up."""

    TARGET = "target"
    PLAN = "plan"
    THROUGHPUT = "throughput"


class BatchDecision(msgspec.Struct, frozen=True):
    """`rows` are those of a batch from then on, `before` those until then. `p99_ms` was measured before."""

    at_ms: Millis
    before: Count
    rows: Count
    p99_ms: Millis
    reason: str
    mode: LatencyMode = LatencyMode.TARGET


class LatencyStatus(msgspec.Struct, frozen=True):
    """`p99_ms` is None until enough markers have come. `batch_rows` is what sources aim to put in one batch; `is_tuned`: it
    follows what is measured. `reason` says what was seen last. The newest of the `decisions` comes first."""

    target_ms: Millis
    batch_rows: Count
    is_tuned: bool
    p99_ms: Millis | None = None
    reason: str = ""
    decisions: tuple[BatchDecision, ...] = ()
    mode: LatencyMode = LatencyMode.TARGET

    @property
    def is_reached(self) -> bool:
        return self.p99_ms is not None and self.p99_ms <= self.target_ms
