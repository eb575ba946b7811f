"""The live line and the summary of an ended job."""

from __future__ import annotations

from client.following.progress import progress_text

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
