"""The live line and the summary of an ended job."""

from __future__ import annotations

import io
import time

import pytest

from sqlstream.client.following import progress
from sqlstream.client.following.progress import Progress, closing_text, progress_text, size_text
from sqlstream.client.rendering.live_line import LiveLine
from sqlstream.elements import WATERMARK_MAX
from sqlstream.errors import ErrorInfo
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobMetrics

FIGURES = {
    "numRecordsRead": 5000,
    "numRecordsWritten": 10,
    "stateBytes": 2048,
    "currentOutputWatermark": 1_000_000_000_000,
    "numLateRecordsDropped": 7,
    "numRecordsRejected": 3,
    "numStateEntriesExpired": 2,
}


def line(columns: int) -> str:
    return progress_text("INSERT INTO a_table", 3.0, 0.5, {}, FIGURES, 1_000_000_001_000, columns)


def test_a_narrow_line_leaves_out_its_least_useful_parts_and_lost_rows_last() -> None:
    assert "state 2.0 KiB" in line(200)
    for columns in range(60, 160):
        assert len(line(columns)) <= columns
        assert "in 10,000 rows/s (5,000)" in line(columns)
        assert "late 7  rejected 3" in line(columns)
    assert line(60) == "in 10,000 rows/s (5,000)  late 7  rejected 3"
    assert "state" not in line(130)
    assert "watermark" in line(130)
    assert line(10) == "in 10,000 rows/s (5,000)"


@pytest.mark.parametrize(
    ("lag_ms", "lag"),
    [
        *((0, "0 s"), (-5_000, "0 s"), (119_400, "119 s"), (120_000, "2 min"), (7_199_000, "120 min")),
        *((7_200_000, "2 h"), (172_799_000, "48 h"), (172_800_000, "2 d"), (86_400_000_000, "1,000 d")),
    ],
)
def test_the_lag_of_the_watermark_has_one_unit(lag_ms: int, lag: str) -> None:
    figures = {"currentOutputWatermark": 1_709_208_000_000}
    text = progress_text("q", 1.0, 0.5, {}, figures, 1_709_208_000_000 + lag_ms)
    assert text.split("  ")[4] == f"watermark 2024-02-29 12:00:00 (lag {lag})"


@pytest.mark.parametrize("watermark", [None, 0, -1, WATERMARK_MAX])
def test_a_watermark_that_says_nothing_is_not_shown(watermark: int | None) -> None:
    figures = {} if watermark is None else {"currentOutputWatermark": watermark}
    assert (
        progress_text("q", 1.0, 0.5, {}, figures, 5) == "q  1 s  in 0 rows/s (0)  out 0 rows/s (0)  state 0 B"
    )
    assert "watermark" in progress_text("q", 1.0, 0.5, {}, {"currentOutputWatermark": 1}, 5)


def test_rates_are_those_since_the_last_figures() -> None:
    before, total = (
        {"numRecordsRead": 100, "numRecordsWritten": 5},
        {"numRecordsRead": 400, "numRecordsWritten": 5},
    )
    assert progress_text("q", 9.0, 2.0, before, total, 0) == (
        "q  9 s  in 150 rows/s (400)  out 0 rows/s (5)  state 0 B"
    )


def test_figures_that_begin_anew_have_no_rate() -> None:
    before, total = {"numRecordsRead": 400}, {"numRecordsRead": 100, "numRestarts": 1}
    assert progress_text("q", 9.0, 2.0, before, total, 0) == (
        "q  9 s  in 0 rows/s (100)  out 0 rows/s (0)  state 0 B  restarts 1"
    )


