"""EXPLAIN WHY and EXPLAIN WHY NOT: the rows that made a row, and where a row that is not there was lost."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sqlstream import config as options
from sqlstream.changelog import ChangelogMode
from sqlstream.client.verification.contributing import Tracer
from sqlstream.client.verification.outcome import contributing_lines
from sqlstream.errors import JobError, UserError
from sqlstream.planner.batch import is_bounded
from sqlstream.planner.bind.sink import bind_sinks
from sqlstream.planner.filled_tables import over_queries
from sqlstream.planner.lower.query import scans_of
from sqlstream.planner.relational.nodes import RelationalNode, Sink, TableScan
from sqlstream.planner.relational.scan import find_connector
from sqlstream.planner.why import contributions, lost_rows, with_places
from sqlstream.specs.sink import SinkAction
from sqlstream.spi.changelog_options import sink_mode_of, writes_events

if TYPE_CHECKING:
    from sqlstream.catalog.objects import CatalogTable
    from sqlstream.client.sessions.outcomes import Text
    from sqlstream.client.sessions.planning import PlanningSession
    from sqlstream.planner.bind.context import BindContext
    from sqlstream.planner.dialect.statements import ExplainWhy
    from sqlstream.types import LogicalType

ROWS_MAX = "sqlstream.verify.contributing-rows-max"
PLACES = ("file.path", "topic", "partition", "offset")
"""Metadata that says where a row is, of the connectors that have it."""


def execute_explain_why(statement: ExplainWhy, session: PlanningSession) -> Text:
    """The answer as text. UserError SS3482 for a table that never ends, SS3483 for what is not traced, SS3301 for what has no
    exact answer in batch."""
    from sqlstream.client.sessions.outcomes import Text

    context = session.bind_context()
    (sink,) = bind_sinks(statement.target, context)
    filled = _filled(session)
    steps = {table: _steps(table, jobs, session, context) for table, jobs in filled.items()}
    query = over_queries(
        sink.input, {table: [[sink for sink, _ in step] for step in each] for table, each in steps.items()}
    )
    _refuse_unbounded(dataclasses.replace(sink, input=query))
    tracer = Tracer(session, context, int(options.get(context.config, ROWS_MAX)) or 1)
    try:
        lines = lost_rows(query, tracer.count) if statement.is_negated else _why(query, tracer, context)
    except (UserError, JobError) as error:
        if error.code == "SS3301":
            error.hint = "ask for a row of a query or view below it"
        if query is not sink.input:
            # The place may be one in another statement: an INSERT that fills a table.
            error.span = None
        raise
    lines += _without_order(sink, steps, context)
    if not statement.is_negated:
        return Text("\n".join(lines))
    jobs = {job for scan in scans_of(sink) for _, job in filled.get(scan.table, ())}
    return Text("\n".join([*lines, *(line for job in sorted(jobs) for line in _dropped(job, session))]))


def _dropped(job_id: str, session: PlanningSession) -> list[str]:
    """What the job that fills a table has dropped because of time, and of what it could not read."""
    try:
        ledger = session.cluster.checkpoints(job_id).ledger
    except UserError:
        # Only the latest jobs are remembered.
        return []
    entries = ledger.entries if ledger is not None else ()
    counts = {name: sum(entry.parts.get(name, 0) for entry in entries) for name in _DROPPED}
    said = ", ".join(f"{count:,} {_DROPPED[name][count != 1]}" for name, count in counts.items() if count)
    return [f'job "{job_id}", which fills the table, has dropped {said}'] if said else []


_DROPPED = {
    "late": ("late row", "late rows"),
    "rejected": ("row that could not be decoded", "rows that could not be decoded"),
    "expired": ("entry of expired state", "entries of expired state"),
}


def _why(query: RelationalNode, tracer: Tracer, context: BindContext) -> list[str]:
    rows = tracer.contributing(query, "")
    if not rows.rows:
        return ["the query has no row, so none has a reason: EXPLAIN WHY NOT says where such rows are lost"]
    placed = with_places(query, lambda scan: _places_of(scan, context))
    found = [tracer.contributing(each.rows, each.scan.table.path.name) for each in contributions(placed)]
    count = f"{len(rows.rows)}{'' if rows.is_complete else ' and more'}"
    what = "row of the query" if count == "1" else "rows of the query"
    made_of = contributing_lines(found) if found else ["no row of a table"]
    return [f"{count} {what}, made of:", *made_of]


def _places_of(scan: TableScan, context: BindContext) -> dict[str, LogicalType]:
    if not scan.mode.is_insert_only:
        return {}
    descriptor = find_connector(context.connectors, scan.table, dict(scan.options), scan.span)
    known = descriptor.reading.metadata
    return {key: known[key] for key in PLACES if key in known}


def _filled(session: PlanningSession) -> dict[CatalogTable, list[tuple[Sink, str]]]:
    """The INSERTs that this session remembers and whose rows are still there, each with its job, by the table that they fill.
    A table whose rows were changed otherwise stands for itself."""
    found: dict[CatalogTable, list[tuple[Sink, str]]] = {}
    changed: set[CatalogTable] = set()
    for job_id, sink in session.submitted_sinks():
        if sink.action is not None:
            found.pop(sink.table, None)
            is_emptied = sink.action is SinkAction.TRUNCATE or not (
                sink.partition or sink.action.changes_rows
            )
            (changed.discard if is_emptied else changed.add)(sink.table)
        if sink.action in (None, SinkAction.OVERWRITE) and sink.table not in changed:
            found.setdefault(sink.table, []).append((sink, job_id))
    return found


def _steps(
    table: CatalogTable, jobs: Sequence[tuple[Sink, str]], session: PlanningSession, context: BindContext
) -> list[list[tuple[Sink, str]]]:
    """The INSERTs into a table that keeps one row of each primary key, in their order: those that ran at the same time are one
    step. Of any other table all of them are."""
    if not table.primary_key or not all(_is_by_key(sink, context) for sink, _ in jobs):
        return [list(jobs)]
    steps: list[list[tuple[Sink, str]]] = []
    over_ms = 0.0
    for sink, job in jobs:
        start_ms, end_ms = _times(job, session)
        if steps and (start_ms < over_ms or steps[-1][-1][1] == job):
            steps[-1].append((sink, job))
        else:
            steps.append([(sink, job)])
        over_ms = max(over_ms, end_ms)
    return steps


def _is_by_key(sink: Sink, context: BindContext) -> bool:
    """Whether a row takes the place of the one with its primary key: when it is written, or when it is read."""
    options = dict(sink.options)
    descriptor = find_connector(context.connectors, sink.table, options, sink.span)
    is_replacing = sink_mode_of(descriptor, options) is ChangelogMode.UPSERT
    return is_replacing or writes_events(descriptor, options, sink.format_mode)


def _times(job_id: str, session: PlanningSession) -> tuple[float, float]:
    """When a job began and ended. One that runs, or is no longer known, may write after any other."""
    try:
        details = session.cluster.details(job_id)
    except UserError:
        return -math.inf, math.inf
    return details.start_ms, details.end_ms if details.end_ms >= 0 else math.inf


def _without_order(
    sink: Sink, steps: Mapping[CatalogTable, list[list[tuple[Sink, str]]]], context: BindContext
) -> list[str]:
    """The tables below a query whose rows of one key cannot be told to be the last ones."""
    found: dict[CatalogTable, list[str]] = {}
    waiting, seen = [sink], {sink.table}
    while waiting:
        for table in dict.fromkeys(scan.table for scan in scans_of(waiting.pop())):
            if table in seen:
                continue
            seen.add(table)
            for step in steps.get(table, ()):
                waiting += [each for each, _ in step]
                if len(step) > 1 and table.primary_key and _is_by_key(step[0][0], context):
                    found.setdefault(table, []).extend(dict.fromkeys(job for _, job in step))
    return [
        f'table "{table.path.name}": the INSERTs of {_named(jobs)} ran at the same time: the rows of each count for a primary key'
        " that several of them wrote"
        for table, jobs in found.items()
    ]


def _named(jobs: Sequence[str]) -> str:
    return " and ".join(f'job "{job}"' for job in jobs)


def _refuse_unbounded(sink: Sink) -> None:
    if is_bounded((sink,)):
        return
    name = next(scan.table.path.name for scan in scans_of(sink) if not scan.is_bounded)
    raise UserError(
        "SS3482",
        f'table "{name}" never ends, so the rows that made a row are not all there',
        span=sink.span,
    )
