"""Spec of the operator that calls a user's process table function."""

from __future__ import annotations

import msgspec

from sqlstream.expressions import Expression, SortKey
from sqlstream.function_ref import FunctionRef
from sqlstream.specs.spec import OperatorSpec, StateBound, keys_or_ttl, until_ttl


class ProcessInput(msgspec.Struct, frozen=True):
    """A table that the function reads: `columns` are the names that its columns have there, `partition_keys` those of PARTITION
    BY. `passes_columns`: the output has all columns of the table, and not only these. `time_column` is the row time that on_time
    names, -1 for none. With an `order_column`, a row time, rows come in its order, then in that of `order`, when the watermark
    has passed them."""

    name: str
    columns: tuple[str, ...]
    partition_keys: tuple[int, ...]
    has_set_semantics: bool
    passes_columns: bool = False
    time_column: int = -1
    order_column: int = -1
    order: tuple[SortKey, ...] = ()

    @property
    def copied(self) -> tuple[int, ...]:
        """The columns of its table that the output begins with."""
        return tuple(range(len(self.columns))) if self.passes_columns else self.partition_keys


TIMERS = "timers"
PROCESSING_TIMERS = "processing_timers"
"""The tables of timers by event time and by processing time."""


def waiting_name(table: str) -> str:
    """The table of the rows of an argument that wait for the watermark."""
    return f"waiting_{table}"


def output_places(inputs: tuple[ProcessInput, ...], ref: FunctionRef, number: int) -> tuple[int, ...]:
    """The columns of an output, 0 for that of `result_type`, among those of a function that has several: see ProcessTableSpec."""
    copied = sum(len(read.copied) for read in inputs)
    widths = [len(t.fields) for t in (ref.result_type, *ref.output_types)]
    start = copied + sum(widths[:number])
    time = (copied + sum(widths),) if inputs[0].time_column >= 0 else ()
    return (*range(copied), *range(start, start + widths[number]), *time)


class ProcessTableSpec(OperatorSpec, frozen=True, tag="process_table"):
    """Call the function `ref` with the rows of `inputs`, in their order, and with constants as its other arguments, None for the
    default that its class has. The output is the columns of PARTITION BY, or all that are passed through, then those of the
    function, and with a row time `rowtime`: that of the row, or of the timer, that the output belongs to. A function with
    `on_late` gets those rows there whose time the watermark has passed.

    With side outputs the rows of all of them come together: behind the columns of the function stand those of each side output,
    NULL in the rows of others, then `rowtime`, then the number of the output, 0 for that of `result_type`.

    `state_ttl_ms` is the time to live of states that declare none. `uid` finds the state again: that of the call, or the name of
    the function; empty for a built-in one.
    """

    ref: FunctionRef
    uid: str
    inputs: tuple[ProcessInput, ...]
    arguments: tuple[Expression | None, ...] = ()
    state_ttl_ms: int = 0

    @property
    def has_on_time(self) -> bool:
        return self.inputs[0].time_column >= 0

    @property
    def has_order(self) -> bool:
        return any(read.order_column >= 0 for read in self.inputs)

    @property
    def has_on_late(self) -> bool:
        return self.has_on_time and "on_late" in self.ref.methods

    def ttl_of(self, declared_ms: int) -> int:
        return self.state_ttl_ms if declared_ms < 0 else declared_ms

    def kept_state(self) -> str:
        assert self.ref.process is not None
        kept = [(s.name, until_ttl(self.ttl_of(s.ttl_ms))) for s in self.ref.process.states]
        kept += [
            (f"rows of {read.name}", "when the watermark passes them")
            for read in self.inputs
            if read.order_column >= 0
        ]
        if "on_timer" in self.ref.methods:
            kept.append(("timers", "when they fire"))
        if not kept:
            return ""
        dropped = list(dict.fromkeys(text for _, text in kept))
        shown = dropped if len(dropped) == 1 else [f"{name} {text}" for name, text in kept]
        return f"{', '.join(name for name, _ in kept)} of each key; dropped: {', '.join(shown)}"

    def state_bound(self) -> StateBound:
        assert self.ref.process is not None
        times = [self.ttl_of(s.ttl_ms) for s in self.ref.process.states]
        longest = 0 if 0 in times else max(times, default=0)
        return keys_or_ttl(bool(self.inputs[0].partition_keys), longest)


class ProcessOutputSpec(OperatorSpec, frozen=True, tag="process_output"):
    """The rows of one output of a function that has several: of those whose last column is `number` these `columns`. A side
    output only adds rows."""

    number: int
    columns: tuple[int, ...]
