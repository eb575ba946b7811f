"""The protocol of an operator: declared state and per-batch logic, no I/O, one thread."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from sqlstream.changelog import ChangelogMode
from sqlstream.graph.key_groups import MAX_PARALLELISM_DEFAULT
from sqlstream.messages.ledger import of_side
from sqlstream.runtime.state.operator_state import EXPIRED, OperatorState, StateScope
from sqlstream.schema import Schema
from sqlstream.specs.spec import OperatorSpec

if TYPE_CHECKING:
    from sqlstream.graph.state_identity import ExpiredState
    from sqlstream.runtime.operators.deferred_rows import DeferredRows
    from sqlstream.runtime.operators.peers import Peers
    from sqlstream.spi.files import Files

SpecT = TypeVar("SpecT", bound=OperatorSpec)


class Output(Protocol):
    """The destination of an operator's rows: the next operators of the chain, or a result partition."""

    def emit(self, batch: pa.RecordBatch) -> None:
        """Empty batches are dropped. Layout: the node's output schema, plus the row kinds unless INSERT_ONLY."""

    @property
    def splits_rows(self) -> bool:
        """Whether an exchange splits the rows: `emit_rows` then copies them once, and `emit` of a selection twice."""

    def emit_rows(self, batch: pa.RecordBatch, rows: np.ndarray) -> None:
        """As `emit`, of the rows of a batch at these positions (int32, ascending)."""

    def emit_deferred(self, rows: DeferredRows) -> None:
        """As `emit`, of rows whose columns are built when they are read; only to an output that is INSERT_ONLY."""

    def emit_watermark(self, timestamp_ms: int) -> None:
        """For operators that create watermarks (assigner, source); others return them from `on_watermark`. HAND_OVER has others
        told that histories have ended."""

    def emit_idle(self, is_idle: bool) -> None:
        """For operators that decide idleness."""


@dataclasses.dataclass
class OperatorContext:
    """Everything that an operator uses from its surroundings; tests build one with `operator_context` (tests/).

    `pause_ms` waits, for operators that call other systems; it raises when the task is cancelled. `on_cancel` takes a function
    that is called once, from another thread, when the task is cancelled; it must not wait. `feeds_global_phase`: what a LOCAL
    phase emits goes to the GLOBAL one in the same task. `files` are those that a task may open. `expired` are the tables of state
    whose expired rows are kept. `peers` are the subtasks of a recursive query that has several. `state` is where the operator
    declares its tables: a context belongs to one operator, and each copy of it has an empty `state`."""

    input_schemas: tuple[Schema, ...]
    input_modes: tuple[ChangelogMode, ...]
    output_schema: Schema
    output_mode: ChangelogMode
    subtask: int = 0
    parallelism: int = 1
    max_parallelism: int = MAX_PARALLELISM_DEFAULT
    config: dict[str, str] = dataclasses.field(default_factory=dict)
    now_ms: Callable[[], int] = lambda: 0
    count: Callable[[str, int], None] = lambda name, n: None
    pause_ms: Callable[[int], None] = lambda ms: None
    on_cancel: Callable[[Callable[[], None]], None] = lambda interrupt: None
    feeds_global_phase: bool = False
    files: Files | None = None
    job_id: str = ""
    expired: tuple[ExpiredState, ...] = ()
    peers: Peers | None = None
    state: OperatorState = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        scope = StateScope(self.subtask, self.max_parallelism, self.now_ms)
        # No reference back to the context: without a cycle the state goes as soon as its operator does.
        count_expired = functools.partial(self.count, EXPIRED)
        if not self.expired:
            self.state = OperatorState(scope, count_expired)
            return
        from sqlstream.runtime.state.tables.expired_rows import keeper_of

        keeper = keeper_of(self.expired, scope, self.config, self.job_id, self.count)
        self.state = OperatorState(scope, count_expired, keeper)


class Operator(Generic[SpecT]):
    """One operator of one subtask. Calls come from one thread, in stream order.

    Batches of input `input_index` arrive by `on_batch`, watermarks, combined over all channels of all inputs, by
    `on_watermark`. It returns the watermark to forward: usually the one it received, a lower one to hold it back, None to drop
    it. When an input ends, `on_end_of_input` is called; after the last one the task has called `on_watermark(WATERMARK_MAX)` and
    then calls `on_finish`.
    Processing-time work: `next_processing_time_ms` is when the next is due (None: none), and `on_processing_time` is called
    at or after it, also once right before `on_finish` with the current time.
    State is declared in the constructor (`context.state.add`); what is due to expire has been forgotten before `on_batch`.
    `side_input` is the last input, if its event time is told by `on_side_watermark` alone and holds back no other's.
    """

    side_input: ClassVar[int | None] = None

    def __init__(self, spec: SpecT, context: OperatorContext) -> None:
        self.spec = spec
        self.context = context

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        raise AssertionError(f"{type(self).__name__} takes no input")

    def on_deferred(self, rows: DeferredRows, output: Output) -> None:
        """As `on_batch` of the only input, for an operator that need not read all columns of all rows."""
        self.on_batch(rows.batch(), 0, output)

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        return watermark_ms

    def on_hand_over(self, output: Output) -> bool:
        """The histories of the statement have ended, on all channels of all inputs. What is emitted here is sent before others
        are told so. A watermark, which may come without it, says the same. False: the operator tells them itself, later."""
        self.flush(output)
        return True

    def on_side_watermark(self, watermark_ms: int, output: Output) -> None:
        """The watermark of `side_input`, combined over its channels, has risen. WATERMARK_MAX when the input has ended."""

    def on_idle(self, is_idle: bool, output: Output) -> bool | None:
        """Status of the combined input; returns the status to forward, None to drop it."""
        return is_idle

    def next_processing_time_ms(self) -> int | None:
        return None

    def has_room(self) -> bool:
        """Whether the task may take further input. One that has none gets it by `on_processing_time`."""
        return True

    def is_settled(self) -> bool:
        """Whether no row waits for another system. Behind the last row the task waits until it is so, and takes checkpoints
        meanwhile."""
        return True

    def on_held_back(self, now_ms: int) -> None:
        """The task takes no input, because its outputs have no room: that no row comes means nothing."""

    def on_processing_time(self, now_ms: int, output: Output) -> None:
        return None

    def flush(self, output: Output) -> None:
        """Emit rows that are held only to form larger batches. Called when the task has no other work, and from the head of
        a chain to its tail before `snapshot`."""

    def prepare_snapshot(self, output: Output) -> None:
        """A checkpoint's barrier follows: emit what is cheaper to send than to save. Called after `flush`, from the head of a
        chain to its tail (Flink: prepareSnapshotPreBarrier)."""

    def on_end_of_input(self, input_index: int, output: Output) -> None:
        return None

    def on_finish(self, output: Output) -> None:
        return None

    def held_rows(self) -> int | None:
        """How many rows of the input wait in the state for their turn; None where rows do not wait one by one. Read from the
        state, for the job's ledger, at each checkpoint."""
        return None if (by_side := self.held_by_side()) is None else sum(by_side)

    def held_by_side(self) -> tuple[int, int] | None:
        """The same of the left and the right input of a join whose sides add up each by itself; None of others."""
        return None

    def count_of_side(self, figure: str, side: int, rows: int) -> None:
        """Add to a counter of the ledger, and to that of the side."""
        if rows:
            self.context.count(figure, rows)
            self.context.count(of_side(figure, side), rows)

    def on_restored(self) -> None:
        """The declared state has been restored: rebuild what is derived from it. Called before any other call."""

    def close(self) -> None:
        """Release resources; called once, also after a failure."""
