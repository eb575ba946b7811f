"""The live line of a running job on a terminal, what a log is told of it, and its summary once it has ended."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

from sqlstream.client.rendering.live_line import LiveLine
from sqlstream.elements import WATERMARK_MAX
from sqlstream.errors import ErrorInfo, SqlStreamError
from sqlstream.messages.rpc import JobMetrics, Metrics
from sqlstream.terminal_text import display_width, shortened, shown

INTERVAL_S = 0.5
_GAP = "  "
_LEAST_USEFUL_FIRST = (
    *("checkpoint", "state", "expired", "out", "watermark", "elapsed", "name"),
    *("dropped", "rejected", "late", "restarts", "failed"),
)
"""Parts that the live line leaves out on a narrow terminal, in this order; the rows read are always shown."""

CAUSE_CHARACTERS_MAX = 80
LOGGED_CHARACTERS_MAX = 400

SILENCE_S = 5.0
SILENCE_MAX_S = 600.0
"""Off a terminal: how long after its start, and after each line, a job's restarts are told. The time doubles with each line."""

STOP_TIMEOUT_S = 1.0


class Progress:
    """Redraws the live line twice per second: rows in and out per second, watermark and its lag, state, the last checkpoint, lost
    rows; of a job that restarts, why and for how long.

    Off a terminal a job that restarts is told by a line, less and less often; of any other job nothing is said. Use as a context
    manager; leaving it erases the line.
    """

    def __init__(self, name: str, metrics: Callable[[], JobMetrics], line: LiveLine) -> None:
        self._name = name
        self._metrics = metrics
        self._line = line
        self._stop = threading.Event()
        run = self._draw_all if line.is_terminal else self._tell_restarts
        self._thread = threading.Thread(target=run, name="progress", daemon=True)

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        self._stop.set()
        self._thread.join(timeout=STOP_TIMEOUT_S)
        self._line.erase()

    def _tell_restarts(self) -> None:
        started = time.monotonic()
        told = 0
        silence_s = SILENCE_S
        while not self._stop.wait(silence_s):
            try:
                metrics = self._metrics()
            except SqlStreamError:
                return
            restarts = int(metrics.total.get("numRestarts", 0))
            if (metrics.failure is None and restarts <= told) or self._stop.is_set():
                continue
            self._line.say(restarts_text(self._name, time.monotonic() - started, metrics))
            told = restarts
            silence_s = min(2 * silence_s, SILENCE_MAX_S)

    def _draw_all(self) -> None:
        started = last_time = time.monotonic()
        last: Metrics = {}
        failed: float | None = None
        while not self._stop.wait(INTERVAL_S):
            try:
                metrics = self._metrics()
            except SqlStreamError:
                # The cluster has stopped or is stopping; the thread that waits for the job reports why.
                return
            now = time.monotonic()
            failed = None if metrics.failure is None else failed or now
            if metrics.failure is not None and failed is not None:
                line = restarting_text(self._name, now - started, now - failed, metrics.failure)
            else:
                elapsed_s, interval_s, now_ms = now - started, now - last_time, time.time() * 1000
                total, columns = metrics.total, self._line.columns
                line = progress_text(self._name, elapsed_s, interval_s, last, total, now_ms, columns)
            last, last_time = metrics.total, now
            if not self._stop.is_set():
                self._line.draw(line)


def progress_text(
    name: str,
    elapsed_s: float,
    interval_s: float,
    before: Metrics,
    total: Metrics,
    now_ms: float,
    columns: int = sys.maxsize,
) -> str:
    """The text of the live line; parts that do not fit into `columns` are left out, the least useful one first.

    >>> figures = {"numRecordsRead": 5000, "numRecordsWritten": 10, "stateBytes": 2048}
    >>> progress_text("q", 3.0, 0.5, {}, figures, 0)
    'q  3 s  in 10,000 rows/s (5,000)  out 20 rows/s (10)  state 2.0 KiB'
    >>> progress_text("q", 3.0, 0.5, {}, {"batchTasksTotal": 8, "batchTasksDone": 2, "batchEngineStarting": 1}, 0)
    'q  3 s  in 0 rows/s (0)  out 0 rows/s (0)  starting Spark  tasks 2/8  state 0 B'
    >>> progress_text("q", 3.0, 0.5, {}, figures, 0, columns=40)
    'q  3 s  in 10,000 rows/s (5,000)'
    """
    parts = {"name": name, "elapsed": f"{elapsed_s:.0f} s"}
    for label, key in (("in", "numRecordsRead"), ("out", "numRecordsWritten")):
        # Figures of attempts that a restart has replaced are gone.
        rate = max(0, total.get(key, 0) - before.get(key, 0)) / max(interval_s, 1e-9)
        parts[label] = f"{label} {rate:,.0f} rows/s ({total.get(key, 0):,})"
    watermark = total.get("currentOutputWatermark")
    if watermark is not None and 0 < watermark < WATERMARK_MAX:
        lag_s = max(0.0, now_ms - watermark) / 1000
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(watermark / 1000))
        parts["watermark"] = f"watermark {moment} (lag {_span(lag_s)})"
    if total.get("batchEngineStarting"):
        parts["starting"] = "starting Spark"
    if total.get("batchTasksTotal"):
        parts["tasks"] = f"tasks {total.get('batchTasksDone', 0):,}/{total['batchTasksTotal']:,}"
    parts["state"] = f"state {size_text(total.get('stateBytes', 0))}"
    if completed_ms := total.get("lastCheckpointCompletedTimestamp"):
        age = _span(max(0.0, now_ms - completed_ms) / 1000)
        size = size_text(total.get("lastCheckpointFullSize", 0))
        parts["checkpoint"] = f"checkpoint {total.get('lastCompletedCheckpointId', 0):,} {age} ago ({size})"
    for label, key in (
        *(("late", "numLateRecordsDropped"), ("rejected", "numRecordsRejected")),
        *(("dropped", "numNullRecordsDropped"), ("expired", "numStateEntriesExpired")),
        ("restarts", "numRestarts"),
    ):
        if total.get(key):
            parts[label] = f"{label} {total[key]:,}"
    if failed := total.get("numberOfFailedCheckpoints"):
        parts["failed"] = f"failed checkpoints {failed:,}"
    for label in _LEAST_USEFUL_FIRST:
        if display_width(_GAP.join(parts.values())) <= columns:
            break
        parts.pop(label, None)
    return _GAP.join(parts.values())


