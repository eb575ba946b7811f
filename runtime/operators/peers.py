"""What the subtasks of a recursive query say to each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa


class Peers(Protocol):
    """All subtasks of one operator, as one of them sees the others. Each calls `exchange` as often as the others, with the same
    keys: between two calls none of them needs to know more than what all said in the first. A **superstep** begins when one
    calls it that has something to say, and ends when all have said that they have no row for any round. The others join when
    `is_called`, which their task looks at between two items of its input.

    `watermark_ms` and `is_idle` are set to those of the subtask's inputs.
    """

    watermark_ms: int
    is_idle: bool

    @property
    def is_called(self) -> bool:
        """Whether a peer has begun a superstep, or waits for what this subtask knows."""

    @property
    def next_round(self) -> int | None:
        """The least round for which a subtask had rows, or sent some, by the last exchange."""

    @property
    def combined_watermark_ms(self) -> int:
        """The watermark of all of them, by the last exchange."""

    @property
    def are_idle(self) -> bool:
        """Whether all of them are."""

    def exchange(
        self, keys: tuple[int, ...], batches: Sequence[pa.RecordBatch], next_round: int | None = None
    ) -> pa.RecordBatch | None:
        """Give each its rows by the key groups of `keys`, and wait for those of this subtask from all: in the order of subtasks,
        as one batch. `next_round` is the first one for which it has rows or sends some. ChannelClosed when a peer is gone."""

    def settle(self) -> None:
        """A superstep has ended."""

    @property
    def stands_alone(self) -> bool:
        """Whether this subtask has come to a checkpoint's barrier or to the end of its inputs, and another one is yet to come
        there, or does not know it: what that one reads before it may still make rows here."""

    def wait(self) -> None:
        """Until `is_called`, or the others are to be told where this subtask stands."""

    def end(self) -> None:
        """All inputs of all subtasks have ended: before the last supersteps."""

    def leave(self) -> None:
        """No superstep follows: all have ended, or the task fails. Harmless when repeated."""
