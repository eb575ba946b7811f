"""EXPLAIN ANALYZE: a statement is run, and its plan is printed with what each operator has done."""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlstream.client.following.progress import size_text
from sqlstream.client.verification.run import run_to_end
from sqlstream.errors import UserError
from sqlstream.planner.compile import CompiledPlan
from sqlstream.planner.explain import explain_physical
from sqlstream.planner.physical.node import PhysicalNode, walk_plan

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.client.sessions.planning import PlanningSession
    from sqlstream.messages.rpc import Metrics
    from sqlstream.planner.dialect.statements import Statement

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
    """Operators are numbered in the order of the plan (planner/translate/scaling.py)."""
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
