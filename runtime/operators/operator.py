"""The protocol of an operator: state and per-batch logic, no I/O, one thread."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from sqlstream.changelog import ChangelogMode
from sqlstream.schema import Schema
from sqlstream.specs.spec import OperatorSpec

KEY_GROUP_COLUMN = "$key_group"
"""First column, int32, of every keyed snapshot table."""

SpecT = TypeVar("SpecT", bound=OperatorSpec)


class Output(Protocol):
    """Where an operator puts its rows: the next operators of the chain, or a result partition."""

    def emit(self, batch: pa.RecordBatch) -> None:
        """Empty batches are dropped. Layout: the node's output schema, plus the row kinds unless INSERT_ONLY."""

    def emit_watermark(self, timestamp_ms: int) -> None:
        """For operators that make watermarks (assigner, source); others return it from `on_watermark`."""

    def emit_idle(self, is_idle: bool) -> None:
        """For operators that decide idleness."""


@dataclasses.dataclass
class OperatorContext:
    """All that surrounds an operator, handed in: tests build it in one line (`operator_context` in tests/)."""

    input_schemas: tuple[Schema, ...]
    input_modes: tuple[ChangelogMode, ...]
    output_schema: Schema
    output_mode: ChangelogMode
    subtask: int = 0
    parallelism: int = 1
    max_parallelism: int = 128
    config: dict[str, str] = dataclasses.field(default_factory=dict)
    now_ms: Callable[[], int] = lambda: 0
    count: Callable[[str, int], None] = lambda name, n: None


@dataclasses.dataclass
class OperatorSnapshot:
    """State as plain Arrow tables.

    `keyed` tables start with KEY_GROUP_COLUMN; `restore` gets only the rows of its own key groups, already concatenated.
    `shared` tables (small: a watermark, a flag, a source's splits) are concatenated over all old subtasks and given whole to
    each new subtask.
    """

    keyed: dict[str, pa.Table] = dataclasses.field(default_factory=dict)
    shared: dict[str, pa.Table] = dataclasses.field(default_factory=dict)


class Operator(Generic[SpecT]):
    """One operator of one subtask. Calls come from one thread, in stream order.

    Batches and watermarks of input `input_index` arrive by `on_batch` and, combined over all channels of all inputs, by
    `on_watermark`. `on_watermark` returns the watermark to hand on (usually the one it got, a lower one to hold back, None to
    swallow). When an input ends, `on_end_of_input` is called; after the last one the task has called
    `on_watermark(WATERMARK_MAX)` and then calls `on_finish`.
    Processing-time work: `next_processing_time_ms` names the next moment of interest (None: none), and `on_processing_time` is
    called at or after it, also once right before `on_finish` with the current time.
    """

    def __init__(self, spec: SpecT, context: OperatorContext) -> None:
        self.spec = spec
        self.context = context

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        raise AssertionError(f"{type(self).__name__} takes no input")

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        return watermark_ms

    def on_idle(self, is_idle: bool, output: Output) -> bool | None:
        """Status of the combined input; returns the status to hand on, None to swallow."""
        return is_idle

    def next_processing_time_ms(self) -> int | None:
        return None

    def on_processing_time(self, now_ms: int, output: Output) -> None:
        return None

    def flush(self, output: Output) -> None:
        """Emit rows that are held only to be put together with the next ones; called when the task has nothing to do."""

    def on_end_of_input(self, input_index: int, output: Output) -> None:
        return None

    def on_finish(self, output: Output) -> None:
        return None

    def snapshot(self) -> OperatorSnapshot:
        """A consistent copy of all state; the operator may go on at once. Stateless operators return an empty one."""
        return OperatorSnapshot()

    def restore(self, snapshot: OperatorSnapshot) -> None:
        """Called once, before any other call, on a fresh instance."""

    def state_bytes(self) -> int:
        """Bytes held in state, for metrics."""
        return 0

    def close(self) -> None:
        """Release resources; called once, also after a failure."""
