"""Whether the rows of a job add up: what came to each operator against what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlstream.changelog import ChangelogMode
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobGraph, JobVertex
from sqlstream.messages.checkpoint import SubtaskState
from sqlstream.messages.ledger import (
    ARRIVED,
    COPIED,
    DONE,
    EXPIRED_ROWS,
    FILTERED,
    HELD,
    RECEIVED,
    RESTORED,
    RETRACTED,
    SIDES,
    JobLedger,
    LedgerEntry,
    LedgerSide,
    difference_text,
    of_side,
)
from sqlstream.messages.rpc import Metrics
from sqlstream.options.checkpointing_options import is_at_least_once
from sqlstream.runtime.jobmanager.execution_graph import ExecutionGraph
from sqlstream.runtime.jobmanager.metrics import add_operators, combine_all, counters_of
from sqlstream.specs import (
    BatchQuerySpec,
    CalcSpec,
    DeduplicateSpec,
    DropUpdateBeforeSpec,
    IntervalJoinSpec,
    JoinSpec,
    LimitSpec,
    ModelPredictSpec,
    OverSpec,
    ProcessOutputSpec,
    RemotePredictSpec,
    SinkSpec,
    SnapshotJoinSpec,
    SortSpec,
    TemporalJoinSpec,
    TemporalSortSpec,
    TrainModelSpec,
    WatermarkAssignerSpec,
    WindowAggregateSpec,
    WindowJoinSpec,
)
from sqlstream.specs.aggregate import AggregatePhase
from sqlstream.specs.over import OverTiming
from sqlstream.specs.window import WindowKind

_PARTS = {
    "filtered": FILTERED,
    "late": "numLateRecordsDropped",
    "null": "numNullRecordsDropped",
    "done": DONE,
    "held": HELD,
    "rejected": "numRecordsRejected",
    "expired": "numStateEntriesExpired",
    "restored": RESTORED,
}
"""The counters of the parts that rows of an operator become, by the names of the parts."""

_SIDE_PARTS = {
    "late": "numLateRecordsDropped",
    "done": DONE,
    "held": HELD,
    "expired": EXPIRED_ROWS,
    "retracted": RETRACTED,
    "restored": RESTORED,
}
"""The same for one side of a join."""

Balance = tuple[str, ...]
_NONE: Balance = ()


def _over(operator: ChainedOperator, spec: OverSpec) -> Balance:
    # Rows that wait for those behind them expire as those do that have been emitted and are kept for their neighbours.
    expires = spec.rows_after and spec.state_ttl_ms
    return _NONE if spec.timing is OverTiming.ON_CHANGE or expires else _held_if_inserted(operator, spec)


def _held_if_inserted(operator: ChainedOperator, spec: Any) -> Balance:
    return ("out", "held", "late") if operator.input_modes[0].is_insert_only else _NONE


def _sort(operator: ChainedOperator, spec: SortSpec) -> Balance:
    # Of a Top-N the rows that can be in no answer go at any time.
    is_whole = spec.fetch < 0 and spec.offset <= 0
    return ("out", "held") if is_whole and operator.input_modes[0].is_insert_only else _NONE


def _deduplicate(operator: ChainedOperator, spec: DeduplicateSpec) -> Balance:
    # A retraction of the row before comes with each further one.
    return _NONE if operator.output_mode is ChangelogMode.RETRACT else ("out", "filtered")


def _window_aggregate(operator: ChainedOperator, spec: WindowAggregateSpec) -> Balance:
    # GLOBAL reads partial results, and a row that updates an early result may be late for some of its windows only.
    counts_rows = spec.phase is not AggregatePhase.GLOBAL and spec.emit is None
    is_session = spec.window.kind is WindowKind.SESSION and spec.time_column >= 0
    return ("done", "late") if counts_rows and not is_session else _NONE


def _waiting_join(operator: ChainedOperator, spec: IntervalJoinSpec | WindowJoinSpec) -> Balance:
    # Each subtask has all rows of a side that is broadcast.
    return _NONE if spec.broadcast_input >= 0 else ("done", "held", "late")


BALANCES: Mapping[type[Any], Callable[[ChainedOperator, Any], Balance]] = {
    CalcSpec: lambda operator, spec: ("out", "filtered"),
    DropUpdateBeforeSpec: lambda operator, spec: ("out", "filtered"),
    LimitSpec: lambda operator, spec: ("out", "filtered"),
    ProcessOutputSpec: lambda operator, spec: ("out", "filtered"),
    WatermarkAssignerSpec: lambda operator, spec: ("out",),
    DeduplicateSpec: _deduplicate,
    SortSpec: _sort,
    TemporalSortSpec: _held_if_inserted,
    OverSpec: _over,
    WindowAggregateSpec: _window_aggregate,
    TrainModelSpec: lambda operator, spec: ("done", "filtered", "held"),
    IntervalJoinSpec: _waiting_join,
    WindowJoinSpec: _waiting_join,
    ModelPredictSpec: lambda operator, spec: ("out",),
    RemotePredictSpec: lambda operator, spec: ("out", "held"),
}
"""Which parts the rows of an operator become, by its spec. Of other operators rows in and rows out have no fixed relation: one
row more or less in a group changes one row of an aggregate's result, and a row of a join meets any number of others."""


