"""The writing of one subtask's state beside its task."""

from __future__ import annotations

import dataclasses
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.elements import Watermark, WatermarkStatus
from sqlstream.errors import ErrorInfo
from sqlstream.messages.checkpoint import SubtaskState, TaskRestore
from sqlstream.runtime.checkpoint.state_reader import SegmentReader, StateReader
from sqlstream.runtime.checkpoint.state_writer import StateWriter
from sqlstream.runtime.host.private_files import PrivateFiles
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot, SnapshotAborted
from sqlstream.runtime.taskmanager.checkpoints.checkpoint_reports import (
    CheckpointRefused,
    CheckpointReport,
    CheckpointTaken,
)
from sqlstream.runtime.taskmanager.checkpoints.in_flight import read_in_flight
from sqlstream.runtime.taskmanager.checkpoints.state_write import (
    SegmentChains,
    StateWrite,
    TakenState,
    WritingThreads,
)

TABLE = pa.table({KEY_GROUP_COLUMN: pa.array([3, 9], pa.int32()), "n": [1, 2]})
ROWS = [pa.record_batch({"v": [1, 2]}), pa.record_batch({"v": [3]})]


@dataclasses.dataclass
class Pending:
    """A snapshot of one table; `meanwhile` is called while it is collected."""

    meanwhile: Callable[[], Any] = lambda: None

    def stream(self) -> OperatorSnapshot:
        self.meanwhile()
        return OperatorSnapshot(keyed={"groups": TABLE})


def write_of(
    directory: Path,
    pending: Any,
    reports: list[CheckpointReport],
    in_flight: Any = None,
    store: Any = None,
    chains: SegmentChains | None = None,
) -> StateWrite:
    taken = CheckpointTaken("e1", 4, SubtaskState(splits=({"at": 5},), assignment=2))
    state = TakenState(taken, {7: pending}, in_flight or {}, {}, chains or SegmentChains())
    writer = StateWriter(store or PrivateFiles(), str(directory))
    return StateWrite(state, lambda: writer, reports.append, ErrorInfo.of)


def files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def test_what_is_written_is_reported_with_its_figures_and_read_again(tmp_path: Path) -> None:
    reports: list[CheckpointReport] = []
    write = write_of(tmp_path, Pending(), reports)
    write.run()
    (report,) = reports
    assert isinstance(report, CheckpointTaken)
    assert (report.state.splits, report.state.assignment, report.state.in_flight) == (({"at": 5},), 2, ())
    assert write.has_ended
    assert report.figures.written_bytes == report.figures.state_bytes == report.state.bytes > 0
    reader = StateReader(PrivateFiles(), TaskRestore(4, str(tmp_path), (report.state,)))
    loaded = reader.operator(7, range(5, 128))
    assert loaded is not None
    assert loaded.keyed["groups"].to_pydict() == {KEY_GROUP_COLUMN: [9], "n": [2]}


def test_items_in_flight_are_stored_in_the_order_of_their_channels(tmp_path: Path) -> None:
    reports: list[CheckpointReport] = []
    queued = [Watermark(5), ROWS[0], ROWS[1], WatermarkStatus(True)]
    write_of(
        tmp_path, Pending(), reports, {(True, 1, 0): queued, (False, 0, 2): [], (False, 0, 3): queued[:1]}
    ).run()
    (report,) = reports
    assert isinstance(report, CheckpointTaken)
    assert [o.operator_id for o in report.state.operators] == [7]
    reader = SegmentReader(PrivateFiles(), str(tmp_path))
    stored = {
        (i.is_output, i.edge, i.channel): list(read_in_flight(i, reader)) for i in report.state.in_flight
    }
    assert stored == {(True, 1, 0): queued, (False, 0, 3): [Watermark(5)]}
    assert {s.path for s in report.state.segments()} == {f"shared/{p.name}" for p in files(tmp_path)}


class Watched(PrivateFiles):
    """Calls `on_sync` when a file is written."""

    on_sync: Callable[[], None]

    def sync(self, stream: Any) -> None:
        super().sync(stream)
        self.on_sync()


def test_a_write_that_is_given_up_leaves_nothing_and_reports_nothing(tmp_path: Path) -> None:
    for moment in ("before", "while it is collected", "while it is written"):
        reports: list[CheckpointReport] = []
        pending, store = Pending(), Watched()
        store.on_sync = lambda: None
        write = write_of(tmp_path, pending, reports, store=store)
        if moment == "before":
            write.give_up()
        elif moment == "while it is collected":
            pending.meanwhile = write.give_up
        else:
            store.on_sync = write.give_up
        write.run()
        assert (reports, files(tmp_path), write.has_ended) == ([], [], True), moment


def test_no_increment_follows_a_write_that_was_given_up_while_it_was_written(tmp_path: Path) -> None:
    for is_given_up in (False, True):
        store, chains = Watched(), SegmentChains()
        write = write_of(tmp_path, Pending(), [], store=store, chains=chains)

        def abort(write: StateWrite = write, chains: SegmentChains = chains) -> None:
            write.give_up()
            chains.aborted(4)

        store.on_sync = abort if is_given_up else lambda: None
        write.run()
        assert (chains.paths(4) is None) is is_given_up


def test_a_store_that_takes_nothing_and_a_snapshot_that_is_gone_refuse_the_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "shared").write_text("no directory")

    def gone() -> None:
        raise SnapshotAborted

    for pending, code in ((Pending(), "SS5001"), (Pending(gone), "SS9001")):
        reports: list[CheckpointReport] = []
        write = write_of(tmp_path, pending, reports)
        write.run()
        (report,) = reports
        assert isinstance(report, CheckpointRefused)
        assert (report.error.code, report.checkpoint_id, write.has_ended) == (code, 4, True)


def test_writing_threads_make_every_call_and_none_behind_their_stop() -> None:
    threads, made, both = WritingThreads(2), queue.SimpleQueue[int](), threading.Barrier(2, timeout=60)
    for _ in range(2):
        threads.submit(lambda: made.put(both.wait()))
    for _ in range(10):
        threads.submit(lambda: made.put(9))
    threads.stop()
    threads.submit(lambda: made.put(7))
    assert sorted(made.get(timeout=60) for _ in range(12)) == [0, 1, *[9] * 10]
    with pytest.raises(queue.Empty):
        made.get(timeout=0.05)


def test_a_call_that_raises_is_logged_and_the_next_is_made(caplog: pytest.LogCaptureFixture) -> None:
    threads, made = WritingThreads(1), queue.SimpleQueue[int]()

    def fail() -> None:
        raise OSError("the disk does not answer")

    threads.submit(fail)
    threads.submit(lambda: made.put(5))
    assert made.get(timeout=60) == 5
    assert "the disk does not answer" in caplog.text
    threads.stop()
