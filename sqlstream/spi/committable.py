"""What a sink's writer has made ready for a commit, and the checkpoint that it belongs to."""

from __future__ import annotations

from typing import Any

import msgspec

from sqlstream.bounds import Count, Int64

LAST_CHECKPOINT_ID = 2**63 - 1
"""The end of a job, as a checkpoint: it comes after all others, and every writer knows its id without asking (Flink:
`CommittableMessage.EOI`, Long.MAX_VALUE). The checkpoints of a coordinator are 1, 2, …"""


class Committable(msgspec.Struct, frozen=True):
    """What one writer wrote between the checkpoint before and this one.

    Job, checkpoint and writer together name it, however often its commit is repeated. `writer_id` is another for each subtask of
    each attempt; `content`, JSON-able, is for the connector alone."""

    job_id: str
    checkpoint_id: Int64
    writer_id: str
    subtask: Count
    content: dict[str, Any]

    @property
    def key(self) -> str:
        """What a sink's journal notes: without the job, as no two jobs have a writer in common."""
        return f"{self.writer_id}/{self.checkpoint_id}"


def writer_name(allocation_id: str, execution_id: str, operator_id: int) -> str:
    """Of an attempt's sink: execution ids come again when a server starts again, allocation ids do not."""
    return f"{allocation_id}/{execution_id}/{operator_id}"


def in_order(committables: list[Committable]) -> list[Committable]:
    """In the order in which rows of several writers count, which is the same in every repetition: by checkpoint, then by
    subtask."""
    return sorted(committables, key=lambda c: (c.checkpoint_id, c.subtask, c.writer_id))
