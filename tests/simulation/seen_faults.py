"""Which faults the seeds of one file of tests have met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pytest


class SeenFaults:
    """A fault is met where a line of the story has its words. State: how many seeds have met each, and how many were run."""

    def __init__(self, faults: Iterable[str], seeds_enough: int) -> None:
        self._faults = tuple(faults)
        self._seeds_enough = seeds_enough
        self._seeds_run = 0
        self._seen: Counter[str] = Counter()

    def add(self, story: Sequence[str]) -> None:
        self._seeds_run += 1
        self._seen.update(fault for fault in self._faults if any(fault in line for line in story))

    def rare(self) -> dict[str, int]:
        """Those that fewer than two seeds have met; skips the test when there were not enough seeds."""
        if self._seeds_run < self._seeds_enough:
            pytest.skip("some faults are rare: they are counted over many seeds")
        return {fault: self._seen[fault] for fault in self._faults if self._seen[fault] < 2}
