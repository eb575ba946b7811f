"""Spec of the history of a table, which a batch engine aggregates before the table itself is read."""

from __future__ import annotations

from sqlstream.specs.batch_query import HostedFunction
from sqlstream.specs.source import EventSourceSpec, SourceSpec
from sqlstream.specs.spec import OperatorSpec, StateBound
from sqlstream.specs.watermark import Alignment

_REPORT_INTERVAL_MS = 1_000
HISTORIES_MAX = 10_000
"""Turn of the tables, behind all histories of a statement."""


class BackfillSpec(OperatorSpec, frozen=True, tag="backfill"):
    """A source, in one subtask: the rows that the LOCAL phase of an aggregation would make of the history of `table`, one for
    each key, and slice of a window. Output: the columns of that phase.

    `sql` is one SELECT of DuckDB over the tables t0, t1, … (see sqlstream.batch_plan) that `sources` say; `shared`, `changes` and
    `functions` are those of a BatchQuerySpec. Its rows come in one order, whatever the plan of the engine is, so that a
    reader goes on behind those that a checkpoint has. The columns `times` are TIMESTAMP(3) in SQL, and
    milliseconds in the output. The sources whose `waits_for` is `group` read nothing before this one has ended.
    """

    table: str
    group: str
    sql: str
    sources: tuple[SourceSpec | EventSourceSpec, ...]
    shared: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    functions: tuple[HostedFunction, ...] = ()
    times: tuple[int, ...] = ()

    def kept_state(self) -> str:
        return "how many rows have been read"

    def state_bound(self) -> StateBound:
        return StateBound("one number", True)


def is_history(spec: object) -> bool:
    """Whether it reads the history of a table, and ends."""
    return isinstance(spec, BackfillSpec) or (isinstance(spec, SourceSpec) and spec.turn >= 0)


def waiting_alignment(spec: object) -> Alignment | None:
    """The group in which tables wait for their histories, of a source that is in one: until all histories have ended, nobody of
    the group may be ahead."""
    group = ""
    if isinstance(spec, BackfillSpec):
        group = spec.group
    elif isinstance(spec, SourceSpec):
        group = spec.waits_for
    return Alignment(group, 0, _REPORT_INTERVAL_MS) if group else None


def hands_over(spec: object) -> bool:
    """Whether a source says where it begins that the histories of its statement have ended."""
    return isinstance(spec, SourceSpec) and (spec.hands_over or (bool(spec.waits_for) and spec.turn < 0))


def turn_of(spec: object) -> int:
    """The turn of a source that is in such a group: it reads nothing before all of lower turns have ended."""
    if isinstance(spec, SourceSpec):
        return spec.turn if spec.turn >= 0 else HISTORIES_MAX
    return 0
