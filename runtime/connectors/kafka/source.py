"""Reads partitions of topics: one subtask's, all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.runtime.connectors.kafka.consumer import Consumer, Partition, Run, Taken
from sqlstream.runtime.connectors.kafka.options import KafkaOptions
from sqlstream.runtime.connectors.kafka.partitions import offsets_in_place_of
from sqlstream.runtime.connectors.kafka.rows import MessageRows
from sqlstream.runtime.connectors.row_watermarks import RowWatermarks
from sqlstream.runtime.formats.file_rows import empty_columns
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import AssignedSplits, ConnectorContext, SourceStatus, SplitFigures

_ROWS_MAX = 65_536
_AWAITING_MS = 1_000
"""How long a reader is left alone at most while no message comes."""

CONSUMER = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "fetch.wait.max.ms": "500",
    "fetch.error.backoff.ms": "100",
    "queued.min.messages": "100000",
    "queued.max.messages.kbytes": "65536",
    "check.crcs": "true",
}


@dataclass
class Split:
    """A partition that is read. `offset` is the next one; `end` that which is not read; `watermark_ms` that of its rows so far.
    `active_ms`: when it last had messages, or came to the reader."""

    offset: int
    end: int | None
    watermark_ms: int
    active_ms: int

    @property
    def is_finished(self) -> bool:
        return self.end is not None and 0 <= self.end <= self.offset


class KafkaReader:
    """Emits what has come of all its partitions, at most about `batch_rows` rows at once, in the order of each partition.

    Each partition has a watermark of its own, if the table has one. One that is ahead of others (`align`) is not fetched.
    State: a position and a watermark for each partition, and which are ahead or finished."""

    def __init__(
        self, spec: SourceSpec, options: KafkaOptions, context: ConnectorContext, splits: list[dict[str, Any]]
    ) -> None:
        self._context, self._options = context, options
        self._rows = MessageRows(spec, options, context)
        self._watermarks = RowWatermarks(spec.watermark, context) if spec.watermark is not None else None
        self._idle_timeout_ms = spec.watermark.idle_timeout_ms if spec.watermark is not None else 0
        self._limit = spec.limit
        self._splits: dict[Partition, Split] = {}
        self._ahead: set[Partition] = set()
        self._aligned_ms = WATERMARK_MAX
        self._finished_ms = WATERMARK_MIN
        self._finished: dict[Partition, Split] = {}
        self._watermark_ms = WATERMARK_MIN
        self._has_all = True
        self._had_nothing = False
        settings = {
            "group.id": f"sqlstream-{context.job_id}",
            **CONSUMER,
            **options.settings,
            # The reader says where it goes on when an offset is gone.
            "auto.offset.reset": "error",
        }
        self._commits = options.given.group_id is not None
        self._auto_commit_ms = options.auto_commit_ms(context.config)
        self._committed_ms = context.now_ms()
        self._consumer = Consumer(settings, _ROWS_MAX)
        self._add(splits)

    def _add(self, positions: Sequence[dict[str, Any]]) -> None:
        now_ms = self._context.now_ms()
        added = []
        for position in positions:
            partition = Partition(position["topic"], position["partition"])
            split = Split(
                position["offset"], position.get("end"), position.get("watermark", WATERMARK_MIN), now_ms
            )
            if split.is_finished:
                self._note_finished(partition, split)
                continue
            self._splits[partition] = split
            added.append((*partition, split.offset))
        if added:
            self._consumer.assign(added)

    def add_splits(self, assigned: AssignedSplits) -> None:
        self._add(assigned.positions)
        self._has_all = assigned.is_last

    wants_splits = True
    returned_splits: tuple[dict[str, Any], ...] = ()

    def poll(self) -> pa.RecordBatch | SourceStatus:
        if self._limit == 0 or (not self._splits and self._has_all):
            self._advance_watermark()
            return SourceStatus.END
        if self._auto_commit_ms is not None:
            self._commit_when_due(self._auto_commit_ms)
        taken = self._consumer.take(self._context.batch_rows)
        self._had_nothing = taken is None
        if taken is None:
            if self._idle_timeout_ms > 0:
                self._advance_watermark()
            return SourceStatus.NOTHING_YET
        try:
            batch = self._read(taken)
        finally:
            taken.release()
        self._advance_watermark()
        self._leave_alone()
        return SourceStatus.NOTHING_YET if batch is None else batch

    def _read(self, taken: Taken) -> pa.RecordBatch | None:
        pieces = []
        gone: dict[Partition, None] = {}
        for run in taken.runs:
            split = self._splits.get(run.partition)
            if split is None or run.partition in self._ahead:
                continue
            if run.is_gone:
                gone[run.partition] = None
                continue
            rows = self._wanted(taken, run, split)
            if rows.end > rows.first:
                pieces.append(self._piece(taken, rows, split))
            split.offset = max(split.offset, rows.offset)
            if split.is_finished:
                self._finish(run.partition, split)
        if gone:
            self._go_on_behind_gone(list(gone))
        pieces = [piece for piece in pieces if piece.num_rows]
        if not pieces:
            return None
        if len(pieces) == 1:
            return pieces[0]
        if not pieces[0].num_columns:
            return empty_columns(sum(piece.num_rows for piece in pieces))
        return pa.concat_batches(pieces)

    def _go_on_behind_gone(self, gone: Sequence[Partition]) -> None:
        """Where 'auto.offset.reset' says. UserError SS5304 unless it does."""
        splits = [self._splits[partition] for partition in gone]
        offsets = offsets_in_place_of(
            self._options, [(*partition, split.offset) for partition, split in zip(gone, splits, strict=True)]
        )
        self._consumer.unassign(gone)
        said, added = [], []
        for partition, split, offset in zip(gone, splits, offsets, strict=True):
            said.append(
                f'topic "{partition.topic}", partition {partition.number}: offset {split.offset} is gone,'
                f" and reading goes on at offset {offset}"
            )
            split.offset = offset
            if split.is_finished:
                del self._splits[partition]
                self._note_finished(partition, split)
            else:
                added.append((*partition, offset))
        self._context.print_lines(said, True)
        if added:
            self._consumer.assign(added)

    def _wanted(self, taken: Taken, run: Run, split: Split) -> Run:
        """Without what is behind the end of a bounded table, or before its begin."""
        first, end, offset = run.first, run.end, run.offset
        if first == end:
            # The end of the partition: what is between the last message and it are marks of transactions.
            return run
        offsets = taken.offsets(run)
        if split.offset > offsets[0]:
            first += int(np.searchsorted(offsets, split.offset))
        if split.end is not None and offset > split.end:
            end = run.first + int(np.searchsorted(offsets, split.end))
            offset = split.end
        return Run(run.partition, first, max(first, end), offset)

    def _piece(self, taken: Taken, run: Run, split: Split) -> pa.RecordBatch:
        split.active_ms = self._context.now_ms()
        batch = self._rows.decoded(taken, run)
        if 0 <= self._limit < batch.num_rows:
            batch = batch.slice(0, self._limit)
        if self._limit > 0:
            self._limit -= batch.num_rows
        if batch.num_rows and self._watermarks is not None:
            batch, running = self._watermarks.extended(batch, split.watermark_ms)
            split.watermark_ms = int(running[-1])
        return batch

    def _finish(self, partition: Partition, split: Split) -> None:
        self._consumer.unassign([partition])
        del self._splits[partition]
        self._note_finished(partition, split)

    def _note_finished(self, partition: Partition, split: Split) -> None:
        self._finished_ms = max(self._finished_ms, split.watermark_ms)
        self._finished[partition] = split

    def align(self, watermark_ms: int) -> None:
        now_ms = self._context.now_ms()
        for split in self._splits.values():
            # That it had no rows while it waited does not make it idle.
            if split.watermark_ms > self._aligned_ms:
                split.active_ms = now_ms
        self._aligned_ms = watermark_ms
        self._leave_alone()

    def _leave_alone(self) -> None:
        """Fetch nothing of the partitions that are ahead. When all are, the reader is not polled, and keeps what it has."""
        ahead = {p for p, split in self._splits.items() if split.watermark_ms > self._aligned_ms}
        if ahead == self._ahead or (len(ahead) == len(self._splits) and self._ahead <= ahead):
            return
        begun, ended = ahead - self._ahead, self._ahead - ahead
        self._ahead = ahead
        if begun:
            self._consumer.unassign(list(begun))
        if ended & self._splits.keys():
            self._consumer.assign([(*p, self._splits[p].offset) for p in ended if p in self._splits])

    def _advance_watermark(self) -> None:
        """To the lowest of the partitions, without those that have been idle for long, as long as another one is not."""
        if self._watermarks is None:
            return
        splits = list(self._splits.values())
        splits = [split for split in splits if not self._counts_as_idle(split)] or splits
        progress = (split.watermark_ms for split in splits)
        self._watermark_ms = max(self._watermark_ms, min(progress, default=self._finished_ms))

    def _counts_as_idle(self, split: Split) -> bool:
        """Whether it has had no messages for long, unless that is because it is not fetched."""
        since_ms = self._context.now_ms() - self._idle_timeout_ms
        return (
            self._idle_timeout_ms > 0
            and split.active_ms <= since_ms
            and split.watermark_ms <= self._aligned_ms
        )

    def measure(self) -> list[SplitFigures]:
        return [self._figures_of(partition, split) for partition, split in self._splits.items()]

    def _figures_of(self, partition: Partition, split: Split) -> SplitFigures:
        end = split.end if split.end is not None else self._consumer.end_of(partition)
        pending = max(0, end - split.offset) if end is not None and split.offset >= 0 else None
        watermark_ms = split.watermark_ms if split.watermark_ms != WATERMARK_MIN else None
        name = f"{partition.topic}-{partition.number}"
        return SplitFigures(name, pending, watermark_ms, self._counts_as_idle(split))

    @property
    def is_idle(self) -> bool:
        """Whether it has no partition, so that others need not wait for its watermark."""
        return not self._splits and not self._has_all

    def watermark_ms(self) -> int:
        return self._watermark_ms

    def next_poll_ms(self) -> int | None:
        now_ms = self._context.now_ms()
        if not self._had_nothing:
            return now_ms
        idle_ms = [split.active_ms + self._idle_timeout_ms for split in self._splits.values()]
        return min((t for t in idle_ms if t > now_ms), default=now_ms + _AWAITING_MS)

    def wait_fileno(self) -> int | None:
        return self._consumer.fileno if self._had_nothing else None

    def snapshot(self) -> list[dict[str, Any]]:
        return [
            {
                "topic": partition.topic,
                "partition": partition.number,
                "offset": split.offset,
                **({} if split.end is None else {"end": split.end}),
                **({} if split.watermark_ms == WATERMARK_MIN else {"watermark": split.watermark_ms}),
            }
            # The group of the table is told also where partitions have ended.
            for partition, split in (*self._splits.items(), *self._finished.items())
        ]

    def on_checkpoint_completed(self, positions: Sequence[dict[str, Any]]) -> None:
        """Tell the group of the table where this reader was; what goes on reads from the checkpoint, whatever the group has."""
        if self._commits and positions:
            offsets = [(p["topic"], p["partition"], p["offset"]) for p in positions if p["offset"] >= 0]
            self._consumer.commit(offsets)

    def _commit_when_due(self, interval_ms: int) -> None:
        now_ms = self._context.now_ms()
        if now_ms - self._committed_ms >= interval_ms:
            self._committed_ms = now_ms
            self.on_checkpoint_completed(self.snapshot())

    def close(self) -> None:
        self._consumer.close()
        self._rows.close()
