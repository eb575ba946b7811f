"""EXPLAIN of a query, INSERT or statement set: its plans, its state, or what it does when it is run."""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlstream.client.following.progress import size_text
from sqlstream.client.verification.run import run_to_end
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.planner.compile import CompiledPlan, explain
from sqlstream.planner.explain import explain_physical
from sqlstream.planner.physical.node import PhysicalNode, walk_plan
from sqlstream.specs.graph import GraphSpec
from sqlstream.specs.iterate import IterateSpec, MutualIterateSpec
from sqlstream.specs.spec import OperatorSpec, StateBound
from sqlstream.spi.connector import MeasuresInput

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.client.sessions.outcomes import Text
    from sqlstream.client.sessions.planning import PlanningSession
    from sqlstream.messages.rpc import Metrics
    from sqlstream.planner.dialect.statements import Explain, Statement
    from sqlstream.planner.estimates import TableSizes
    from sqlstream.planner.relational.nodes import Sink
    from sqlstream.runtime.operators.dry_run import KeptState


def execute_explain(statement: Explain, session: PlanningSession) -> Text:
    """The answer of EXPLAIN, EXPLAIN STATE or EXPLAIN ANALYZE."""
    from sqlstream.client.sessions.outcomes import Text

    if statement.is_run:
        return Text(explain_analyze(statement.target, session))
    if statement.is_of_state:
        return Text(explain_state_of(statement.target, session))
    return Text(explain_plan_of(statement.target, session, statement.details))


def explain_plan_of(statement: Statement, session: PlanningSession, details: tuple[str, ...] = ()) -> str:
    """Every stage of a statement's plan as text."""
    plan = session.compile(statement)
    sizes = _table_sizes(plan.optimised, session) if "ESTIMATED_COST" in details else None
    if isinstance(plan, CompiledPlan):
        return explain(plan, details, sizes)
    from sqlstream.client.statements.batch import explain_batch

    return explain_batch(plan, details, session.cluster, session.files(), session.is_served, sizes)


def _table_sizes(sinks: tuple[Sink, ...], session: PlanningSession) -> TableSizes:
    """The sizes of the tables that a plan reads, where connectors can tell them."""
    from sqlstream.planner.estimates import TableSizes
    from sqlstream.planner.lower.query import scans_of
    from sqlstream.planner.relational.scan import find_connector, scan_spec
    from sqlstream.runtime.connectors import connector, descriptors

    sizes = {}
    for scan in dict.fromkeys(scan for sink in sinks for scan in scans_of(sink)):
        descriptor = find_connector(descriptors(), scan.table, dict(scan.options), scan.span)
        measured = connector(descriptor.identifier)
        if isinstance(measured, MeasuresInput):
            sizes[scan.table.path] = measured.input_bytes(scan_spec(scan, descriptor), session.files())
    return TableSizes(sizes, session.statistics)


def explain_state_of(statement: Statement, session: PlanningSession) -> str:
    """What each operator of a statement keeps. UserError SS6240 in batch."""
    plan = session.compile(statement)
    if isinstance(plan, CompiledPlan):
        return explain_state(plan.job_graph)
    raise UserError("SS6240", "a batch query keeps no state", span=statement.span)


# EXPLAIN ANALYZE: a statement is run, and its plan is printed with what each operator has done.


OPERATOR_CPU = "sqlstream.metrics.operator-cpu"


