"""Warnings and hints on the rows that a job lost."""

from __future__ import annotations

from sqlstream.client.following.lost_rows import RejectedRowsPlace, expired_state, lost_rows
from sqlstream.client.following.remarks import lines_of
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobMetrics, Metrics


def said(total: Metrics, operators: dict[int, Metrics], places: dict[int, RejectedRowsPlace]) -> list[str]:
    return lines_of(lost_rows(JobMetrics("j", JobStatus.FINISHED, total, operators), places))


def test_nothing_is_said_when_nothing_was_lost() -> None:
    assert said({"numLateRecordsDropped": 0, "numRecordsRead": 5}, {1: {"numRecordsRejected": 0}}, {}) == []
    assert expired_state({"numStateEntriesExpired": 0}) == []


def test_rejected_rows_are_told_by_table_with_the_place_or_that_there_is_none() -> None:
    places = {1: RejectedRowsPlace("a", "/d/rejected-j-*.json"), 2: RejectedRowsPlace("b", None)}
    lines = said({}, {1: {"numRecordsRejected": 2}, 2: {"numRecordsRejected": 1}, 3: {}}, places)
    assert lines[0] == 'warning: 2 rows of table "a" were left out: undecodable, kept in /d/rejected-j-*.json'
    assert lines[2] == 'warning: 1 row of table "b" was left out: undecodable; the first ones are shown above'
    assert "source.rejected-rows.path" in lines[3]


def test_every_warning_has_a_hint() -> None:
    lines = said({"numLateRecordsDropped": 1, "numNullRecordsDropped": 3}, {}, {})
    assert [line.split(":")[0] for line in lines] == ["warning", "hint"] * 2
    assert lines[0] == "warning: 1 late row was dropped"
    assert lines[2] == "warning: 3 rows were dropped for a NULL in a NOT NULL column"
    assert [line.split(":")[0] for line in lines_of(expired_state({"numStateEntriesExpired": 2}))] == [
        "note",
        "hint",
    ]
