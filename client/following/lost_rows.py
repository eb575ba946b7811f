"""Warnings and hints on the late, undecodable and dropped rows of a job, on its expired state and its restarts."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence

from sqlstream.client.following.remarks import Remark, Severity
from sqlstream.messages.rpc import JobMetrics, Metrics, RestartRecord
from sqlstream.terminal_text import shown

RESTARTS_SHOWN_MAX = 3


@dataclasses.dataclass(frozen=True)
class RejectedRowsPlace:
    """Where the undecodable rows of `table` are kept; `path` is None when they are only counted."""

    table: str
    path: str | None


def job_remarks(
    metrics: JobMetrics,
    places: Mapping[int, RejectedRowsPlace],
    read_restarts: Callable[[], Sequence[RestartRecord]],
) -> list[Remark]:
    """All remarks on an ended job: its lost rows, its expired state, and its restarts, which are read if there were any.
    `places` maps a source's operator id to its place."""
    remarks = [*lost_rows(metrics, places), *expired_state(metrics.total)]
    count = int(metrics.total.get("numRestarts", 0))
    return [*remarks, restarts_remark(read_restarts(), count)] if count else remarks


def lost_rows(metrics: JobMetrics, places: Mapping[int, RejectedRowsPlace]) -> list[Remark]:
    """A warning and a hint for each way in which rows were lost.

    >>> for line in lost_rows(JobMetrics("j", None, {"numLateRecordsDropped": 1200}, {}), {})[0].lines:
    ...     print(line)
    warning: 1,200 late rows were dropped
    hint: give the watermark a longer delay: WATERMARK FOR ts AS ts - INTERVAL '…' SECOND
    """
    total = metrics.total
    remarks = []
    if late := total.get("numLateRecordsDropped"):
        hint = "hint: give the watermark a longer delay: WATERMARK FOR ts AS ts - INTERVAL '…' SECOND"
        remarks.append(_warning(f"{_rows(late, 'late ')} dropped", hint))
    for operator_id, operator in metrics.operators.items():
        if rejected := operator.get("numRecordsRejected"):
            remarks.append(_rejected_rows(rejected, places.get(operator_id)))
    if nulls := total.get("numNullRecordsDropped"):
        hint = "hint: guard the column with COALESCE, or SET 'table.exec.sink.not-null-enforcer' = 'ERROR'"
        remarks.append(_warning(f"{_rows(nulls)} dropped for a NULL in a NOT NULL column", hint))
    if invalid := total.get("numInvalidOperations"):
        said = f"{_rows(invalid)} left out: FROM_CHANGELOG does not map their operations"
        remarks.append(_warning(said, "hint: add the operations to op_mapping"))
    if overflows := total.get("numArithmeticOverflows"):
        what = "sum, product or cast has" if overflows == 1 else "sums, products or casts have"
        hint = (
            "hint: CAST arguments to a wider type, as in SUM(CAST(v AS BIGINT));"
            " SET 'table.exec.arithmetic-overflow' = 'fail' names the first"
        )
        said = f"{int(overflows):,} {what} left the range of the type, and kept the low bits"
        remarks.append(_warning(said, hint))
    return remarks + _events(total)


def _events(total: Metrics) -> list[Remark]:
    """What events of another database said that no row shows.

    >>> _events({"numEventsPassedOver": 2})[0].text
    '2 events that change no row were passed over: heartbeats, changes of the schema and the like'
    """
    remarks = []
    if told := int(total.get("numEventsPassedOver", 0)):
        said = "event that changes no row was" if told == 1 else "events that change no row were"
        text = f"{told:,} {said} passed over: heartbeats, changes of the schema and the like"
        remarks.append(Remark(Severity.NOTE, text))
    if truncations := int(total.get("numTruncationsPassedOver", 0)):
        said = "truncation was" if truncations == 1 else "truncations were"
        hint = "hint: have the database delete the rows instead, or start the job anew behind it"
        remarks.append(_warning(f"{truncations:,} {said} passed over: the rows before stay", hint))
    if unknown := int(total.get("numUnknownValues", 0)):
        said = "value is" if unknown == 1 else "values are"
        text = f"{unknown:,} {said} NULL: the events do not have them, and no event before them did"
        hint = "hint: read from a snapshot of the table on, or have the database log whole rows"
        remarks.append(_warning(text, hint))
    return remarks


def expired_state(total: Metrics) -> list[Remark]:
    """A note and a hint when entries of state reached the time to live that the user has set.

    >>> expired_state({"numStateEntriesExpired": 1})[0].text
    '1 entry of state expired'
    """
    expired = int(total.get("numStateEntriesExpired", 0))
    if not expired:
        return []
    said = f"{expired:,} {'entry' if expired == 1 else 'entries'} of state expired"
    hint = (
        "hint: rows that come later for the same keys start anew; a longer 'table.exec.state.ttl' keeps them"
    )
    return [Remark(Severity.NOTE, said, (hint,))]


def restarts_remark(restarts: Sequence[RestartRecord], count: int) -> Remark:
    """How often a job was restarted, and a line on each of the last RESTARTS_SHOWN_MAX; `restarts` has the newest first."""
    last = restarts[:RESTARTS_SHOWN_MAX]
    times = "once" if count == 1 else f"{count:,} times"
    shortened = f"; the last {len(last)}:" if len(last) < count else ""
    lines = tuple(restart_text(restart) for restart in reversed(last))
    return Remark(Severity.NOTE, f"the job was restarted {times}{shortened}", lines)


def restart_text(restart: RestartRecord) -> str:
    """When it failed, what it goes on from, and why; in local time."""
    moment = time.strftime("%H:%M:%S", time.localtime(restart.failed_ms / 1000))
    task = f"{restart.task}: " if restart.task else ""
    cause = f"{task}error[{restart.error.code}]: {shown(restart.error.message)}"
    return f"  failed at {moment}{_origin(restart.checkpoint_id)}: {cause}"


def _origin(checkpoint_id: int) -> str:
    if checkpoint_id < 0:
        return ""
    return f", went on from checkpoint {checkpoint_id}" if checkpoint_id else ", began again"


def _rejected_rows(count: float, place: RejectedRowsPlace | None) -> Remark:
    table = f' of table "{place.table}"' if place is not None else ""
    said = f"{_rows(count, table=table)} left out: undecodable"
    if place is None or place.path is None:
        return _warning(
            f"{said}; the first ones are shown above",
            "hint: add /*+ OPTIONS('source.rejected-rows.path' = 'directory') */ to the table to keep all of them",
        )
    hint = "hint: each line there names the file, the line and the reason"
    return _warning(f"{said}, kept in {place.path}", f"{hint}, as do the rows of `{place.table}$errors`")


def _warning(text: str, hint: str) -> Remark:
    return Remark(Severity.WARNING, text, (hint,))


def _rows(count: float, kind: str = "", table: str = "") -> str:
    return f"{int(count):,} {kind}row{'' if count == 1 else 's'}{table} {'was' if count == 1 else 'were'}"
