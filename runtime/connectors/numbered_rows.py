"""Which rows of a sequence, numbered from 0, a subtask generates, and when."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sqlstream.spi.connector import ConnectorContext, SourceStatus

_NO_END = 2**63 - 1

_ALIGNED_RATE_MAX = 100
_ALIGNMENT_MS = 100


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

    @property
    def block_end(self) -> int:
        return (self.position // self.block_rows + 1) * self.block_rows

    def advance(self, stop: int) -> None:
        """Continue at `stop`, or in the next block of this share when the block ends there."""
        skipped = (self.shares - 1) * self.block_rows if stop == self.block_end else 0
        self.position = stop + skipped


class NumberedRows:
    """The next rows of the split that is furthest behind, one block at most.

    With a `rate` (rows per second, over all subtasks) a row is taken only once it is due by the clock, which starts at the
    first `take`; `at_once` rows are due from the start. A restored reader continues at the rate from its position, and does
    not make up for the time between. State: one position per split; a split is forgotten at `end` (None: never).
    """

    def __init__(
        self,
        context: ConnectorContext,
        splits: list[dict[str, Any]] | None,
        *,
        block_rows: int,
        end: int | None,
        rate: int | None,
        at_once: int = 0,
    ) -> None:
        self._now_ms = context.now_ms
        self._rate = rate
        self._end = _NO_END if end is None else end
        if splits is None:
            own = [Split.of(context.subtask, context.parallelism, block_rows)]
        else:
            own = [Split(**split) for split in splits]
        self._splits = [split for split in own if split.position < self._end]
        restored = 0 if splits is None else min((s.position for s in self._splits), default=0)
        self._first_due = restored + at_once
        self._origin_ms: int | None = None

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
        return self._origin_ms - (-ahead * 1000 // self._rate)

    def snapshot(self) -> list[dict[str, Any]]:
        return [asdict(split) for split in self._splits]

    def _due(self) -> int:
        """The first row that is not due yet."""
        if self._rate is None:
            return self._end
        now_ms = self._now_ms()
        if self._origin_ms is None:
            self._origin_ms = self._start_of_clock_ms(now_ms, self._rate)
        return min(self._end, self._first_due + max(0, now_ms - self._origin_ms) * self._rate // 1000)

    def _start_of_clock_ms(self, now_ms: int, rate: int) -> int:
        """Slow sources count from the next full tenth of a second, so that their rows are due at the same times: many of them in
        one process then cost little more than one."""
        return -(-now_ms // _ALIGNMENT_MS) * _ALIGNMENT_MS if rate <= _ALIGNED_RATE_MAX else now_ms


def paced_block_rows(rate: int, context: ConnectorContext) -> int:
    """A hundredth of a second's rows: readers take turns, and each turn holds back the others' watermark."""
    return max(1, min(context.batch_rows, rate // 100))
