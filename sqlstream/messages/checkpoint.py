"""Where the saved state of a job lies: what tasks report of a checkpoint, and what they are deployed with to go on from one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from sqlstream.bounds import Count, Int64
from sqlstream.elements import KeptElement

STATE_DIRECTORY = "shared"
"""Where the files of saved state lie, below the directory of a job's checkpoints (Flink: SHARED_STATE_DIR_NAME)."""


def state_path(name: str) -> str:
    """The path of the file that a subtask writes under a name, below the directory of the job's checkpoints.

    >>> state_path("90be-0-2-17")
    'shared/90be-0-2-17.arrow'
    """
    return f"{STATE_DIRECTORY}/{name}.arrow"


def checkpoint_of_path(path: str) -> int:
    """The checkpoint for which a file was written; ValueError for a path of another kind.

    >>> checkpoint_of_path("shared/90be-0-2-17.arrow")
    17
    """
    return int(path.removesuffix(".arrow").rpartition("-")[2])


class StateSegment(msgspec.Struct, frozen=True):
    """Rows of one saved table: an Arrow IPC stream in `length` bytes of a file from `offset` on, whose CRC-32 is `checksum`.

    `path` is relative to the directory of the job's checkpoints. A keyed table's rows are of the key groups `first_key_group` to
    `last_key_group`, both inclusive; those of a shared table are -1 and -1. `is_increment`: the rows change those of the segments
    before it, and do not follow them."""

    path: str
    offset: Count
    length: Count
    checksum: Count
    rows: Count
    first_key_group: Count = -1
    last_key_group: Count = -1
    is_increment: bool = False


class TableState(msgspec.Struct, frozen=True):
    """A table that an operator of one subtask declares, or a part of it (`name.part`). `segments` in the order in which they are
    loaded. `order`, of a table that another statement has saved: where each of its last columns stands among the last columns of
    the segments; empty when they stand as they are."""

    name: str
    is_keyed: bool
    segments: tuple[StateSegment, ...]
    order: tuple[Count, ...] = ()


class SavedOperator(msgspec.Struct, frozen=True):
    """The tables of one operator of one subtask; tables without rows may be missing."""

    operator_id: Count
    tables: tuple[TableState, ...]


class InFlightItems(msgspec.Struct, frozen=True):
    """What was under way in one channel at an unaligned checkpoint, in its order: elements, and batches as their numbers of rows,
    which are in `segments`. `is_output`: between this subtask and consumer `channel` of its output `edge`; otherwise between the
    producer that is number `channel` of all that the subtask reads, and it."""

    is_output: bool
    edge: Count
    channel: Count
    items: tuple[Count | KeptElement, ...]
    segments: tuple[StateSegment, ...] = ()

    @property
    def rows(self) -> int:
        return sum(item for item in self.items if isinstance(item, int))


class ChannelTime(msgspec.Struct, frozen=True):
    """Event time of one input channel of a task, as far as the task has come."""

    watermark_ms: Int64
    is_idle: bool


class SubtaskState(msgspec.Struct, frozen=True):
    """What one subtask has saved. `splits` are the positions of its source's reader, and `assignment` the number of the last
    assignment of splits that the reader had got; None and -1 for a task that reads the network. `counted` are the counters of its
    operators, by id, at the barrier: in a manifest those of the job since it began, otherwise those of the attempt. `channels`:
    how far each input channel had come, where the barrier might pass rows; a producer does not send its last watermark again."""

    operators: tuple[SavedOperator, ...] = ()
    splits: tuple[dict[str, Any], ...] | None = None
    assignment: Count = -1
    in_flight: tuple[InFlightItems, ...] = ()
    counted: dict[Count, dict[str, Int64 | float]] = {}
    channels: tuple[ChannelTime, ...] = ()

    def segments(self) -> Iterator[StateSegment]:
        """All that it refers to, those of earlier checkpoints included."""
        for operator in self.operators:
            for table in operator.tables:
                yield from table.segments
        for items in self.in_flight:
            yield from items.segments

    @property
    def in_flight_rows(self) -> int:
        return sum(items.rows for items in self.in_flight)

    @property
    def bytes(self) -> int:
        """The size of all segments."""
        return sum(segment.length for segment in self.segments())


class ArrivingRows(msgspec.Struct, frozen=True):
    """Batches of these numbers of rows, in `segments`, that were in flight to subtask `consumer` by input edge number `gate`."""

    gate: Count
    consumer: Count
    rows: tuple[Count, ...]
    segments: tuple[StateSegment, ...]


class Arrivals(msgspec.Struct, frozen=True):
    """What arrives first at the subtasks of a vertex that goes on at another parallelism: each takes the rows that its input
    edges send to it. `watermarks` is what stands behind them, by edge and by old subtask."""

    rows: tuple[ArrivingRows, ...] = ()
    watermarks: tuple[tuple[Int64, ...], ...] = ()


class TaskRestore(msgspec.Struct, frozen=True):
    """What a new attempt goes on from. `directory` is that of the job's checkpoints, which all paths of segments are below.

    `states` are those of all subtasks that the vertex had, in their order, as far as the attempt needs them: it loads the key
    groups of its own from each, and the whole of their shared tables. `is_finished`: its subtask had finished, and only passes on
    the end of its input. `is_own`: the vertex has as many subtasks as it had, and each loads all that it has saved itself and
    nothing of the others, which may have come to other places in event time. `arrivals`: items in flight, where they are those of
    other subtasks. `is_foreign`: another job has saved it, whose rows this one has not counted."""

    checkpoint_id: Count
    directory: str
    states: tuple[SubtaskState, ...]
    is_finished: bool = False
    is_own: bool = False
    arrivals: Arrivals | None = None
    is_foreign: bool = False
