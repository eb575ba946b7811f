"""EXPLAIN STATE FOR JOB: what a job that runs keeps, how fast that grows, and when its budget is used up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sqlstream import config as options
from sqlstream.client.diagnosis.finding import seconds_text
from sqlstream.client.following.progress import size_text
from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.messages.rpc import JobDetails
from sqlstream.messages.state_growth import OperatorGrowth, Size, StateGrowth
from sqlstream.terminal_text import shown_lines

if TYPE_CHECKING:
    from sqlstream.client.clusters.cluster_client import ClusterClient

DAY_MS = 86_400_000

SPAN_MS_MIN = 1_000
"""What was measured within less says nothing of a day."""

MANAGED = "taskmanager.memory.managed.size"


def explain_job_state(cluster: ClusterClient, job_id: str, settings: Mapping[str, str]) -> str:
    """The answer of the statement. UserError SS6009 when the job is not known."""
    cluster.metrics(job_id)
    budget_bytes: int = options.get(settings, "sqlstream.state.budget")
    return state_growth_text(*cluster.described(job_id), budget_bytes)


def state_growth_text(details: JobDetails, graph: JobGraph, budget_bytes: int) -> str:
    """One block for each operator that keeps something, and what is left of the budget: of all of the job when one is given, or
    of the managed memory of its fullest slot. A pure function."""
    growth = details.state_growth
    head = f'job {details.job_id} "{details.name}" is {details.status.value}'
    if growth is None:
        return shown_lines(f"{head}: its tasks have not reported yet") + "\n"
    if not growth.operators:
        return shown_lines(f"{head}: no operator has state") + "\n"
    is_long = growth.span_ms >= SPAN_MS_MIN
    over = f"over the last {seconds_text(growth.span_ms)}" if is_long else "measured once until now"
    operators = {o.id: o for v in graph.vertices for o in v.operators}
    blocks = [
        "\n".join(_block(operators[one.operator], one, growth.span_ms))
        for one in growth.operators
        if one.operator in operators
    ]
    return shown_lines("\n\n".join([f"{head}, {over}", *blocks, _budget(growth, graph, budget_bytes)])) + "\n"


def _block(operator: ChainedOperator, growth: OperatorGrowth, span_ms: int) -> Iterator[str]:
    present, before = growth.present, growth.before
    bound = operator.spec.state_bound()
    per = bound.per
    yield f"{operator.name}: {operator.state.title if operator.state else operator.description}"
    keeps_expired = operator.state is not None and bool(operator.state.expired)
    places = [f"in {present.entries:,} {_many(per)}"] if present.entries else []
    if keeps_expired:
        places.append("in rows that have expired")
    yield f"  keeps       {size_text(present.nbytes)} {' and '.join(places)}".rstrip()
    # Nothing says how many of the bytes are those of expired rows.
    if present.entries and not keeps_expired:
        yield f"  size        {present.nbytes / present.entries:,.0f} bytes per {per}"
    if span_ms >= SPAN_MS_MIN:
        yield f"  grows       {_rates(present, before, span_ms, per)}"
    yield f"  bounded by  {bound.by if bound.is_finite else f'nothing but {bound.by}'}"


def _many(per: str) -> str:
    return "vertices" if per == "vertex" else f"{per}s"


def _rates(present: Size, before: Size, span_ms: int, per: str) -> str:
    nbytes = (present.nbytes - before.nbytes) * DAY_MS / span_ms
    entries = (present.entries - before.entries) * DAY_MS / span_ms
    if not nbytes and not entries:
        return "not at all"
    counted = f"{entries:,.0f} {_many(per)} and " if present.entries or before.entries else ""
    return f"by {counted}{'-' if nbytes < 0 else ''}{size_text(abs(nbytes))} a day"


def _budget(growth: StateGrowth, graph: JobGraph, given_bytes: int) -> str:
    if given_bytes:
        present = sum(one.present.nbytes for one in growth.operators)
        before = sum(one.before.nbytes for one in growth.operators)
        what = f"budget: {size_text(given_bytes)} for all of the job (sqlstream.state.budget), which has"
        return f"{what} {size_text(present)}{_left(present, before, given_bytes, growth.span_ms)}"
    if options.get(graph.config, "state.backend.type") == "mapped":
        return "budget: none, as mapped state lies in files: SET 'sqlstream.state.budget' = '100 gb' counts to that"
    if not growth.budget_bytes:
        return (
            f"budget: none but the machine's memory, as {MANAGED} is not set: SET 'sqlstream.state.budget' = '10 gb'"
            " counts to that"
        )
    left = _left(growth.fullest_bytes, growth.fullest_before_bytes, growth.budget_bytes, growth.span_ms)
    slots = "its slot" if growth.slots == 1 else f"each of {growth.slots} slots"
    return (
        f"budget: {size_text(growth.budget_bytes)} for {slots} ({MANAGED}), the fullest has"
        f" {size_text(growth.fullest_bytes)}{left}"
    )


def _left(present: int, before: int, budget: int, span_ms: int) -> str:
    if present >= budget:
        return ": it is used up"
    if span_ms < SPAN_MS_MIN:
        return ""
    if present <= before:
        return " and does not grow"
    left_ms = (budget - present) * span_ms / (present - before)
    days = left_ms / DAY_MS
    until = f"{days:,.1f} days" if days >= 1 else seconds_text(left_ms)
    return f": {until} until it is used up"
