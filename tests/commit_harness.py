"""A job with checkpoints, as its sink sees it: writers, commits that come late, and processes that die anywhere."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator

import msgspec
import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema, with_row_kinds
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.errors import ExternalError
from sqlstream.runtime.connectors import connector
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import AbortsCommittables, ConnectorContext, SinkWriter
from sqlstream.spi.files import Files
from sqlstream.testing.mortal_files import Died, MortalFiles, Process

JOB = "a" * 32
PARALLELISM = 2
DEATHS_MAX = 3
_decode = msgspec.json.Decoder(list[Committable]).decode


class DoubtfulDisk(Process):
    """Calls with these numbers fail, as those of a file server whose answer is lost: some have had their effect. State: the
    number of the next call."""

    def __init__(self, failing: list[int]) -> None:
        super().__init__(None)
        self._failing = frozenset(failing)
        self._number = 0

    def call(self) -> None:
        self._number += 1
        if self._number - 1 in self._failing:
            raise ExternalError("SS5001", "the file server does not answer")


class CheckpointedJob:
    """Writes the rows 0, 1, 2, … to a sink. `plan` has for each checkpoint the number of rows before it, whether it is completed,
    and whether its commit and those that wait are carried out at once. After a death the job goes on from its last completed
    checkpoint, with other writers, as a JobMaster does: commits first, then the abort of the rest.

    `visible` are the rows that readers see. State: what is on the disk of the checkpoints, and how far the commits are."""

    MODE = ChangelogMode.INSERT_ONLY

    def __init__(
        self,
        spec: SinkSpec,
        plan: list[tuple[int, bool, bool]],
        deaths: list[int],
        visible: Callable[[], list[int]],
        files: Callable[[Process], Files] = MortalFiles,
    ) -> None:
        self._spec = spec
        self._sink = connector(spec.connector)
        self._plan = plan
        self._deaths: Iterator[int | None] = itertools.chain(deaths[:DEATHS_MAX], itertools.repeat(None))
        self._visible = visible
        self._files = files
        self._ids = itertools.count(1)
        self._completed: list[tuple[int, bytes, int, int]] = []
        self._committed_rows = 0
        self.died = 0

    def run(self) -> int:
        """How many rows the job has written."""
        while True:
            if self._goes_on(self._files(Process(next(self._deaths)))):
                return sum(rows for rows, _, _ in self._plan)

    def run_on(self, disk: DoubtfulDisk) -> int:
        """The same without deaths: an attempt ends with a call that fails."""
        files = self._files(disk)
        while not self._goes_on(files):
            pass
        return sum(rows for rows, _, _ in self._plan)

    def _goes_on(self, files: Files) -> bool:
        """Whether this attempt is the last."""
        try:
            self._attempt(files)
        except (Died, ExternalError):
            self.died += 1
            self._check()
            return False
        return True

    def _attempt(self, files: Files) -> None:
        self._commit(files)
        if isinstance(self._sink, AbortsCommittables):
            self._sink.abort(self._spec, JOB, [], files)
        step, row = self._completed[-1][2:] if self._completed else (0, 0)
        if step == len(self._plan):
            return
        writers = [self._writer(subtask, files) for subtask in range(PARALLELISM)]
        try:
            self._write(writers, step, row, files)
        except ExternalError:
            for writer in writers:
                with contextlib.suppress(ExternalError):
                    writer.abort()
            raise

    def _write(self, writers: list[SinkWriter], step: int, row: int, files: Files) -> None:
        prepared: list[Committable] = []
        while step < len(self._plan):
            rows, is_completed, is_committed = self._plan[step]
            step += 1
            for batch in (list(range(row, row + rows // 2)), list(range(row + rows // 2, row + rows))):
                self._give(batch, writers)
            row += rows
            is_last = step == len(self._plan)
            checkpoint_id = LAST_CHECKPOINT_ID if is_last else next(self._ids)
            for writer in writers:
                prepared += writer.prepare_commit(checkpoint_id)
            if is_completed or is_last:
                self._completed.append((checkpoint_id, msgspec.json.encode(prepared), step, row))
                prepared = []
            if is_committed or is_last:
                self._commit(files)

    def _give(self, rows: list[int], writers: list[SinkWriter]) -> None:
        writers[len(rows) % PARALLELISM].write(self._batch(rows))

    def _writer(self, subtask: int, files: Files) -> SinkWriter:
        context = ConnectorContext(
            *(JOB, "v", subtask, PARALLELISM, 0, 100, {}, lambda: 0, lambda name, n: None, files)
        )
        return self._sink.sink(self._spec, self.MODE, context)

    def _commit(self, files: Files) -> None:
        """Those whose commit is not known to have ended, which is what a process that dies forgets first."""
        for checkpoint_id, committables, _, rows in self._completed:
            if rows >= self._committed_rows:
                self._sink.commit(self._spec, checkpoint_id, _decode(committables), files)
                self._committed_rows = rows
                self._check()

    def _check(self) -> None:
        """Readers see the rows up to a checkpoint: the last one that was committed, or the one whose commit has died."""
        found = self._visible()
        ends = {rows for _, _, _, rows in self._completed if rows >= self._committed_rows}
        self._check_rows(found, ends)

    def _check_rows(self, found: list[int], ends: set[int]) -> None:
        assert len(found) in {self._committed_rows, *ends}, (len(found), self._committed_rows, ends)
        assert sorted(found) == list(range(len(found)))

    def _batch(self, rows: list[int]) -> pa.RecordBatch:
        schema = to_arrow_schema(self._spec.schema)
        columns = [pa.array([str(row) for row in rows]), pa.array([row % 3 for row in rows], pa.int32())]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


class ChangingJob(CheckpointedJob):
    """The same with changes of few keys: row n writes the key n % KEYS anew, or deletes it. One subtask writes a key."""

    MODE = ChangelogMode.UPSERT
    KEYS = 5

    @classmethod
    def rows_behind(cls, changes: int) -> list[int]:
        """The last row of each key that is there, in order."""
        last = {row % cls.KEYS: row for row in range(changes)}
        return sorted(row for row in last.values() if not cls._deletes(row))

    @staticmethod
    def _deletes(row: int) -> bool:
        return row % 7 == 6

    def _give(self, rows: list[int], writers: list[SinkWriter]) -> None:
        for subtask, writer in enumerate(writers):
            writer.write(self._batch([row for row in rows if row % self.KEYS % PARALLELISM == subtask]))

    def _check_rows(self, found: list[int], ends: set[int]) -> None:
        assert sorted(found) in [self.rows_behind(n) for n in {self._committed_rows, *ends}]

    def _batch(self, rows: list[int]) -> pa.RecordBatch:
        schema = to_arrow_schema(self._spec.schema)
        columns = [
            pa.array([str(row) for row in rows]),
            pa.array([row % self.KEYS for row in rows], pa.int32()),
        ]
        kinds = [RowKind.DELETE if self._deletes(row) else RowKind.UPDATE_AFTER for row in rows]
        return with_row_kinds(
            pa.RecordBatch.from_arrays(columns, schema=schema), np.array(kinds, dtype=np.int8)
        )