def _no_copies(spec: IntervalJoinSpec | WindowJoinSpec) -> Sequence[Balance]:
    return () if spec.broadcast_input >= 0 else [("done", "held", "late")] * 2


SIDE_BALANCES: Mapping[type[Any], Callable[[Any], Sequence[Balance]]] = {
    JoinSpec: lambda spec: [("done", "held", "expired", "retracted")] * 2,
    IntervalJoinSpec: _no_copies,
    WindowJoinSpec: _no_copies,
    TemporalJoinSpec: lambda spec: [("done", "held", "late"), ("done", "held", "expired")],
    SnapshotJoinSpec: lambda spec: [("done", "held"), ("done", "held", "expired", "retracted")],
}
"""Which parts the rows of the left and of the right side of a join become, by its spec; empty where a subtask has rows of
others."""


def job_ledger(
    graph: JobGraph,
    states: Mapping[str, Sequence[SubtaskState]],
    checkpoint_id: int,
    now_ms: int,
) -> JobLedger | None:
    """`states` are those of the subtasks of each vertex, with what the job has counted since it began. None for a job whose rows
    another engine counts."""
    operators = [(vertex, operator) for vertex in graph.vertices for operator in vertex.operators]
    if graph.is_batch or any(isinstance(operator.spec, BatchQuerySpec) for _, operator in operators):
        return None
    figures = combine_all(state.counted for subtasks in states.values() for state in subtasks)
    in_flight = _in_flight(graph, states)
    is_exact = not is_at_least_once(graph.config)
    return JobLedger(
        checkpoint_id,
        now_ms,
        tuple(
            _entry(graph, vertex, operator, figures, in_flight.get(vertex.id, 0), is_exact)
            for vertex, operator in operators
        ),
    )


def _entry(
    graph: JobGraph,
    vertex: JobVertex,
    operator: ChainedOperator,
    figures: Mapping[int, Metrics],
    in_flight: int,
    is_exact: bool,
) -> LedgerEntry:
    mine = figures.get(operator.id, {})
    rows_in, rows_out = int(mine.get("numRecordsIn", 0)), int(mine.get("numRecordsOut", 0))
    parts = _amounts(mine, _PARTS)
    is_head = operator.input == NETWORK_INPUT
    is_source = is_head and not graph.inputs_of(vertex.id)
    balance = _balance_of(operator, is_source)
    difference = _missing(rows_in, {"out": rows_out, **parts}, balance)
    sent = None if is_source or (is_head and not is_exact) else _sent(graph, vertex, operator, figures)
    in_flight = in_flight if is_head else 0
    sides = _sides(operator, mine)
    lost = sent - rows_in - in_flight if sent is not None else 0
    return LedgerEntry(
        operator.id,
        operator.name,
        vertex.id,
        rows_in,
        rows_out,
        parts,
        balance,
        difference,
        sent,
        in_flight,
        lost,
        sides,
    )


