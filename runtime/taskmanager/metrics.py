"""Counters and time shares of a task, under Flink's names."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlstream.elements import WATERMARK_MIN
from sqlstream.messages.rpc import Metrics
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.taskmanager.latency import Latencies
from sqlstream.spi.connector import SplitFigures

RATE_WINDOW_S = 5.0
"""Over how long `…PerSecond` of records and bytes is averaged."""

_WINDOW_SAMPLES_MAX = 64


class OperatorCounters:
    """The figures of one operator in one subtask. Written by the task's thread, read by any."""

    def __init__(self) -> None:
        self.records_in = 0
        self.records_out = 0
        self.state_bytes = 0
        self.state_file_bytes = 0
        self.state_entries = 0
        self.watermark_ms = WATERMARK_MIN
        self.is_idle = False
        self.splits: Metrics = {}
        self.latencies: Latencies | None = None
        self._named: dict[str, int] = {}

    def add_records_in(self, rows: int) -> None:
        self.records_in += rows

    def count(self, name: str, n: int) -> None:
        """Add to a counter that the operator defines."""
        self._named[name] = self._named.get(name, 0) + n

    def record(self, name: str, value: int) -> None:
        """Set a gauge that the operator defines to its latest value."""
        self._named[name] = value

    def read(self) -> Metrics:
        figures: Metrics = {"numRecordsIn": self.records_in, "numRecordsOut": self.records_out}
        if self.state_bytes:
            figures["stateBytes"] = self.state_bytes
        if self.state_entries:
            figures["stateEntries"] = self.state_entries
        if self.state_file_bytes:
            figures["stateFileBytes"] = self.state_file_bytes
        if self.watermark_ms != WATERMARK_MIN:
            figures["currentOutputWatermark"] = self.watermark_ms
        if self.is_idle:
            figures["isIdle"] = 1
        if self.latencies is not None:
            figures |= self.latencies.read()
        return figures | self.splits | dict(self._named)


SPLITS_SHOWN_MAX = 32
"""How many splits of a reader have figures of their own: those that are furthest behind."""


def split_figures(splits: Sequence[SplitFigures]) -> Metrics:
    """What is left to read of all splits together, where it is known, and the figures of each split behind its name.

    >>> split_figures([SplitFigures("t-0", 5, 1_000), SplitFigures("t-1", 2, None, is_idle=True)])
    {'pendingRecords': 7, 'split.t-0.watermark.currentWatermark': 1000, 'split.t-0.pendingRecords': 5, \
'split.t-1.pendingRecords': 2, 'split.t-1.isIdle': 1}
    """
    figures: Metrics = {}
    if known := [split.pending for split in splits if split.pending is not None]:
        figures["pendingRecords"] = sum(known)
    least = sorted(splits, key=lambda split: (split.is_idle, split.watermark_ms or WATERMARK_MIN))
    for split in least[:SPLITS_SHOWN_MAX]:
        name = f"split.{split.name}"
        if split.watermark_ms is not None:
            figures[f"{name}.watermark.currentWatermark"] = split.watermark_ms
        if split.pending is not None:
            figures[f"{name}.pendingRecords"] = split.pending
        if split.is_idle:
            figures[f"{name}.isIdle"] = 1
    return figures


