"""EXPLAIN of a query, INSERT or statement set: its plans, its state, or what it does when it is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlstream.errors import UserError
from sqlstream.spi.connector import MeasuresInput

if TYPE_CHECKING:
    from sqlstream.client.sessions.outcomes import Text
    from sqlstream.client.sessions.planning import PlanningSession
    from sqlstream.planner.dialect.statements import Explain, Statement
    from sqlstream.planner.estimates import TableSizes
    from sqlstream.planner.relational.nodes import Sink


def execute_explain(statement: Explain, session: PlanningSession) -> Text:
    """The answer of EXPLAIN, EXPLAIN STATE or EXPLAIN ANALYZE."""
    from sqlstream.client.sessions.outcomes import Text

    if statement.is_run:
        from sqlstream.client.statements.explain_analyze import explain_analyze

        return Text(explain_analyze(statement.target, session))
    if statement.is_of_state:
        return Text(explain_state_of(statement.target, session))
    return Text(explain_plan_of(statement.target, session, statement.details))


def explain_plan_of(statement: Statement, session: PlanningSession, details: tuple[str, ...] = ()) -> str:
    """Every stage of a statement's plan as text."""
    from sqlstream.planner.compile import CompiledPlan, explain

    plan = session.compile(statement)
    sizes = _table_sizes(plan.optimised, session) if "ESTIMATED_COST" in details else None
    if isinstance(plan, CompiledPlan):
        return explain(plan, details, sizes)
    from sqlstream.client.statements.batch import explain_batch

    return explain_batch(plan, details, session.cluster, session.files(), session.is_served, sizes)


def _table_sizes(sinks: tuple[Sink, ...], session: PlanningSession) -> TableSizes:
    """The sizes of the tables that a plan reads, where connectors can tell them."""
    from sqlstream.planner.batch import scans_of
    from sqlstream.planner.estimates import TableSizes
    from sqlstream.planner.physical.source import find_connector, scan_spec
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
    from sqlstream.client.statements.state_explanation import explain_state
    from sqlstream.planner.compile import CompiledPlan

    plan = session.compile(statement)
    if isinstance(plan, CompiledPlan):
        return explain_state(plan.job_graph)
    raise UserError("SS6240", "a batch query keeps no state", span=statement.span)
