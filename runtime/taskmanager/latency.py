"""Latency markers: how long what a source reads waits on its way to each operator (Flink: LatencyMarker, LatencyStats)."""

from __future__ import annotations

import enum
import statistics
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlstream import config
from sqlstream.elements import LatencyMarker
from sqlstream.graph.latency_choice import target_ms_of
from sqlstream.messages.histogram import DurationHistogram
from sqlstream.messages.rpc import Metrics

END_TO_END = "endToEndLatency"
"""What the latencies of a job's sinks are named, all sources together."""

MARKERS_OVERDUE_MAX = 128
"""A source that was at work for long sends at most so many at once."""

_QUANTILES = (("p75", 0.75), ("p90", 0.9), ("p95", 0.95), ("p98", 0.98), ("p99", 0.99), ("p999", 0.999))


class Granularity(enum.Enum):
    """Which markers an operator keeps apart."""

    SINGLE = "single"
    OPERATOR = "operator"
    SUBTASK = "subtask"


@dataclass(frozen=True)
class LatencySettings:
    """`counts_delay`: markers stand for rows that come when they are due, also while the source is at work on others."""

    interval_ms: int
    granularity: Granularity
    history_size: int
    counts_delay: bool = False

    @staticmethod
    def of(settings: Mapping[str, str]) -> LatencySettings | None:
        """None where no markers are sent."""
        interval_ms = config.get(settings, "metrics.latency.interval")
        if interval_ms <= 0 or config.get(settings, "execution.runtime-mode") == "BATCH":
            return None
        granularity = Granularity(config.get(settings, "metrics.latency.granularity"))
        history_size: int = config.get(settings, "metrics.latency.history-size")
        return LatencySettings(interval_ms, granularity, history_size, target_ms_of(settings) > 0)


class MarkerTimer:
    """Sends a marker each interval, also while the task waits for room: a marker then waits like a row. State: when the next is
    due."""

    def __init__(
        self,
        interval_ms: int,
        now_ms: int,
        operator: int,
        subtask: int,
        emit: Callable[[LatencyMarker], None],
        counts_delay: bool = False,
    ) -> None:
        self._interval_ms = interval_ms
        self._counts_delay = counts_delay
        self._due_ms = now_ms
        self._operator, self._subtask = operator, subtask
        self._emit = emit

    def next_ms(self) -> int:
        return self._due_ms

    def send(self, now_ms: int) -> None:
        if not self._counts_delay:
            self._due_ms = now_ms
        # The clock may have been set forward; what came long ago says nothing more.
        self._due_ms = max(self._due_ms, now_ms - MARKERS_OVERDUE_MAX * self._interval_ms)
        while self._due_ms <= now_ms:
            self._emit(LatencyMarker(self._due_ms, self._operator, self._subtask))
            self._due_ms += self._interval_ms


class Latencies:
    """The latencies at one operator of one subtask. Written by the task's thread, read by any. State: the newest of each
    source that is kept apart, and with `is_sink` the classes of all."""

    def __init__(self, settings: LatencySettings, now_ms: Callable[[], int], is_sink: bool) -> None:
        self._settings = settings
        self._now_ms = now_ms
        self._newest: dict[str, deque[int]] = {}
        self._all = DurationHistogram() if is_sink else None

    def record(self, marker: LatencyMarker) -> None:
        """A marker has come. The clocks of two hosts may differ: less than nothing counts as nothing."""
        latency_ms = max(0, self._now_ms() - marker.marked_ms)
        name = self._name(marker)
        newest = self._newest.get(name)
        if newest is None:
            newest = self._newest[name] = deque(maxlen=self._settings.history_size)
        newest.append(latency_ms)
        if self._all is not None:
            self._all.add(latency_ms)

    def _name(self, marker: LatencyMarker) -> str:
        match self._settings.granularity:
            case Granularity.SINGLE:
                return "latency"
            case Granularity.OPERATOR:
                return f"source_id.{marker.operator}.latency"
            case Granularity.SUBTASK:
                return f"source_id.{marker.operator}.source_subtask_index.{marker.subtask}.latency"

    def read(self) -> Metrics:
        """Flink's statistics of the newest latencies behind the name of the source; of a sink END_TO_END as a histogram, and its
        percentiles over the newest of all sources."""
        figures: Metrics = {}
        for name, newest in list(self._newest.items()):
            figures |= {f"{name}_{stat}": value for stat, value in statistics_of(list(newest)).items()}
        if self._all is not None and self._newest:
            figures |= self._all.figures(END_TO_END)
            everything = statistics_of([ms for newest in list(self._newest.values()) for ms in list(newest)])
            figures |= {f"{END_TO_END}_{stat}": everything[stat] for stat in ("median", "p95", "p99", "max")}
        return figures


def statistics_of(latencies_ms: list[int]) -> Metrics:
    """
    >>> statistics_of([4, 1, 7])["median"], statistics_of([4, 1, 7])["p99"]
    (4, 7)
    """
    ordered = sorted(latencies_ms)
    count = len(ordered)

    def quantile(share: float) -> int:
        return ordered[min(count - 1, int(share * count))]

    return {
        "count": count,
        "min": ordered[0],
        "max": ordered[-1],
        "mean": sum(ordered) / count,
        "median": quantile(0.5),
        "stddev": statistics.pstdev(ordered),
        **{name: quantile(share) for name, share in _QUANTILES},
    }
