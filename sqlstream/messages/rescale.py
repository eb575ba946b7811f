"""How far the rescale of a job is."""

from __future__ import annotations

import enum

import msgspec

from sqlstream.bounds import Count, Millis
from sqlstream.errors import ErrorInfo


class RescaleStep(enum.Enum):
    """
        SLOTS ─► CHECKPOINT ─► STOPPING ─► STORING ─► STARTING ─► DONE
                                  ▲                       │
                                  └───────────────────────┘

    SLOTS: further ones are awaited, while the job runs on. CHECKPOINT: the one that the job goes on from is taken. STOPPING: its
    tasks end, and what the checkpoint commits is committed. STORING: the job is kept with its other parallelism. STARTING: its
    tasks are deployed; without slots for them the job goes back to STOPPING, and then to the parallelism that it had. Every step
    may end in DONE with an error.
    """

    SLOTS = "SLOTS"
    CHECKPOINT = "CHECKPOINT"
    STOPPING = "STOPPING"
    STORING = "STORING"
    STARTING = "STARTING"
    DONE = "DONE"


class RescaleStatus(msgspec.Struct, frozen=True):
    """`parallelism` is what was asked for, `earlier` what the job had. With `error` the job runs on with `earlier`, or has
    ended."""

    job_id: str
    trigger_id: str
    parallelism: Count
    earlier: Count
    step: RescaleStep
    error: ErrorInfo | None = None

    @property
    def is_done(self) -> bool:
        return self.step is RescaleStep.DONE


# What the autoscaler of a job has measured and decided.


DECISIONS_REMEMBERED_MAX = 20


class VertexLoad(msgspec.Struct, frozen=True):
    """The parts of the time that the busiest subtask of a vertex works, and that one of them waits for room. `is_open`: the
    vertex follows the parallelism of the job."""

    name: str
    parallelism: Count
    is_open: bool
    busy: float
    pressed: float


class ScalingDecision(msgspec.Struct, frozen=True):
    """`parallelism` is what the job had, `wanted` what is right by the figures that `reason` tells. One that `is_applied` has
    begun a rescale."""

    at_ms: Millis
    parallelism: Count
    wanted: Count
    reason: str
    is_applied: bool = False

    @property
    def outcome(self) -> tuple[int, int, bool]:
        return self.parallelism, self.wanted, self.is_applied


class AutoscalerStatus(msgspec.Struct, frozen=True):
    """`vertices`, `rate` in records per second and `pending` records are those of the last window; there are none before the
    first is full. The newest of the `decisions` comes first."""

    parallelism: Count
    vertices: tuple[VertexLoad, ...] = ()
    rate: float = 0.0
    pending: float | None = None
    decisions: tuple[ScalingDecision, ...] = ()