class TaskTimes:
    """How a task's thread spends its time: waiting for input is idle, waiting for room in an output is
    backpressured, the rest is busy.

    State: seconds waited so far and the present wait, if any. Written by the task's thread, read by any thread;
    `read_ratios` is for one reader, which gets the ratios since its previous call."""

    def __init__(self) -> None:
        self._waited_s = {"idle": 0.0, "backpressured": 0.0}
        self._waiting: tuple[str, float] | None = None
        self._started_s = steady_s()
        self._last_read = (self._started_s, 0.0, 0.0)

    @property
    def idle_s(self) -> float:
        """How long the task has waited for input, without a wait that goes on."""
        return self._waited_s["idle"]

    @contextmanager
    def idle(self) -> Iterator[None]:
        yield from self._wait("idle")

    @contextmanager
    def backpressured(self) -> Iterator[None]:
        yield from self._wait("backpressured")

    def _wait(self, kind: str) -> Iterator[None]:
        started_s = steady_s()
        self._waiting = (kind, started_s)
        try:
            yield
        finally:
            self._waiting = None
            self._waited_s[kind] += steady_s() - started_s

    def read_ratios(self) -> Metrics:
        """Milliseconds per second, as in Flink: the three add up to 1000."""
        now_s = steady_s()
        totals = dict(self._waited_s)
        waiting = self._waiting
        if waiting is not None:
            totals[waiting[0]] += now_s - waiting[1]
        last_s, last_idle_s, last_backpressured_s = self._last_read
        self._last_read = (now_s, totals["idle"], totals["backpressured"])
        return _ratios(
            now_s - last_s, totals["idle"] - last_idle_s, totals["backpressured"] - last_backpressured_s
        )

    def total_ratios(self) -> Metrics:
        """The same over the task's whole life, for its last report. Called by the task's thread."""
        return _ratios(self.lived_s(), self._waited_s["idle"], self._waited_s["backpressured"])

    def lived_s(self) -> float:
        return steady_s() - self._started_s

    def accumulated(self) -> Metrics:
        """Milliseconds since the task's start; the three add up to its age. Called by any thread."""
        now_s = steady_s()
        totals = dict(self._waited_s)
        waiting = self._waiting
        if waiting is not None:
            totals[waiting[0]] += max(0.0, now_s - waiting[1])
        lived_ms = round(1000 * (now_s - self._started_s))
        idle_ms = min(round(1000 * totals["idle"]), lived_ms)
        backpressured_ms = min(round(1000 * totals["backpressured"]), lived_ms - idle_ms)
        return {
            "accumulateIdleTimeMs": idle_ms,
            "accumulateBackPressuredTimeMs": backpressured_ms,
            "accumulateBusyTimeMs": lived_ms - idle_ms - backpressured_ms,
        }


class Rates:
    """How fast counters grow: per second over the last RATE_WINDOW_S, or since the previous reading if that is longer ago.

    State: the readings within the window. For one reader thread."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, Metrics]] = deque([(steady_s(), {})], _WINDOW_SAMPLES_MAX)

    def read(self, counters: Metrics) -> Metrics:
        """Each counter as `<name>PerSecond`."""
        now_s = steady_s()
        # The oldest reading that is kept is the youngest of those that are as old as the window.
        while len(self._readings) > 1 and now_s - self._readings[1][0] >= RATE_WINDOW_S:
            self._readings.popleft()
        then_s, then = self._readings[0]
        self._readings.append((now_s, counters))
        return per_second(counters, now_s - then_s, then)


def per_second(counters: Metrics, passed_s: float, before: Metrics) -> Metrics:
    """How much each counter has grown per second since it was as `before`, for `passed_s`.

    >>> per_second({"numRecordsIn": 30}, 2.0, {"numRecordsIn": 10})
    {'numRecordsInPerSecond': 10.0}
    """
    passed_s = max(passed_s, 1e-6)
    return {f"{name}PerSecond": (value - before.get(name, 0)) / passed_s for name, value in counters.items()}


def _ratios(passed_s: float, idle_s: float, backpressured_s: float) -> Metrics:
    passed_s = max(passed_s, 1e-6)
    idle = _per_mille(idle_s, passed_s)
    backpressured = min(_per_mille(backpressured_s, passed_s), 1000 - idle)
    return {
        "idleTimeMsPerSecond": idle,
        "backPressuredTimeMsPerSecond": backpressured,
        "busyTimeMsPerSecond": 1000 - idle - backpressured,
    }


def _per_mille(part_s: float, whole_s: float) -> int:
    return max(0, min(1000, round(1000 * part_s / whole_s)))


METRICS_INTERVAL_MS = 250
"""Interval between reports of figures while a client reads them."""

UNWATCHED_METRICS_INTERVAL_MS = 10_000
"""Interval between reports while no client reads them."""

METRICS_WATCHED_MS = 5_000
"""How long after a task's start, or after a RequestMetrics, a client is assumed to read the figures."""


class MetricsSchedule:
    """State: until when a client is assumed to read, and when figures were last collected."""

    def __init__(self) -> None:
        self.is_watched = False
        self._watched_until_ms = 0
        self._collected_ms = 0

    def watch(self, now_ms: int) -> None:
        """A client reads."""
        self._watched_until_ms = now_ms + METRICS_WATCHED_MS
        self.is_watched = True

    def is_due(self, now_ms: int, has_tasks: bool) -> bool:
        """Whether they are to be collected at this moment; True is said once."""
        self.is_watched = now_ms < self._watched_until_ms
        interval_ms = METRICS_INTERVAL_MS if self.is_watched else UNWATCHED_METRICS_INTERVAL_MS
        if not has_tasks or now_ms - self._collected_ms < interval_ms:
            return False
        self._collected_ms = now_ms
        return True