def test_the_tasks_of_an_engine_and_every_kind_of_lost_row_are_told() -> None:
    figures = {
        "batchEngineStarting": 1,
        "batchTasksTotal": 2000,
        "numLateRecordsDropped": 1000,
        "numRecordsRejected": 2,
        "numNullRecordsDropped": 3,
        "numStateEntriesExpired": 4,
    }
    assert progress_text("q", 1.0, 0.5, {}, figures, 0) == (
        "q  1 s  in 0 rows/s (0)  out 0 rows/s (0)  starting Spark  tasks 0/2,000  state 0 B"
        "  late 1,000  rejected 2  dropped 3  expired 4"
    )


@pytest.mark.parametrize(
    ("size", "text"),
    [
        *((0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (2**20 - 1, "1024.0 KiB"), (2**20, "1.0 MiB")),
        *((2**30, "1.0 GiB"), (2**41, "2048.0 GiB")),
    ],
)
def test_sizes_have_binary_units(size: int, text: str) -> None:
    assert size_text(size) == text


def test_a_finished_job_tells_what_it_read_wrote_and_lost() -> None:
    assert closing_text("q", {}, 1.005) == "q: read 0 rows, wrote 0, late 0, rejected 0 in 1.00 s"
    total = {
        "numRecordsRead": 1000,
        "numRecordsWritten": 2000,
        "numLateRecordsDropped": 3000,
        "numRecordsRejected": 4000,
    }
    assert (
        closing_text("q", total, 2) == "q: read 1,000 rows, wrote 2,000, late 3,000, rejected 4,000 in 2.00 s"
    )


CHECKPOINTS = {
    "numberOfCompletedCheckpoints": 12,
    "lastCompletedCheckpointId": 13,
    "lastCheckpointCompletedTimestamp": 1_000_000_000_000,
    "lastCheckpointFullSize": 3 * 2**20,
    "numberOfFailedCheckpoints": 1,
    "numRestarts": 2,
}


def test_the_last_checkpoint_is_told_with_its_age_and_size_and_goes_first_when_there_is_no_room() -> None:
    def line(columns: int) -> str:
        return progress_text("q", 9.0, 2.0, {}, CHECKPOINTS, 1_000_000_004_000, columns)

    assert line(200) == (
        "q  9 s  in 0 rows/s (0)  out 0 rows/s (0)  state 0 B  checkpoint 13 4 s ago (3.0 MiB)  restarts 2"
        "  failed checkpoints 1"
    )
    assert line(100) == (
        "q  9 s  in 0 rows/s (0)  out 0 rows/s (0)  state 0 B  restarts 2  failed checkpoints 1"
    )
    assert line(60) == "q  9 s  in 0 rows/s (0)  restarts 2  failed checkpoints 1"


def test_a_finished_job_tells_how_often_it_was_saved_and_restarted() -> None:
    assert closing_text("q", CHECKPOINTS, 2) == (
        "q: read 0 rows, wrote 0 since the last restart, late 0, rejected 0, checkpoints 12, restarts 2 in 2.00 s"
    )


def test_a_log_is_told_of_restarts_and_of_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SILENCE_S", 0.001)
    lost = ErrorInfo("SS6006", "the TaskManager is lost")
    figures = [(0, None), (0, lost), (1, None), (1, None), (2, lost)]
    asked = 0

    def metrics() -> JobMetrics:
        nonlocal asked
        restarts, failure = figures[min(asked, len(figures) - 1)]
        asked += 1
        total = {"numRecordsRead": 5, "numRestarts": restarts}
        return JobMetrics("j", JobStatus.RUNNING, total, {}, failure, lost)

    log = io.StringIO()
    with Progress("insert", metrics, LiveLine(log)):
        deadline_s = time.monotonic() + 60
        while log.getvalue().count("\n") < 3:
            assert time.monotonic() < deadline_s
            time.sleep(0.001)
    assert log.getvalue().split("\n")[:3] == [
        "note: insert is restarting: error[SS6006]: the TaskManager is lost",
        "note: insert was restarted once in 0 s, last after error[SS6006]: the TaskManager is lost",
        "note: insert was restarted twice in 0 s and is restarting: error[SS6006]: the TaskManager is lost",
    ]
