"""Committables of sinks that write nothing but a name."""

from __future__ import annotations

from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable


def file_of(name: object, job_id: str = "j1", checkpoint_id: int = LAST_CHECKPOINT_ID) -> Committable:
    """What a writer gives for one file."""
    return Committable(job_id, checkpoint_id, f"writer of {name}", 0, {"file": name})
