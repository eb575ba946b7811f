"""Which rows of a sequence, numbered from 0, a reader generates, and when."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sqlstream.spi.connector import ConnectorContext, EnumeratorContext, SourceStatus

_NO_END = 2**63 - 1

SLOW_TICK_MS, SLOW_RATE_MAX = 500, 100
TICK_MS = 100
"""Rows come at the ticks of the clock, as a batch costs about as much as a hundred rows. Many sources of one process then work at
the same times, and cost little more than one: a task that wakes alone finds no processor cache of use."""


def tick_ms(rate: int) -> int:
    """How long after rows of this rate the next ones come, at least.

    >>> tick_ms(2), tick_ms(10), tick_ms(10_000)
    (1, 500, 100)
    """
    if rate * SLOW_TICK_MS <= 1000:
        return 1
    return SLOW_TICK_MS if rate <= SLOW_RATE_MAX else TICK_MS


@dataclass
class Split:
    """Every `shares`-th block of `block_rows` rows, from block `share` on; `position`: the next row."""

    share: int
    shares: int
    block_rows: int
    position: int

    @staticmethod
    def of(share: int, shares: int, block_rows: int) -> Split:
        return Split(share, shares, block_rows, share * block_rows)

    @staticmethod
    def all(shares: int, block_rows: int) -> list[dict[str, Any]]:
        """The splits of a whole sequence, one for each reader."""
        return [asdict(Split.of(share, shares, block_rows)) for share in range(shares)]

    @property
    def block_end(self) -> int:
        return (self.position // self.block_rows + 1) * self.block_rows

    @property
    def reached(self) -> int:
        """Up to which row rows were made: 0 at the beginning."""
        is_fresh = self.position == self.share * self.block_rows
        return 0 if is_fresh else self.position

    def advance(self, stop: int) -> None:
        """Continue at `stop`, or in the next block of this share when the block ends there."""
        skipped = (self.shares - 1) * self.block_rows if stop == self.block_end else 0
        self.position = stop + skipped


class NumberedRows:
    """The next rows of the split that is furthest behind, one block at most.

    With a `rate` (rows per second, over all subtasks) a row is taken only once it is due by the clock, which starts at the
    first `take`, at the last tick of the time of day; `at_once` rows are due from the start, and others at the first tick after
    their time (Flink: once a second). A restored reader continues at the rate from its position, and does not make up for the
    time between. State: one position per split; a split is forgotten at `end` (None: never).
    """

    def __init__(
        self,
        context: ConnectorContext,
        splits: list[dict[str, Any]],
        *,
        end: int | None,
        rate: int | None,
        at_once: int = 0,
    ) -> None:
        self._now_ms = context.now_ms
        self._rate = rate
        self._tick_ms = 1 if rate is None else tick_ms(rate)
        self._end = _NO_END if end is None else end
        own = [Split(**split) for split in splits]
        self._splits = [split for split in own if split.position < self._end]
        self._first_due = min((s.reached for s in self._splits), default=0) + at_once
        self._origin_ms: int | None = None
        self._last_ms = 0

    def take(self, limit: int = _NO_END) -> tuple[int, int] | SourceStatus:
        """The first and one more than the last of the next rows, at most `limit`."""
        if not self._splits:
            return SourceStatus.END
        split = min(self._splits, key=lambda s: s.position)
        start = split.position
        stop = min(split.block_end, self._due(), start + limit)
        if stop <= start:
            return SourceStatus.NOTHING_YET
        split.advance(stop)
        if split.position >= self._end:
            self._splits.remove(split)
        return start, stop

    def next_due_ms(self) -> int | None:
        """The time at which the next row is due; None without a rate."""
        if self._rate is None or self._origin_ms is None or not self._splits:
            return None
        ahead = min(s.position for s in self._splits) + 1 - self._first_due
        return self._origin_ms + _rounded_up(-(-ahead * 1000 // self._rate), self._tick_ms)

    def snapshot(self) -> list[dict[str, Any]]:
        return [asdict(split) for split in self._splits]

    def _due(self) -> int:
        """The first row that is not due yet."""
        if self._rate is None:
            return self._end
        now_ms = self._now_ms()
        if self._origin_ms is None:
            self._origin_ms = now_ms - now_ms % self._tick_ms
        elif now_ms < self._last_ms:
            # The clock was set back: rows do not wait until it shows that time again.
            self._origin_ms -= self._last_ms - now_ms
        self._last_ms = now_ms
        passed_ms = max(0, now_ms - self._origin_ms) // self._tick_ms * self._tick_ms
        return min(self._end, self._first_due + passed_ms * self._rate // 1000)


def _rounded_up(ms: int, step_ms: int) -> int:
    """
    >>> _rounded_up(1_001, 500), _rounded_up(1_500, 500)
    (1500, 1500)
    """
    return -(-ms // step_ms) * step_ms


def rows_at_tick(rate: int) -> int:
    """How many rows come together, about."""
    return max(1, rate * tick_ms(rate) // 1000)


def paced_block_rows(rate: int, context: EnumeratorContext) -> int:
    """The rows that one of the readers has at a tick. They take turns, and each turn holds back the others' watermark. A single
    reader has no others."""
    most = max(context.batch_rows, context.batch_rows_max)
    return max(1, min(most, rows_at_tick(rate) // context.parallelism if context.parallelism > 1 else most))