def _sides(operator: ChainedOperator, figures: Metrics) -> tuple[LedgerSide, ...]:
    """Empty when the state is from a release that did not yet count by side: not all rows in are in the counters of sides."""
    balances = SIDE_BALANCES.get(type(operator.spec), lambda spec: ())(operator.spec)
    found = []
    for side, balance in enumerate(balances):
        parts = _amounts(figures, {name: of_side(figure, side) for name, figure in _SIDE_PARTS.items()})
        rows_in = int(figures.get(of_side(RECEIVED, side), 0))
        found.append(LedgerSide(SIDES[side], rows_in, parts, balance, _missing(rows_in, parts, balance)))
    is_known = sum(side.rows_in for side in found) == figures.get("numRecordsIn", 0)
    return tuple(found) if is_known else ()


def _amounts(figures: Metrics, names: Mapping[str, str]) -> dict[str, int]:
    """The parts that are not zero, by name."""
    return {name: int(figures[figure]) for name, figure in names.items() if figures.get(figure)}


def _missing(rows_in: int, amounts: Mapping[str, int], balance: Balance) -> int:
    """How many rows in have become none of the parts of the balance; negative where these are more."""
    came = rows_in + amounts.get("restored", 0)
    return came - sum(amounts.get(part, 0) for part in balance) if balance else 0


def _balance_of(operator: ChainedOperator, is_source: bool) -> Balance:
    if is_source:
        return ("out",)
    if isinstance(operator.spec, SinkSpec):
        return ("done", "filtered")
    found = BALANCES.get(type(operator.spec))
    return found(operator, operator.spec) if found is not None else _NONE


def _sent(
    graph: JobGraph, vertex: JobVertex, operator: ChainedOperator, figures: Mapping[int, Metrics]
) -> int:
    """The rows that the operators which this one reads have emitted to it."""
    if operator.input != NETWORK_INPUT:
        return int(figures.get(operator.input, {}).get("numRecordsOut", 0))
    sent = int(figures.get(operator.id, {}).get(ARRIVED, 0))
    for edge in graph.inputs_of(vertex.id):
        producer = figures.get(edge.source_operator, {})
        sent += int(producer.get("numRecordsOut", 0)) + int(producer.get(f"{COPIED}{edge.id}", 0))
    return sent


def _in_flight(graph: JobGraph, states: Mapping[str, Iterable[SubtaskState]]) -> dict[str, int]:
    """The rows that were under way to each vertex."""
    found: dict[str, int] = {}
    for vertex_id, subtasks in states.items():
        outputs = dict(enumerate(edge.target for edge in graph.outputs_of(vertex_id)))
        for items in (items for state in subtasks for items in state.in_flight):
            target = outputs.get(items.edge, "") if items.is_output else vertex_id
            found[target] = found.get(target, 0) + items.rows
    return found


def final_states(graph: ExecutionGraph) -> dict[str, tuple[SubtaskState, ...]] | None:
    """What the subtasks of a job that has finished have counted since it began; None when the last figures of one are missing."""
    found: dict[str, tuple[SubtaskState, ...]] = {}
    for vertex_id, subtasks in graph.vertices.items():
        if any(subtask.execution.metrics is None for subtask in subtasks):
            return None
        found[vertex_id] = tuple(
            SubtaskState(counted=add_operators(s.counted, counters_of(s.execution.metrics.operators)))
            for s in subtasks
            if s.execution.metrics is not None
        )
    return found


def differences_of(ledger: JobLedger | None) -> dict[int, str]:
    """What does not add up, by operator id."""
    entries = ledger.entries if ledger is not None else ()
    return {e.operator_id: f'operator "{e.name}": {difference_text(e)}' for e in entries if not e.is_balanced}
