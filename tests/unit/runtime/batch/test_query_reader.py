"""The rows of an engine as a source: in order, bounded while nobody reads, and gone when the task gives up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pyarrow as pa
import pytest
from batch_harness import NUMBERS, plan
from committable_harness import file_of

from sqlstream.batch_plan import BatchPlan
from sqlstream.errors import InternalError, UserError
from sqlstream.runtime.batch.engine import BatchCancelled, BatchRun
from sqlstream.runtime.batch.query_reader import HELD_BYTES_MAX, BatchQueryReader
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.taskmanager.metrics import OperatorCounters
from sqlstream.spi.connector import SourceStatus

MEBIBYTE_OF_ROWS = pa.record_batch({"c": pa.array(range(2**17), pa.int64())})


class ScriptedEngine:
    """Runs a function as its query. State: how often it was cancelled."""

    name = "scripted"

    def __init__(self, query: Callable[[BatchRun], None]) -> None:
        self._query = query
        self.cancelled = 0

    def run(self, plan: BatchPlan, run: BatchRun) -> None:
        self._query(run)

    def cancel(self, job_id: str) -> None:
        self.cancelled += 1

    def explain(self, plan: BatchPlan, files: object) -> str:
        return ""

    def close(self) -> None:
        return None


class Reading:
    """A reader over a scripted engine, with the counters of a query, of table t0 and of the sink."""

    def __init__(self, query: Callable[[BatchRun], None]) -> None:
        self.engine = ScriptedEngine(query)
        self.counters = {name: OperatorCounters() for name in ("query", "t0", "output")}
        self.lines: list[str] = []
        self.on_print: Callable[[], object] = lambda: None
        self.blamed: list[str] = []
        self.reader = BatchQueryReader(
            plan("", NUMBERS),
            self.engine,
            "a",
            LocalFiles(),
            self._print,
            self.counters,
            self.blamed.append,
        )

    def _print(self, lines: list[str], is_error: bool) -> None:
        self.on_print()
        self.lines += lines

    def all(self) -> list[int]:
        rows: list[int] = []
        while (polled := self.reader.poll()) is not SourceStatus.END:
            if isinstance(polled, pa.RecordBatch):
                rows += polled.column(0).to_pylist()
        return rows


def batch(*numbers: int, t: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.record_batch({"whatever": pa.array(numbers, t or pa.int32())})


def wait_until_it_waits(reading: Reading) -> None:
    """Until the engine waits for somebody to poll."""
    deadline_s = time.monotonic() + 60
    while not reading.reader._changed._waiters:  # type: ignore[attr-defined]
        assert time.monotonic() < deadline_s, "the engine does not wait"
        time.sleep(0.001)


def test_rows_come_in_order_in_the_types_of_the_plan() -> None:
    def query(run: BatchRun) -> None:
        for number in range(5):
            run.emit(0, batch(number))

    reading = Reading(query)
    first = reading.reader.poll()
    assert isinstance(first, pa.RecordBatch)
    assert first.schema == pa.schema([("n", pa.int64())])
    assert first.column(0).to_pylist() + reading.all() == [0, 1, 2, 3, 4]


def test_figures_and_lines_reach_the_task_with_its_polls() -> None:
    def query(run: BatchRun) -> None:
        run.count("t0", "numRecordsOut", 7)
        run.count("t0", "numRecordsRejected", 2)
        run.count("output", "numRecordsIn", 3)
        run.report(1, 4)
        run.state("starting")
        run.print_lines(["a line"], True)

    reading = Reading(query)
    assert reading.all() == []
    assert reading.counters["t0"].read() == {"numRecordsIn": 0, "numRecordsOut": 7, "numRecordsRejected": 2}
    assert reading.counters["output"].records_in == 3
    assert reading.counters["query"].read() == {
        "numRecordsIn": 0,
        "numRecordsOut": 0,
        "batchTasksDone": 1,
        "batchTasksTotal": 4,
        "batchEngineStarting": 1,
    }
    assert reading.lines == ["a line"]


def test_an_engine_goes_on_while_its_lines_wait_for_the_client() -> None:
    begin, has_gone_on = threading.Event(), threading.Event()

    def query(run: BatchRun) -> None:
        begin.wait()
        run.print_lines(["first", "second"], True)
        run.print_lines(["third"], True)
        is_printing.wait()
        run.count("t0", "numRecordsOut", 7)
        run.emit(0, batch(1))
        run.print_lines(["fourth"], True)
        has_gone_on.set()

    is_printing = threading.Event()
    reading = Reading(query)
    waited: list[bool] = []

    def wait_for_the_engine() -> None:
        is_printing.set()
        waited.append(has_gone_on.wait(60))

    reading.on_print = wait_for_the_engine
    begin.set()
    assert reading.all() == [1]
    assert waited == [True, True, True]
    assert reading.lines == ["first", "second", "third", "fourth"]


def test_an_engine_waits_while_nobody_polls() -> None:
    emitted: list[int] = []

    def query(run: BatchRun) -> None:
        for number in range(100):
            run.emit(0, MEBIBYTE_OF_ROWS)
            emitted.append(number)

    reading = Reading(query)
    wait_until_it_waits(reading)
    assert len(emitted) == HELD_BYTES_MAX // MEBIBYTE_OF_ROWS.nbytes
    assert len(reading.all()) == 100 * MEBIBYTE_OF_ROWS.num_rows


def test_closing_wakes_an_engine_that_waits_for_the_reader() -> None:
    ended: list[type[BaseException]] = []

    def query(run: BatchRun) -> None:
        try:
            while True:
                run.emit(0, MEBIBYTE_OF_ROWS)
        except BatchCancelled:
            ended.append(BatchCancelled)
            raise

    reading = Reading(query)
    wait_until_it_waits(reading)
    reading.reader.close()
    assert ended == [BatchCancelled]
    assert reading.engine.cancelled >= 1


def test_closing_cancels_again_an_engine_that_had_not_begun() -> None:
    begin = threading.Event()

    def query(run: BatchRun) -> None:
        begin.wait()
        while reading.engine.cancelled < 3:
            time.sleep(0.01)

    reading = Reading(query)
    threading.Timer(0.1, begin.set).start()
    reading.reader.close()
    assert reading.engine.cancelled >= 3


def test_a_failure_comes_behind_the_rows_before_it() -> None:
    def query(run: BatchRun) -> None:
        run.emit(0, batch(1))
        raise UserError("SS5011", "a row that cannot be decoded")

    reading = Reading(query)
    with pytest.raises(UserError, match="a row that cannot be decoded"):
        reading.all()


def test_a_failure_to_read_names_its_table() -> None:
    def query(run: BatchRun) -> None:
        run.blame("t0")
        raise UserError("SS5011", "a row that cannot be decoded")

    reading = Reading(query)
    with pytest.raises(UserError):
        reading.all()
    assert reading.blamed == ["t0"]


def test_a_value_that_does_not_fit_its_column_is_our_bug() -> None:
    reading = Reading(lambda run: run.emit(0, batch(2**63, t=pa.uint64())))
    with pytest.raises(InternalError, match='column "n" came as uint64'):
        reading.all()


def test_committables_of_other_processes_are_kept_for_the_commit() -> None:
    reading = Reading(lambda run: run.written(0, [file_of("a"), file_of("b")]))
    assert reading.all() == []
    assert reading.reader.committables == [file_of("a"), file_of("b")]


def test_closing_after_the_end_cancels_nothing_and_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    reading = Reading(lambda run: run.emit(0, batch(1)))
    assert reading.all() == [1]
    reading.reader.close()
    assert reading.engine.cancelled == 0
    assert caplog.records == []
