"""How far the rescale of a job is."""

from __future__ import annotations

import enum

import msgspec

from sqlstream.bounds import Count
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
