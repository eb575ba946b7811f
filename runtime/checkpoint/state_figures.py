"""What a task counts of the state that it went on from, and of its local copies."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.messages.rpc import RESTORED_FROM_STORE, RESTORED_LOCALLY, Metrics


@dataclass
class StateFigures:
    """Bytes of state that a task has loaded, by where they were read, and how long that took; copies on the local disk that could
    not be written, and those that had other bytes than their originals. Written by the task's thread and by those that write its
    state; read by any."""

    local_bytes: int = 0
    store_bytes: int = 0
    restored_ms: int = 0
    copies_failed: int = 0
    copies_damaged: int = 0

    def read(self) -> Metrics:
        """Those above 0, under Flink's names where it has them."""
        figures: Metrics = {
            RESTORED_LOCALLY: self.local_bytes,
            RESTORED_FROM_STORE: self.store_bytes,
            "InitializeStateDurationMs": self.restored_ms,
            "numLocalCopiesFailed": self.copies_failed,
            "numLocalCopiesDamaged": self.copies_damaged,
        }
        return {name: value for name, value in figures.items() if value}
