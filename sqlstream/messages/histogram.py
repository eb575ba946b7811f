"""Durations counted by size, as figures among a job's metrics: they can be added, and Prometheus reads them as a histogram."""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping

from sqlstream.messages.rpc import Metrics

BOUNDS_MS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 1_800_000),
)
"""The upper bounds of the classes; what is longer is counted in the last one, which has none."""

_PART = re.compile(r"(\w+)\.(le\.(\d+)|count|sum)")


class DurationHistogram:
    """State: how many durations are in each class, and their sum."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_MS) + 1)
        self._sum_ms = 0

    def add(self, duration_ms: int) -> None:
        self._counts[bisect.bisect_left(BOUNDS_MS, duration_ms)] += 1
        self._sum_ms += duration_ms

    def figures(self, name: str) -> Metrics:
        """`name.le.BOUND` for how many are at most so long, where there is any, `name.count` and `name.sum`; nothing while none
        was added.

        >>> durations = DurationHistogram()
        >>> for duration_ms in (3, 4, 400_000_000): durations.add(duration_ms)
        >>> {k: v for k, v in durations.figures("d").items() if k in ("d.le.2", "d.le.5", "d.le.1800000", "d.count", "d.sum")}
        {'d.le.2': 0, 'd.le.5': 2, 'd.le.1800000': 2, 'd.count': 3, 'd.sum': 400000007}
        """
        total = sum(self._counts)
        if not total:
            return {}
        figures: Metrics = {}
        passed = 0
        for bound_ms, count in zip(BOUNDS_MS, self._counts, strict=False):
            passed += count
            figures[f"{name}.le.{bound_ms}"] = passed
        return figures | {f"{name}.count": total, f"{name}.sum": self._sum_ms}


def split_histograms(metrics: Mapping[str, int | float]) -> tuple[Metrics, dict[str, Metrics]]:
    """Other figures, and the parts of each histogram by its name.

    >>> split_histograms({"uptime": 5, "d.le.1": 0, "d.count": 3})
    ({'uptime': 5}, {'d': {'le.1': 0, 'count': 3}})
    """
    plain: Metrics = {}
    histograms: dict[str, Metrics] = {}
    for name, value in metrics.items():
        part = _PART.fullmatch(name)
        if part is None:
            plain[name] = value
        else:
            histograms.setdefault(part[1], {})[part[2]] = value
    return plain, histograms
