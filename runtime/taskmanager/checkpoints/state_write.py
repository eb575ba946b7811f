"""The part of a subtask's checkpoint that another thread does beside the task's work."""

from __future__ import annotations

import dataclasses
import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence

import msgspec

from sqlstream.errors import ErrorInfo, InternalError
from sqlstream.messages.checkpoint import (
    SavedOperator,
    StateSegment,
    SubtaskState,
    TableState,
    checkpoint_of_path,
    state_path,
)
from sqlstream.runtime.checkpoint.merged_files import MergedPart
from sqlstream.runtime.checkpoint.state_writer import StateWriter, state_name
from sqlstream.runtime.host.clock import steady_ms
from sqlstream.runtime.net.channels import StreamItem
from sqlstream.runtime.state.operator_state import PendingSnapshot
from sqlstream.runtime.state.snapshots.snapshot import OperatorSnapshot
from sqlstream.runtime.taskmanager.checkpoints.checkpoint_reports import (
    CheckpointRefused,
    CheckpointReport,
    CheckpointTaken,
)
from sqlstream.runtime.taskmanager.checkpoints.in_flight import (
    IN_FLIGHT,
    Place,
    in_flight_items,
    in_flight_snapshot,
)

Chains = Mapping[tuple[int, str], tuple[StateSegment, ...]]
"""By operator id and the table's name."""


