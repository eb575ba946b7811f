"""Specs of joins: regular, interval and window joins."""

from __future__ import annotations

import enum

import msgspec

from sqlstream.expressions import Expression
from sqlstream.schema import Schema
from sqlstream.specs.source import SourceSpec
from sqlstream.specs.spec import OperatorSpec, StateBound, until_ttl


class JoinKind(enum.Enum):
    """Which rows a join outputs. SEMI: each left row that has a match, once. ANTI: each left row without one."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"
    SEMI = "SEMI"
    ANTI = "ANTI"

    @property
    def is_left_only(self) -> bool:
        """Whether the output has the left columns alone."""
        return self in (JoinKind.SEMI, JoinKind.ANTI)

    def pads(self, side: int) -> bool:
        """Whether a row of that side (0: left, 1: right) without a match is output with NULLs for the other side."""
        return self is JoinKind.FULL or self is (JoinKind.RIGHT if side else JoinKind.LEFT)

    def outputs_unmatched(self, side: int) -> bool:
        return self.pads(side) or (self is JoinKind.ANTI and side == 0)


class JoinSpec(OperatorSpec, frozen=True, tag="join"):
    """Regular join over two changelogs (Flink: StreamExecJoin, StreamExecSemiAntiJoin). Output: left columns, then right
    columns; of SEMI and ANTI the left columns.

    Rows match when the key columns are equal (NULL equals nothing) and `condition` over the joined row is
    TRUE. State: all rows of both sides, dropped after the side's TTL (0: never). LEFT, RIGHT and FULL output
    unmatched rows with NULLs, ANTI unmatched left rows, and retract them when a match arrives. SEMI retracts a left
    row when its last match is retracted.
    """

    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    condition: Expression | None = None
    left_ttl_ms: int = 0
    right_ttl_ms: int = 0

    def kept_state(self) -> str:
        left, right = until_ttl(self.left_ttl_ms), until_ttl(self.right_ttl_ms)
        return f"all rows of both sides; dropped: left {left}, right {right}"

    def state_bound(self) -> StateBound:
        if self.left_ttl_ms and self.right_ttl_ms:
            times = dict.fromkeys((self.left_ttl_ms, self.right_ttl_ms))
            return StateBound(f"the rows that come within {' and '.join(f'{t} ms' for t in times)}", True)
        return StateBound("the number of rows", False)


class IntervalJoinSpec(OperatorSpec, frozen=True, tag="interval_join"):
    """Join of two insert-only streams whose times are close (Flink: StreamExecIntervalJoin).

    Rows match when keys are equal, `lower_ms <= left_time - right_time <= upper_ms` and `condition` is TRUE. A row is
    forgotten when the watermark (or clock) excludes further matches. Outer joins then emit an unmatched row with NULLs, and
    ANTI a left one. SEMI emits a left row at its first match. The output watermark is held back so that no output row is late.
    A time column may be a rowtime, or a window bound (`window_start`, `window_end`, `window_time`). Its producer emits such a
    row before it forwards the watermark that closed the window. `broadcast_input` (0 or 1; -1: none): every subtask receives
    all rows of that input and any rows of the other (INNER only). Each subtask saves that input as a `shared` table. Every
    subtask restores the table of the old subtask with the least event time, which holds all rows of the others.
    """

    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    left_time_column: int
    right_time_column: int
    lower_ms: int
    upper_ms: int
    condition: Expression | None = None
    is_event_time: bool = True
    broadcast_input: int = -1

    def kept_state(self) -> str:
        return "rows of both sides; dropped: when no match is possible any more"

    def state_bound(self) -> StateBound:
        clock = "watermark" if self.is_event_time else "clock"
        span_ms = max(0, -self.lower_ms) + max(0, self.upper_ms)
        return StateBound(f"the {clock}: rows of {span_ms} ms", True)


class WindowJoinSpec(OperatorSpec, frozen=True, tag="window_join"):
    """Join of rows in the same window (Flink: StreamExecWindowJoin): both sides carry window_start and
    window_end columns.

    A window's rows are joined when the watermark closes it, then forgotten. Late rows are dropped and
    counted. `broadcast_input` as in IntervalJoinSpec. The window columns are local times of `time_zone`.
    """

    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    left_window_start_column: int
    left_window_end_column: int
    right_window_start_column: int
    right_window_end_column: int
    condition: Expression | None = None
    broadcast_input: int = -1
    time_zone: str = "UTC"

    def kept_state(self) -> str:
        return "rows of both sides per window; dropped: when the window closes"

    def state_bound(self) -> StateBound:
        return StateBound("the watermark, which closes windows", True)


# Spec of the lookup join: a stream joined with a table that is read by key.


class RetryOnMiss(msgspec.Struct, frozen=True):
    """Look keys without rows up again, at most `attempts_max` times, `delay_ms` after the last time (Flink: the LOOKUP hint
    with retry-predicate lookup_miss)."""

    attempts_max: int
    delay_ms: int


class LookupJoinSpec(OperatorSpec, frozen=True, tag="lookup_join"):
    """Each row with the matching rows that `source` has when the row arrives (Flink: StreamExecLookupJoin).

    Output: the input's columns, then the `projections`, which are over the columns that the source reads. A row of the source
    takes part where `source_condition`, over the same columns, is TRUE. It matches where the input's columns `left_keys`
    equal the source's columns `source_keys` (NULL equals nothing) and `condition`, over the output row, is TRUE.
    `right_keys` are the projections that pass the source's keys on. `right_schema` has the types of the projections. LEFT
    emits an input row without a match once, with NULLs. Rows keep their order and their row kinds. The cache is that of the
    source's lookup options.
    """

    kind: JoinKind
    left_keys: tuple[int, ...]
    source_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    source: SourceSpec
    projections: tuple[Expression, ...]
    right_schema: Schema
    source_condition: Expression | None = None
    condition: Expression | None = None
    retry: RetryOnMiss | None = None


class VectorMetric(enum.Enum):
    """What makes vectors near: the cosine of their angle or their dot product, which are larger then, or their distance."""

    COSINE = "cosine"
    DOT = "dot"
    L2 = "l2"


class VectorSearchSpec(LookupJoinSpec, frozen=True, tag="vector_search"):
    """Each row with the `top_k` rows of `source` whose vectors are nearest to its own when it arrives, the nearest first (Flink:
    StreamExecVectorSearchTableFunction). There are no keys.

    Output: the input's `columns`, the `projections`, then the score as DOUBLE. The vector of a row is its column `query`, that of
    a row of the source the projection `vector`. A row without a vector finds none. LEFT emits a row that finds none once, with
    NULLs. `metric` is the value of a VectorMetric. The source is read whole before the first row, and again `reload_ms` after it
    was (0: never); one whose options have `lookup.cache` as that says."""

    columns: tuple[int, ...] = ()
    query: int = 0
    vector: int = 0
    top_k: int = 1
    metric: str = "cosine"
    reload_ms: int = 0


# What an event-time temporal join must do.


class TemporalJoinSpec(OperatorSpec, frozen=True, tag="temporal_join"):
    """Join of each left row with the version of the right row that was valid at the left row's time (Flink:
    StreamExecTemporalJoin). Both inputs and the output are insert-only. Output: left columns, then right columns.

    Each right row is a version of the row with its key (`right_keys`), valid from its time until that of the next
    version; of versions with one time the last one counts. A left row waits until the watermark has passed its time. It
    matches the version whose key is equal (NULL equals nothing) if `condition` over the joined row is TRUE; LEFT
    outputs it with NULLs otherwise. A left row behind the watermark is dropped and counted. A version is forgotten
    when the watermark has passed the time of a later one, or `right_ttl_ms` (0: never) after it came. Where
    the BOOLEAN `right_valid_column` (-1: none) is not TRUE, a version ends the one before and matches nothing, as
    `condition` asks; it is forgotten once the watermark has passed it.
    """

    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    left_time_column: int
    right_time_column: int
    condition: Expression | None = None
    right_ttl_ms: int = 0
    right_valid_column: int = -1

    def kept_state(self) -> str:
        ttl = "" if not self.right_ttl_ms else f", or {until_ttl(self.right_ttl_ms)}"
        return (
            "left rows until the watermark passes them; versions per key; dropped: when the watermark"
            f" passes a later version{ttl}"
        )

    def state_bound(self) -> StateBound:
        if self.right_ttl_ms:
            return StateBound(
                f"the watermark, and the versions that come within {self.right_ttl_ms} ms", True
            )
        return StateBound("the watermark, and the number of right keys", False)


# What a join with LATERAL SNAPSHOT must do.


class SnapshotJoinSpec(OperatorSpec, frozen=True, tag="snapshot_join"):
    """Join of each left row with the right rows that are there when it is processed (Flink: StreamExecLateralSnapshotJoin). The
    left input and the output are insert-only, the right input is any changelog. Output: left columns, then right columns.

    Rows match when the key columns are equal (NULL equals nothing) and `condition` over the joined row is TRUE; LEFT outputs
    a left row without a match with NULLs. A change of the right side takes effect when the watermark of the right side passes its
    `right_time_column`. Left rows wait until that watermark has come to `load_completed_time`, an expression that is evaluated
    when the job starts and has the type of that column, or for `idle_timeout_ms` (0: for ever) has not risen. Then each is
    joined at once. Right rows of a key that has not changed nor been asked for are forgotten after `right_ttl_ms` (0: never). The
    watermark of the output is that of the left side.
    """

    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    right_time_column: int
    load_completed_time: Expression | None = None
    condition: Expression | None = None
    idle_timeout_ms: int = 0
    right_ttl_ms: int = 0

    def kept_state(self) -> str:
        ttl = "never" if not self.right_ttl_ms else f"{self.right_ttl_ms} ms after the last use of the key"
        return f"left rows until the right side is loaded; rows of the right side; dropped: {ttl}"

    def state_bound(self) -> StateBound:
        if self.right_ttl_ms:
            return StateBound(f"the right rows of keys that are used within {self.right_ttl_ms} ms", True)
        return StateBound("the number of right rows", False)
