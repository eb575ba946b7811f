"""Warnings and hints on the late, undecodable and dropped rows of a job, on its expired state and its restarts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from sqlstream.client.following.restarts import restarts_text
from sqlstream.messages.rpc import JobMetrics, Metrics, RestartRecord


@dataclasses.dataclass(frozen=True)
class RejectedRowsPlace:
    """Where the undecodable rows of `table` are kept; `path` is None when they are only counted."""

    table: str
    path: str | None


def lost_rows_text(metrics: JobMetrics, places: Mapping[int, RejectedRowsPlace]) -> list[str]:
    """A warning and a hint for each way in which rows were lost; `places` maps a source's operator id to its place.

    >>> for line in lost_rows_text(JobMetrics("j", None, {"numLateRecordsDropped": 1200}, {}), {}):
    ...     print(line)
    warning: 1,200 late rows were dropped
    hint: give the watermark a longer delay: WATERMARK FOR ts AS ts - INTERVAL '…' SECOND
    """
    lines = []
    if late := metrics.total.get("numLateRecordsDropped"):
        lines.append(f"warning: {_rows(late, 'late ')} dropped")
        lines.append("hint: give the watermark a longer delay: WATERMARK FOR ts AS ts - INTERVAL '…' SECOND")
    for operator_id, operator in metrics.operators.items():
        if rejected := operator.get("numRecordsRejected"):
            lines += _rejected_text(rejected, places.get(operator_id))
    if nulls := metrics.total.get("numNullRecordsDropped"):
        lines.append(f"warning: {_rows(nulls)} dropped for a NULL in a NOT NULL column")
        lines.append(
            "hint: guard the column with COALESCE, or SET 'table.exec.sink.not-null-enforcer' = 'ERROR'"
        )
    if invalid := metrics.total.get("numInvalidOperations"):
        lines.append(f"warning: {_rows(invalid)} left out: FROM_CHANGELOG does not map their operations")
        lines.append("hint: add the operations to op_mapping")
    if overflows := metrics.total.get("numArithmeticOverflows"):
        lines.append(
            f"warning: {int(overflows):,} {'sum, product or cast has' if overflows == 1 else 'sums, products or casts have'}"
            " left the range of the type, and kept the low bits"
        )
        lines.append(
            "hint: CAST arguments to a wider type, as in SUM(CAST(v AS BIGINT));"
            " SET 'table.exec.arithmetic-overflow' = 'fail' names the first"
        )
    return lines + _events_text(metrics.total)


def _events_text(total: Metrics) -> list[str]:
    """What events of another database said that no row shows.

    >>> _events_text({"numEventsPassedOver": 2})
    ['note: 2 events that change no row were passed over: heartbeats, changes of the schema and the like']
    """
    lines = []
    if told := int(total.get("numEventsPassedOver", 0)):
        said = "event that changes no row was" if told == 1 else "events that change no row were"
        lines.append(f"note: {told:,} {said} passed over: heartbeats, changes of the schema and the like")
    if truncations := int(total.get("numTruncationsPassedOver", 0)):
        said = "truncation was" if truncations == 1 else "truncations were"
        lines.append(f"warning: {truncations:,} {said} passed over: the rows before stay")
        lines.append("hint: have the database delete the rows instead, or start the job anew behind it")
    if unknown := int(total.get("numUnknownValues", 0)):
        said = "value is" if unknown == 1 else "values are"
        lines.append(
            f"warning: {unknown:,} {said} NULL: the events do not have them, and no event before them did"
        )
        lines.append("hint: read from a snapshot of the table on, or have the database log whole rows")
    return lines


def expired_state_text(total: Metrics) -> list[str]:
    """A note and a hint when entries of state reached the time to live that the user has set.

    >>> expired_state_text({"numStateEntriesExpired": 1})[0]
    'note: 1 entry of state expired'
    """
    expired = int(total.get("numStateEntriesExpired", 0))
    if not expired:
        return []
    return [
        f"note: {expired:,} {'entry' if expired == 1 else 'entries'} of state expired",
        "hint: rows that come later for the same keys start anew; a longer 'table.exec.state.ttl' keeps them",
    ]


def job_warnings(
    metrics: JobMetrics,
    places: Mapping[int, RejectedRowsPlace],
    read_restarts: Callable[[], Sequence[RestartRecord]],
) -> list[str]:
    """All lines on an ended job: its lost rows, its expired state, and its restarts, which are read if there were any."""
    lines = [*lost_rows_text(metrics, places), *expired_state_text(metrics.total)]
    count = int(metrics.total.get("numRestarts", 0))
    return [*lines, *restarts_text(read_restarts(), count)] if count else lines


def _rejected_text(count: float, place: RejectedRowsPlace | None) -> list[str]:
    table = f' of table "{place.table}"' if place is not None else ""
    said = f"warning: {_rows(count, table=table)} left out: undecodable"
    if place is None or place.path is None:
        return [
            f"{said}; the first ones are shown above",
            "hint: add /*+ OPTIONS('source.rejected-rows.path' = 'directory') */ to the table to keep all of them",
        ]
    hint = "hint: each line there names the file, the line and the reason"
    return [f"{said}, kept in {place.path}", f"{hint}, as do the rows of `{place.table}$errors`"]


def _rows(count: float, kind: str = "", table: str = "") -> str:
    return f"{int(count):,} {kind}row{'' if count == 1 else 's'}{table} {'was' if count == 1 else 'were'}"