class SegmentChains:
    """The segments that the saved tables of one subtask consist of, from checkpoint to checkpoint.

    It keeps what increments follow: those of a checkpoint follow a part of the segments of the last completed one.

    The task's thread asks and settles, the writing one adds, and takes back what was given up meanwhile. State: the segments of
    the last completed checkpoint, and of those after it that are written and whose fate is not known."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._written: dict[int, Chains] = {}
        self._completed_id = 0

    def base(self) -> Chains:
        """The segments that increments which begin at this moment follow."""
        with self._lock:
            return self._written.get(self._completed_id, {})

    def paths(self, checkpoint_id: int) -> frozenset[str] | None:
        """The files that a written checkpoint refers to; None for one that was not written here, or is forgotten."""
        with self._lock:
            chains = self._written.get(checkpoint_id)
        return None if chains is None else frozenset(s.path for chain in chains.values() for s in chain)

    def is_whole_due(self, operator_id: int) -> bool:
        """Whether the operator has to save its tables without increments: a checkpoint whose fate is not known would, once
        completed, not refer to all that increments follow, and so have it removed."""
        with self._lock:
            base = self._written.get(self._completed_id, {})
            later = [chains for id, chains in self._written.items() if id > self._completed_id]
        own = {key: chain for key, chain in base.items() if key[0] == operator_id}
        return any(other.get(key, ())[: len(chain)] != chain for other in later for key, chain in own.items())

    def add(self, checkpoint_id: int, saved: tuple[SavedOperator, ...]) -> None:
        """A checkpoint is written."""
        chains = {(o.operator_id, table.name): table.segments for o in saved for table in o.tables}
        with self._lock:
            self._written[checkpoint_id] = chains

    def completed(self, checkpoint_id: int) -> None:
        """What was written before this checkpoint may be gone."""
        with self._lock:
            self._completed_id = max(self._completed_id, checkpoint_id)
            self._written = {id: c for id, c in self._written.items() if id >= self._completed_id}

    def aborted(self, checkpoint_id: int) -> None:
        with self._lock:
            if checkpoint_id > self._completed_id:
                self._written.pop(checkpoint_id, None)


def behind(
    base: Chains, saved: tuple[SavedOperator, ...], snapshots: Mapping[int, OperatorSnapshot]
) -> tuple[SavedOperator, ...]:
    """The operators with what was written of them behind the segments of `base` that its increments follow."""
    return tuple(
        msgspec.structs.replace(
            operator,
            tables=tuple(
                _behind(base.get((operator.operator_id, table.name), ()), table, increments.get(table.name))
                for table in operator.tables
            ),
        )
        for operator in saved
        for increments in (snapshots[operator.operator_id].increments,)
    )


def _behind(base: tuple[StateSegment, ...], table: TableState, base_id: int | None) -> TableState:
    if base_id is None or not table.is_keyed:
        return table
    # An increment may hold the changes of several checkpoints: then it replaces the latest of the base.
    followed = [segment for segment in base if checkpoint_of_path(segment.path) <= base_id]
    if not followed:
        raise InternalError(
            f'state table "{table.name}" follows checkpoint {base_id}, which its task has not saved'
        )
    written = [segment for segment in table.segments if segment.rows]
    return msgspec.structs.replace(table, segments=(*followed, *written))


logger = logging.getLogger(__name__)

WRITING_THREADS = 2
"""How many tasks write at the same time: a store far away is waited for more than a processor."""

Write = Callable[[], None]


class WritingThreads:
    """Makes calls one after the other on few threads, which start with the first. What a call raises is logged, and ends none.

    State: the calls that wait. Of each task these are few writes of state, as it refuses checkpoints beyond them, and one removal
    of local copies for each checkpoint that ended meanwhile."""

    def __init__(self, threads: int = WRITING_THREADS) -> None:
        self._threads = threads
        self._calls: queue.SimpleQueue[Write | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        self._is_stopped = False

    def submit(self, call: Write) -> None:
        """Make the call soon; never waits. Nothing is called behind `stop`."""
        with self._lock:
            if self._is_stopped:
                return
            if self._started < self._threads:
                self._started += 1
                # A store that does not answer must not keep the process from ending.
                name = f"state-writer-{self._started}"
                threading.Thread(target=self._run, name=name, daemon=True).start()
        self._calls.put(call)

    def stop(self) -> None:
        """End the threads, once they have made the calls that wait; returns at once."""
        with self._lock:
            self._is_stopped = True
            for _ in range(self._started):
                self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call()
            except Exception:  # the thread's boundary: without it no further state would be written
                logger.exception("a call of %s failed", threading.current_thread().name)


@dataclasses.dataclass(frozen=True)
class TakenState:
    """What the task's thread leaves to be written: all of the report but what writing adds. `in_flight` are the items that an
    unaligned barrier has passed, and those that came before a late one. `base` is what increments follow.
    `chains` takes what was written, and is None for a savepoint, which refers to no other file and is referred to by none.
    `merged` is the part of a file that other subtasks write to, too, which the writer adds to; None where there is none."""

    report: CheckpointTaken
    snapshots: Mapping[int, PendingSnapshot]
    in_flight: Mapping[Place, Sequence[StreamItem]]
    base: Chains
    chains: SegmentChains | None
    merged: MergedPart | None = None


class StateWrite:
    """Writes the state of one checkpoint once, and reports it, or why it cannot be had: when the file is closed, if others write
    to it.

    One that is given up is not reported, and leaves no file. State: how far it is; the task's thread reads that, and gives it
    up."""

    def __init__(
        self,
        taken: TakenState,
        open_writer: Callable[[], StateWriter],
        report: Callable[[CheckpointReport], None],
        describe: Callable[[Exception], ErrorInfo],
    ) -> None:
        self.checkpoint_id = taken.report.checkpoint_id
        self._taken = taken
        self._open_writer = open_writer
        self._report = report
        self._describe = describe
        self._name = state_name(taken.report.execution_id, self.checkpoint_id)
        self._lock = threading.Lock()
        self._is_given_up = False
        self.has_ended = False

    @property
    def is_settled(self) -> bool:
        """Whether it is reported, or nobody waits for it."""
        return self.has_ended or self._is_given_up

    def give_up(self) -> None:
        """Nobody waits for this checkpoint: what is written of it is removed. Returns at once."""
        with self._lock:
            self._is_given_up = True

    def run(self) -> None:
        """Called once, by the writing thread; raises nothing."""
        since_ms = steady_ms()
        try:
            report: CheckpointReport | None = self._write()
        except Exception as error:  # the thread's boundary: every failure becomes data
            report = self._refused(error)

        def done(failure: Exception | None) -> bool:
            return self._end(report if failure is None else self._refused(failure), since_ms, failure)

        if self._taken.merged is not None:
            self._taken.merged.arrived(done)
        else:
            done(None)

    def _end(self, report: CheckpointReport | None, since_ms: int, failure: Exception | None) -> bool:
        """Whether it is reported as taken."""
        is_taken = isinstance(report, CheckpointTaken)
        if isinstance(report, CheckpointTaken):
            figures = msgspec.structs.replace(report.figures, async_ms=steady_ms() - since_ms)
            report = dataclasses.replace(report, figures=figures)
        with self._lock:
            is_given_up = self._is_given_up
            if not is_given_up and report is not None:
                self._report(report)
        self.has_ended = True
        if failure is not None or (is_given_up and is_taken):
            if self._taken.chains is not None:
                # The task's thread may have settled it before it was added.
                self._taken.chains.aborted(self.checkpoint_id)
            self._discard()
        return is_taken and not is_given_up

    def _write(self) -> CheckpointTaken | None:
        if self._is_given_up:
            return None
        snapshots = {id: pending.stream() for id, pending in self._taken.snapshots.items()}
        snapshots[IN_FLIGHT] = in_flight_snapshot(self._taken.in_flight)
        if self._is_given_up:
            return None
        saved = self._open_writer().write(self._name, snapshots)
        written_bytes = SubtaskState(saved).bytes
        *operators, rows = saved
        in_flight = in_flight_items(self._taken.in_flight, rows)
        saved = behind(self._taken.base, tuple(operators), snapshots)
        if self._taken.chains is not None:
            self._taken.chains.add(self.checkpoint_id, saved)
        report = self._taken.report
        state = msgspec.structs.replace(report.state, operators=saved, in_flight=in_flight)
        figures = msgspec.structs.replace(
            report.figures,
            written_bytes=written_bytes,
            state_bytes=state.bytes,
            in_flight_items=sum(len(items.items) for items in in_flight),
            in_flight_rows=state.in_flight_rows,
            in_flight_bytes=sum(segment.length for items in in_flight for segment in items.segments),
        )
        return dataclasses.replace(report, state=state, figures=figures)

    def _refused(self, error: Exception) -> CheckpointRefused:
        return CheckpointRefused(self._taken.report.execution_id, self.checkpoint_id, self._describe(error))

    def _discard(self) -> None:
        try:
            self._open_writer().discard(self._name)
        except Exception as error:  # the sweep of the job's files finds what is left
            logger.warning('could not remove "%s": %s', state_path(self._name), error)