def restarting_text(name: str, elapsed_s: float, failed_s: float, cause: ErrorInfo) -> str:
    """The live line of a job whose tasks are ended and started again.

    >>> restarting_text("q", 12.0, 3.0, ErrorInfo("SS6006", "the TaskManager is lost"))
    'q  12 s  RESTARTING for 3 s: error[SS6006]: the TaskManager is lost'
    """
    return f"{name}{_GAP}{elapsed_s:.0f} s{_GAP}RESTARTING for {failed_s:.0f} s: {_cause(cause, CAUSE_CHARACTERS_MAX)}"


def restarts_text(name: str, elapsed_s: float, metrics: JobMetrics) -> str:
    """What a log is told of the restarts of a job since its start, and of the one that is under way.

    >>> lost = ErrorInfo("SS6006", "the TaskManager is lost")
    >>> restarts_text("q", 12.0, JobMetrics("j", None, {"numRestarts": 2}, {}, lost, lost))
    'note: q was restarted twice in 12 s and is restarting: error[SS6006]: the TaskManager is lost'
    >>> restarts_text("q", 500.0, JobMetrics("j", None, {"numRestarts": 1}, {}, None, lost))
    'note: q was restarted once in 8 min, last after error[SS6006]: the TaskManager is lost'
    >>> restarts_text("q", 5.0, JobMetrics("j", None, {}, {}, lost, lost))
    'note: q is restarting: error[SS6006]: the TaskManager is lost'
    """
    restarts, failure = int(metrics.total.get("numRestarts", 0)), metrics.failure
    parts = []
    if restarts:
        times = {1: "once", 2: "twice"}.get(restarts, f"{restarts:,} times")
        parts.append(f"was restarted {times} in {_span(elapsed_s)}")
    if failure is not None:
        parts.append(f"is restarting: {_cause(failure, LOGGED_CHARACTERS_MAX)}")
    elif metrics.last_failure is not None:
        parts[-1] += f", last after {_cause(metrics.last_failure, LOGGED_CHARACTERS_MAX)}"
    return f"note: {name} {' and '.join(parts)}"


def _cause(error: ErrorInfo, longest: int) -> str:
    return f"error[{error.code}]: {shown(shortened(error.message, longest))}"


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.0f} h" if seconds < 172_800 else f"{seconds / 86_400:,.0f} d"


def size_text(size: float) -> str:
    """Bytes in binary units.

    >>> size_text(1536)
    '1.5 KiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def closing_text(name: str, total: Metrics, seconds: float) -> str:
    """The rows that a finished job read, wrote, and lost, and how often it was saved and restarted.

    >>> closing_text("insert", {"numRecordsRead": 12, "numRecordsWritten": 3}, 0.5)
    'insert: read 12 rows, wrote 3, late 0, rejected 0 in 0.50 s'
    >>> closing_text("DELETE FROM t", {"numRecordsRead": 12, "numRowsChanged": 0}, 0.5)
    'DELETE FROM t: read 12 rows, deleted 0, late 0, rejected 0 in 0.50 s'
    """
    counts = "".join(
        f", {said} {total[key]:,}"
        for said, key in (("checkpoints", "numberOfCompletedCheckpoints"), ("restarts", "numRestarts"))
        if total.get(key)
    )
    # The figures of an attempt that was lost are lost with it.
    since = " since the last restart" if total.get("numRestarts") else ""
    if "numRowsChanged" in total:
        did = f"{'updated' if name.startswith('UPDATE') else 'deleted'} {total['numRowsChanged']:,}"
    else:
        did = f"wrote {total.get('numRecordsWritten', 0):,}"
    return (
        f"{name}: read {total.get('numRecordsRead', 0):,} rows, {did}{since},"
        f" late {total.get('numLateRecordsDropped', 0):,}, rejected {total.get('numRecordsRejected', 0):,}{counts}"
        f" in {seconds:.2f} s"
    )
