"""Specs of Top-N, deduplication and bounded sorts."""

from __future__ import annotations

import enum

from sqlstream.expressions import SortKey
from sqlstream.specs.spec import OperatorSpec, StateBound, keys_or_ttl, until_ttl


class RankPhase(enum.Enum):
    """GLOBAL computes the result. LOCAL only drops rows of each batch that cannot rank (insert-only input)."""

    LOCAL = "LOCAL"
    GLOBAL = "GLOBAL"


class Ties(enum.Enum):
    """Which of the rows with equal ranks is first: ANY that came early, the one that has been there LONGEST, or the one that was
    added LAST. Neither depends on how the input is cut into batches."""

    ANY = "ANY"
    LONGEST = "LONGEST"
    LAST = "LAST"


class RankSpec(OperatorSpec, frozen=True, tag="rank"):
    """ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) between `rank_start` and `rank_end`, 1-based inclusive (Flink: Rank).

    GLOBAL outputs the input columns, then — when `outputs_rank` — the rank BIGINT, as a changelog. Of equal rows the
    earlier ranks first. `is_retracting`: input rows may be retracted; then all rows are kept, else the best `rank_end` per key.
    `ties` decides more exactly between equal rows that are there; it needs `is_retracting`. `holds_history`: nothing is emitted
    before the histories of the statement have ended, and then the rows of each key.
    """

    partition_keys: tuple[int, ...]
    order: tuple[SortKey, ...]
    rank_start: int
    rank_end: int
    outputs_rank: bool
    phase: RankPhase = RankPhase.GLOBAL
    is_retracting: bool = False
    state_ttl_ms: int = 0
    ties: Ties = Ties.ANY
    holds_history: bool = False

    def kept_state(self) -> str:
        if self.phase is RankPhase.LOCAL:
            return ""
        kept = "all rows" if self.is_retracting else f"the best {self.rank_end} rows"
        return f"{kept} per key; dropped: {until_ttl(self.state_ttl_ms)}"

    def state_bound(self) -> StateBound:
        if self.is_retracting and not self.state_ttl_ms:
            return StateBound("the number of rows", False)
        rows = "" if self.is_retracting else f", of {self.rank_end} rows each"
        found = keys_or_ttl(bool(self.partition_keys), self.state_ttl_ms)
        return StateBound(f"{found.by}{rows}", found.is_finite, "key with one row")


class WindowRankSpec(OperatorSpec, frozen=True, tag="window_rank"):
    """Top-N per window (Flink: WindowRank; with rank_end 1 also WindowDeduplicate); input is insert-only.

    `partition_keys` exclude the window columns, which are local times of `time_zone`. When a window closes, its rows are emitted,
    best first within a key: insert-only.
    """

    partition_keys: tuple[int, ...]
    order: tuple[SortKey, ...]
    window_start_column: int
    window_end_column: int
    rank_start: int
    rank_end: int
    outputs_rank: bool
    time_zone: str = "UTC"

    def kept_state(self) -> str:
        return f"the best {self.rank_end} rows per key and window; dropped: when the window closes"

    def state_bound(self) -> StateBound:
        return StateBound("the watermark, which closes windows", True)


class Keep(enum.Enum):
    FIRST = "FIRST"
    LAST = "LAST"


class DeduplicateSpec(OperatorSpec, frozen=True, tag="deduplicate"):
    """The first or last row per key by a time attribute (Flink: Deduplicate); input is insert-only.

    Row time compares `time_column`; processing time (`time_column` -1) uses the order of arrival. Of equal row times FIRST
    keeps the row that arrived first, LAST the one that arrived last. FIRST by processing time is insert-only; the
    others emit updates (-U only when the output mode is RETRACT). LOCAL prunes within a batch.
    Output: input columns, then rank 1 BIGINT when `outputs_rank`.
    """

    keys: tuple[int, ...]
    keep: Keep
    time_column: int
    outputs_rank: bool = False
    phase: RankPhase = RankPhase.GLOBAL
    state_ttl_ms: int = 0

    def kept_state(self) -> str:
        if self.phase is RankPhase.LOCAL:
            return ""
        is_by_arrival = self.keep is Keep.FIRST and self.time_column < 0
        kept = "the key" if is_by_arrival else f"the {self.keep.value.lower()} row"
        return f"{kept} of each key; dropped: {until_ttl(self.state_ttl_ms)}"

    def state_bound(self) -> StateBound:
        return keys_or_ttl(bool(self.keys), self.state_ttl_ms)


class SortSpec(OperatorSpec, frozen=True, tag="sort"):
    """ORDER BY … OFFSET … FETCH over bounded input (any changelog; the final rows are sorted) at the end of input.

    `fetch` < 0 means all rows. Parallelism is 1. Output is insert-only, in order.
    """

    order: tuple[SortKey, ...]
    offset: int = 0
    fetch: int = -1

    def kept_state(self) -> str:
        return "all rows; dropped: at the end of input"

    def state_bound(self) -> StateBound:
        # Input that ends is sorted: it has only so many rows.
        return StateBound("the number of rows of the input", True)


class TemporalSortSpec(OperatorSpec, frozen=True, tag="temporal_sort"):
    """ORDER BY a time attribute, ascending, and further columns, over rows that never end (Flink: TemporalSort). Input and
    output are insert-only; parallelism is 1.

    By row time the rows up to a watermark are output in order when it comes; a row behind the last one is late: dropped and
    counted in `numLateRecordsDropped`. By processing time (`time_column` -1) rows are output as they come. Those of a batch
    come at the same time, and are output in the order of the further columns.
    """

    order: tuple[SortKey, ...]
    time_column: int = -1

    def kept_state(self) -> str:
        return (
            "the rows behind the watermark; dropped: when it passes their time"
            if self.time_column >= 0
            else ""
        )

    def state_bound(self) -> StateBound:
        return StateBound("the watermark, up to which rows are output", True)