def explain_analyze(statement: Statement, session: PlanningSession) -> str:
    """Run a statement to its end, and drop the rows of a query. UserError SS3523 for one without an end; the job's error when it
    fails."""
    from sqlstream.client.sessions.submission import is_bounded

    before = dict(session.config)
    try:
        session.config[OPERATOR_CPU] = "true"
        plan = session.compile(statement, job_id=secrets.token_hex(16))
    finally:
        session.config = before
    if not is_bounded(plan.job_graph):
        raise UserError(
            "SS3523",
            "EXPLAIN ANALYZE runs a statement to its end, and this one has none",
            span=statement.span,
            hint="bound the tables (DESCRIBE CONNECTOR shows how), or write EXPLAIN alone",
        )
    begun_s = time.monotonic()
    rows = 0

    def count(batch: pa.RecordBatch) -> None:
        nonlocal rows
        rows += batch.num_rows

    metrics = run_to_end(session.submit(plan), count)
    seconds = time.monotonic() - begun_s
    operators = metrics.operators
    cpu_ns = sum(m.get("cpuTimeNs", 0) for m in operators.values())
    if isinstance(plan, CompiledPlan):
        title, tree = "Analyzed Physical Plan", explain_physical(plan.physical, _facts_of(plan, operators))
    else:
        title = "Analyzed Operators"
        tree = "\n".join(
            f"{o.name}: {_figures(operators.get(o.id, {}), has_input=o.input >= 0)}"
            for v in plan.job_graph.vertices
            for o in v.operators
        )
    total = metrics.total
    done = f"{rows:,} rows of changes came to the client" if plan.job_graph.is_query else _written(total)
    return (
        f"== {title} ==\n{tree}\n\n== Run ==\nread {total.get('numRecordsRead', 0):,} rows, {done}\n"
        f"{seconds:.2f} s, of which operators took {_ms(cpu_ns)} of processor time\n"
    )


def _written(total: Metrics) -> str:
    if "numRowsChanged" in total:
        return f"changed {total['numRowsChanged']:,}"
    return f"wrote {total.get('numRecordsWritten', 0):,}"


@dataclasses.dataclass(frozen=True)
class _Facts:
    """What the line of a node says, by its id()."""

    lines: Mapping[int, str]

    def __call__(self, node: PhysicalNode) -> str:
        return self.lines.get(id(node), "")


def _facts_of(plan: CompiledPlan, operators: Mapping[int, Metrics]) -> _Facts:
    """Operators are numbered in the order of the plan (planner/graphs.py)."""
    by_id = {node.id: node for node in plan.stream_graph.nodes}
    lines, number = {}, 0
    for node in walk_plan(plan.physical):
        if node.spec is None:
            continue
        number += 1
        figures = _figures(operators.get(number, {}), has_input=bool(node.inputs))
        lines[id(node)] = f" [{figures}, parallelism={by_id[number].parallelism}]"
    return _Facts(lines)


def _figures(metrics: Metrics, has_input: bool) -> str:
    parts = []
    if has_input:
        parts.append(f"in={metrics.get('numRecordsIn', 0):,}")
    parts.append(f"out={metrics.get('numRecordsOut', 0):,}")
    parts.append(f"cpu={_ms(metrics.get('cpuTimeNs', 0))}")
    if "stateBytes" in metrics:
        parts.append(f"state={size_text(metrics['stateBytes'])}")
    for name, word in (("numLateRecordsDropped", "late"), ("numRecordsRejected", "rejected")):
        if metrics.get(name):
            parts.append(f"{word}={metrics[name]:,}")
    return ", ".join(parts)


def _ms(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:,.1f} ms"


# EXPLAIN STATE: what each operator of a job keeps, for how long, how much that is, and what bounds it.


MEASURED_MAX = 200
"""The operators whose bytes are found out. Each takes some milliseconds."""
_WITHOUT_TTL: dict[type[OperatorSpec], str] = {
    IterateSpec: "later rows are made of all of it: let the query read fewer rows",
    MutualIterateSpec: "later rows are made of all of it: let the queries read fewer rows",
    GraphSpec: "a forgotten edge would be one that is retracted: let the function read a view that forgets",
}

_SIDES = ("left", "right")
_KEYS = (("keys", 0), ("partition_keys", 0), ("left_keys", 0), ("right_keys", 1))
"""Attributes of specs, and the input whose columns they number."""
_OF_RUNTIME = frozenset({"$count", "$matches", "$touched_ms", "$time_ms", "$is_matched", "$owner"})
"""Columns that a table has beside those of its rows."""


