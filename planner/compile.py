"""All stages of the planner in order: bound statements in, everything up to the JobGraph out."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from sqlstream import config
from sqlstream.changelog import ChangelogMode
from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.latency_choice import explain_choice, with_latency_target
from sqlstream.graph.parallelism import translate_job_graph
from sqlstream.graph.state_identity import ExpiredState
from sqlstream.graph.stream_graph import ExchangeKind, StreamGraph
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.estimates import TableSizes, explain_cost
from sqlstream.planner.graphs import default_parallelism, plan_scaling, translate_stream_graph
from sqlstream.planner.guards import refuse_depth
from sqlstream.planner.physical.changelog import (
    drop_update_before,
    infer_changelog_modes,
    without_idle_keeping,
)
from sqlstream.planner.physical.node import PhysicalNode, walk_plan
from sqlstream.planner.physical.planning import LoweredHistory
from sqlstream.planner.physical.state_identity import Aspects, identify_states
from sqlstream.planner.relational.nodes import Sink
from sqlstream.planner.relational.planner import plan_statements
from sqlstream.planner.rules import optimise
from sqlstream.secrets import without_secrets
from sqlstream.specs import (
    GroupAggregateSpec,
    IterateSpec,
    MutualIterateSpec,
    SinkSpec,
    SortSpec,
    SourceSpec,
)
from sqlstream.specs.backfill import is_history
from sqlstream.specs.sink import COLLECT
from sqlstream.terminal_text import shortened

JOB_NAME_CHARACTERS_MAX = 100


@dataclasses.dataclass(frozen=True)
class CompiledPlan:
    """A statement set at every stage. `reason` says why it is a stream where the settings would let it run in batch."""

    relational: tuple[Sink, ...]
    optimised: tuple[Sink, ...]
    physical: tuple[PhysicalNode, ...]
    stream_graph: StreamGraph
    job_graph: JobGraph
    reason: str = ""


@refuse_depth()
def compile_statements(nodes: tuple[Sink, ...], context: BindContext, job_id: str = "") -> CompiledPlan:
    """Plan INSERTs and SELECTs that run as one job.

    `job_id` is 32 hex digits; without one it is a digest of the plan, which is enough for EXPLAIN.
    UserError SS30xx for what cannot be planned, SS40xx for options that do not fit.
    """
    settings = context.config
    is_reuse_enabled = bool(config.get(settings, "table.optimizer.reuse-sub-plan-enabled"))
    optimised = optimise(nodes, context.connectors, is_reuse_enabled)
    physical = plan_statements(optimised, settings, context.connectors, _lower_history)
    physical = infer_changelog_modes(physical, context.connectors)
    physical = without_idle_keeping(physical)
    physical = drop_update_before(physical, context.connectors)
    if any(is_history(node.spec) for node in walk_plan(physical)):
        # Few statements have one.
        from sqlstream.planner.physical.histories import hold_histories

        physical = hold_histories(physical)
    time_zone = str(config.get(settings, "table.local-time-zone"))
    physical = identify_states(
        physical,
        context.connectors,
        context.line_of,
        time_zone,
        _aspects(physical),
        _expired(physical, context),
    )
    scaling = plan_scaling(physical, settings)
    stream_graph = translate_stream_graph(physical, scaling, settings)
    job_graph = translate_job_graph(
        stream_graph,
        settings,
        job_id or _digest(stream_graph),
        job_name(nodes, settings, context.text),
        scaling,
    )
    return CompiledPlan(nodes, optimised, physical, stream_graph, with_latency_target(job_graph))


def _aspects(sinks: tuple[PhysicalNode, ...]) -> Aspects | None:
    """None for a query that a client reads: what goes on as another statement fills tables."""
    if all(isinstance(s.spec, SinkSpec) and s.spec.connector == COLLECT for s in sinks):
        return None
    from sqlstream.planner.physical.state_aspects import aspects_of

    return aspects_of


def _expired(sinks: tuple[PhysicalNode, ...], context: BindContext) -> dict[int, tuple[ExpiredState, ...]]:
    """The tables of state whose expired rows are kept: none by default."""
    if not config.get(context.config, "sqlstream.state.expired-rows.retention"):
        return {}
    from sqlstream.planner.physical.expired_rows import expired_states

    return expired_states(sinks, context.connectors)


def _lower_history(*given: Any) -> LoweredHistory:
    """As `lower_history`, which few statements load."""
    from sqlstream.planner.lower.query import lower_history

    return lower_history(*given)


@refuse_depth()
def explain(plan: CompiledPlan, details: tuple[str, ...] = (), sizes: TableSizes | None = None) -> str:
    """Every stage as text (see sqlstream.planner.explain).

    CHANGELOG_MODE is always printed. JSON_EXECUTION_PLAN adds the operators as JSON. ESTIMATED_COST adds the rows that each
    relational node is expected to give, by the `sizes` of the tables. PLAN_ADVICE adds what the plan would gain from settings."""
    from sqlstream.planner.explain import explain_json, explain_plan

    text = explain_plan(plan.relational, plan.optimised, plan.physical, plan.stream_graph, plan.job_graph)
    if plan.reason:
        text += f"\n== Runtime Mode ==\nstreaming: {plan.reason}\n"
    if plan.job_graph.chosen:
        text += f"\n== Latency Target ==\n{explain_choice(plan.job_graph)}\n"
    if "ESTIMATED_COST" in details:
        text += f"\n== Estimated Cost ==\n{explain_cost(plan.optimised, sizes or TableSizes({}))}\n"
    if "PLAN_ADVICE" in details:
        text += f"\n== Plan Advice ==\n{plan_advice(plan.physical, plan.job_graph.config)}\n"
    if "JSON_EXECUTION_PLAN" in details:
        text += f"\n== Physical Execution Plan ==\n{explain_json(plan.stream_graph)}\n"
    return text


def job_name(nodes: tuple[Sink, ...], settings: Mapping[str, str], text: str) -> str:
    """pipeline.name, or else what the statement does: Flink's `insert-into_catalog.database.table`, several joined by commas; for
    a SELECT its `text` on one line, secrets masked and JOB_NAME_CHARACTERS_MAX long at most (Flink: `collect`)."""
    given = str(config.get(settings, "pipeline.name"))
    if given:
        return given
    names = []
    for node in nodes:
        path = node.table.path
        is_select = dict(node.options).get("connector") == COLLECT
        names.append(
            _query_name(text) if is_select else f"insert-into_{path.catalog}.{path.database}.{path.name}"
        )
    return ",".join(dict.fromkeys(names))


def _query_name(text: str) -> str:
    words = " ".join(without_secrets(text).split()).rstrip("; ")
    return shortened(words, JOB_NAME_CHARACTERS_MAX) or COLLECT


def _digest(graph: StreamGraph) -> str:
    return hashlib.sha256("".join(n.uid for n in graph.nodes).encode()).hexdigest()[:32]


# PLAN_ADVICE: what a plan would gain from other settings.


def plan_advice(sinks: tuple[PhysicalNode, ...], settings: Mapping[str, str]) -> str:
    """One line for each piece of advice, with the operator that it is about."""
    found = [line for node in walk_plan(sinks) for line in _advice(node, settings)]
    if not found:
        return "no advice: nothing in the settings holds this plan back"
    return "\n".join(f"advice[{number}]: {line}" for number, line in enumerate(dict.fromkeys(found), 1))


def _advice(node: PhysicalNode, settings: Mapping[str, str]) -> Iterator[str]:
    spec = node.spec
    if spec is None:
        return
    is_endless = not all(i.node.traits.is_bounded for i in node.inputs)
    bound = spec.state_bound()
    if (
        spec.kept_state()
        and is_endless
        and not bound.is_finite
        and not isinstance(spec, SourceSpec | SinkSpec | IterateSpec | MutualIterateSpec)
    ):
        yield (
            f"[WARNING] the state of {node.description} grows with {bound.by}: SET 'table.exec.state.ttl' = '1 d' drops what has"
            " not changed for a day, or group by windows"
        )
    is_two_phase = config.get(settings, "table.optimizer.agg-phase-strategy") != "ONE_PHASE"
    if isinstance(spec, GroupAggregateSpec) and not is_two_phase and node.inputs[0].exchange.keys:
        yield (
            f"[ADVICE] {node.description} gets every row over the network: RESET 'table.optimizer.agg-phase-strategy' reduces"
            " each batch to a row per key before"
        )
    if not config.get(settings, "table.optimizer.reuse-sub-plan-enabled"):
        yield "[ADVICE] equal parts of the plan run twice: RESET 'table.optimizer.reuse-sub-plan-enabled'"
    is_alone = any(i.exchange.kind is ExchangeKind.SINGLETON for i in node.inputs)
    if is_alone and default_parallelism(settings) > 1 and not isinstance(spec, SinkSpec):
        why = "sorts all rows" if isinstance(spec, SortSpec) else "has no keys"
        yield f"[NOTE] {node.description} {why}, so that it runs in one subtask whatever the parallelism is"
    if isinstance(spec, SinkSpec) and node.changelog_mode is ChangelogMode.RETRACT and spec.primary_key:
        yield (
            f"[ADVICE] {node.description} gets each update as two rows: a query whose key is the primary key"
            f" ({', '.join(spec.schema.names[k] for k in spec.primary_key)}) needs one"
        )
