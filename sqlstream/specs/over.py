"""Specs of OVER windows: functions over the neighbours of a row."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from sqlstream.expressions import SortKey
from sqlstream.function_ref import FunctionRef
from sqlstream.specs.spec import OperatorSpec, StateBound, keys_or_ttl, until_ttl
from sqlstream.types import LogicalType


class Frame(msgspec.Struct, frozen=True):
    """The rows that a call reads, from `start` to `end` relative to the current row: -2 is 2 PRECEDING, 2 is 2 FOLLOWING, None is
    UNBOUNDED.

    ROWS counts rows. RANGE (`is_range`) adds to the value of the one ORDER BY column: milliseconds for a time, else its own unit;
    with 0 the bound is the first or last row with equal ORDER BY columns.
    """

    is_range: bool = True
    start: int | float | None = None
    end: int | float | None = 0

    def __str__(self) -> str:
        unit = "RANGE" if self.is_range else "ROWS"
        return f"{unit} BETWEEN {_bound(self.start, 'PRECEDING')} AND {_bound(self.end, 'FOLLOWING')}"


WHOLE_PARTITION = Frame(end=None)
RUNNING = Frame()


def _bound(offset: int | float | None, unbounded: str) -> str:
    if offset is None:
        return f"UNBOUNDED {unbounded}"
    if offset == 0:
        return "CURRENT ROW"
    return f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"


RANKING = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK"})
WHOLE_PARTITION_RANKING = frozenset({"NTILE", "CUME_DIST", "PERCENT_RANK"})
NEIGHBOURS = frozenset({"LAG", "LEAD"})
_WITH_DISTINCT = frozenset(
    {"COUNT", "SUM", "AVG", "VAR_POP", "VAR_SAMP", "VARIANCE", "STDDEV", "STDDEV_POP", "STDDEV_SAMP"}
)
"""Aggregates that read the values of a frame in no order."""


class OverCall(msgspec.Struct, frozen=True):
    """One function OVER a frame. Arguments are column indexes; `filter` is the index of a BOOLEAN column or -1.

    `number` is the offset of LAG and LEAD (args: the value, then the default if there is one), the n of NTH_VALUE and the number
    of buckets of NTILE. `skips_nulls`: FIRST_VALUE, LAST_VALUE, NTH_VALUE, LAG and LEAD pass over NULLs. Functions of rank have
    no arguments, and they, LAG and LEAD have no use for the frame.
    """

    function: str
    args: tuple[int, ...]
    type: LogicalType
    frame: Frame = RUNNING
    is_distinct: bool = False
    filter: int = -1
    number: int = 0
    skips_nulls: bool = False
    ref: FunctionRef | None = None

    @property
    def is_aggregate(self) -> bool:
        """Whether it is a call of an aggregate function, which any set of rows has."""
        return self.has_frame and self.function != "NTH_VALUE"

    @property
    def has_frame(self) -> bool:
        """Whether the frame decides which rows it reads."""
        return self.function not in (*RANKING, *WHOLE_PARTITION_RANKING, *NEIGHBOURS)

    @property
    def needs_all_before(self) -> bool:
        """Whether any row before it may decide what a later row reads: not where a few rows of a partition do (the first or
        last ones, the first of equal ones). Rows are not counted to the end of the frame."""
        if self.function in NEIGHBOURS:
            return False
        if self.frame.start is not None or self.frame.end != 0:
            return True
        if self.is_distinct:
            return self.function not in _WITH_DISTINCT
        return self.function not in ("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE")

    def columns(self) -> frozenset[int]:
        """The columns that it reads."""
        return frozenset((*self.args, *((self.filter,) if self.filter >= 0 else ())))

    def moved(self, places: Mapping[int, int]) -> OverCall:
        """The call where column i is column places[i]."""
        return msgspec.structs.replace(
            self,
            args=tuple(places[a] for a in self.args),
            filter=places[self.filter] if self.filter >= 0 else -1,
        )


class OverTiming(enum.Enum):
    """When a row is emitted.

    ROW_TIME: when the watermark has passed it and all rows of its frames, in order of time; late rows are dropped. ARRIVAL: as it
    arrives, in which order the rows are. AT_END: at the end of the input. ON_CHANGE: at once, and again when another row of its
    partition changes its result.
    """

    ROW_TIME = "ROW_TIME"
    ARRIVAL = "ARRIVAL"
    AT_END = "AT_END"
    ON_CHANGE = "ON_CHANGE"


class OverSpec(OperatorSpec, frozen=True, tag="over"):
    """Append a column per call to each row (Flink: OverAggregate); rows are in partitions by `partition_keys`, sorted by `order`.

    Rows of equal order are in order of arrival. `time_column` is the row time of ROW_TIME. Between a row and the rows that its
    frames reach are at most `rows_before` and `rows_after` rows, `ms_before` and `ms_after` milliseconds; -1 before it is no
    limit. Rows before the reach of a frame without a start are kept as one accumulator per call. Input is insert-only but with
    AT_END and ON_CHANGE; output is insert-only but with ON_CHANGE.
    """

    partition_keys: tuple[int, ...]
    order: tuple[SortKey, ...]
    calls: tuple[OverCall, ...]
    timing: OverTiming
    time_column: int = -1
    rows_before: int = 0
    rows_after: int = 0
    ms_before: int = 0
    ms_after: int = 0
    state_ttl_ms: int = 0

    @property
    def keeps_all_rows(self) -> bool:
        is_late = self.timing in (OverTiming.AT_END, OverTiming.ON_CHANGE)
        return is_late or (self.rows_before < 0 and not self.keeps_needed_rows)

    @property
    def keeps_needed_rows(self) -> bool:
        """Whether, of all rows before, only those are kept that decide results of later rows. With a time to live any may be the
        first that is left."""
        reaches_on = self.rows_after or self.ms_before or self.ms_after or self.state_ttl_ms
        return self.rows_before < 0 and not reaches_on and not any(c.needs_all_before for c in self.calls)

    def kept_state(self) -> str:
        if self.timing is OverTiming.AT_END:
            return "all rows; dropped: at the end of input"
        waiting = "rows that the watermark has not passed; " if self.timing is OverTiming.ROW_TIME else ""
        return f"{waiting}{self._kept()} per key; dropped: {until_ttl(self.state_ttl_ms)}"

    def _kept(self) -> str:
        if self.keeps_all_rows:
            return "all rows"
        if self.keeps_needed_rows:
            is_by_value = any(c.is_distinct for c in self.calls)
            return "a row of each distinct value" if is_by_value else "the rows that later ones read"
        if self.ms_before or self.ms_after:
            return f"the rows of {self.ms_before + self.ms_after} ms"
        rows = self.rows_before + self.rows_after
        return f"{rows} rows" if rows else "one accumulator per call"

    def state_bound(self) -> StateBound:
        if self.timing is OverTiming.AT_END:
            return StateBound("the number of rows of the input", True)
        if self.keeps_all_rows:
            return StateBound("the number of rows", False)
        if self.keeps_needed_rows and any(c.is_distinct for c in self.calls):
            return StateBound("the number of distinct values", False)
        if self.ms_before and self.timing is OverTiming.ROW_TIME:
            return StateBound("the watermark, which passes the frames of rows", True)
        return keys_or_ttl(bool(self.partition_keys), self.state_ttl_ms)