def explain_state(graph: JobGraph) -> str:
    """One block per operator that keeps something, in the order of the plan."""
    keeping = [o for v in graph.vertices for o in v.operators if o.spec.kept_state()]
    if not keeping:
        return "No operator keeps state.\n"
    blocks = [
        "\n".join(_block(operator, graph, is_measured=number < MEASURED_MAX))
        for number, operator in enumerate(keeping)
    ]
    growing = sum(not o.spec.state_bound().is_finite for o in keeping)
    return "\n\n".join([*blocks, _summary(growing, len(keeping))]) + "\n"


def _summary(growing: int, count: int) -> str:
    if growing:
        return f"Nothing bounds the state of {growing} of {count} operator{'s' if count > 1 else ''}."
    return "All state is bounded."


def _block(operator: ChainedOperator, graph: JobGraph, *, is_measured: bool) -> Iterator[str]:
    spec = operator.spec
    kept, _, dropped = spec.kept_state().partition("; dropped: ")
    bound = spec.state_bound()
    yield f"{operator.name}: {operator.state.title if operator.state else operator.description}"
    yield f"  keeps       {kept}"
    yield f"  dropped     {dropped or 'never'}"
    keys = [_key(operator, name, number) for name, number in _KEYS if hasattr(spec, name)]
    if any(keys):
        yield f"  key         {' = '.join(keys)}"
    if is_measured:
        from sqlstream.runtime.operators.dry_run import kept_state

        found = kept_state(operator, graph.config)
        for table in sorted(found.tables, key=lambda t: not t.is_keyed):
            if table.columns.names == [table.name]:
                yield f"  value       {_column(table.columns.field(0))}"
                continue
            columns = (_column(field) for field in table.columns if field.name not in _OF_RUNTIME)
            yield f"  table       {table.name} ({', '.join(columns)})"
        yield f"  size        {_size(found, bound, spec)}"
    yield f"  bounded by  {bound.by if bound.is_finite else f'nothing but {bound.by}'}"
    if type(spec) in _WITHOUT_TTL:
        yield f"  hint        it has no time to live, as {_WITHOUT_TTL[type(spec)]}"
    elif not bound.is_finite:
        yield "  hint        SET 'table.exec.state.ttl' = '1 d' drops what has not changed for a day"


def _key(operator: ChainedOperator, attribute: str, number: int) -> str:
    """The columns of input `number` by which rows are kept."""
    names = operator.input_schemas[number].names
    return ", ".join(names[k] for k in getattr(operator.spec, attribute))


def _column(field: pa.Field) -> str:
    from sqlstream.runtime.formats.columnar.stored_types import sql_name

    return f"{field.name} {sql_name(field.type)}"


def _size(found: KeptState, bound: StateBound, spec: OperatorSpec) -> str:
    sizes = found.bytes_per_row
    if bound.is_finite and not any(sizes):
        return "fixed"
    sides: Sequence[str] = _SIDES
    if isinstance(spec, IterateSpec):
        sides = ["start", *(f"input {number}" for number in range(1, len(sizes)))]
    elif isinstance(spec, MutualIterateSpec):
        sides = [f"input {number + 1}" for number in range(len(sizes))]
    each = f"{sizes[0]} bytes per {bound.per}"
    if len(sizes) > 1:
        each = ", ".join(
            f"{side} {size} bytes per {bound.per}" for side, size in zip(sides, sizes, strict=True)
        )
    return f"about {each}{_assumed(found)}"


def _assumed(found: KeptState) -> str:
    """What the size assumes of columns whose values vary in length, and of tables with any number of entries per key."""
    import pyarrow as pa

    from sqlstream.runtime.operators.dry_run import TEXT_LENGTH

    types = [field.type for table in found.tables for field in table.columns]
    assumed = []
    if any(pa.types.is_string(t) or pa.types.is_binary(t) for t in types):
        assumed.append(f"texts of {TEXT_LENGTH} characters")
    if any(pa.types.is_nested(t) for t in types):
        assumed.append("nested values that are empty")
    assumed += [f"one value per key in {table.name}" for table in found.tables if "." in table.name]
    return f", with {' and '.join(assumed)}" if assumed else ""
