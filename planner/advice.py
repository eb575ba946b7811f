"""PLAN_ADVICE: what a plan would gain from other settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlstream import config
from sqlstream.changelog import ChangelogMode
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.planner.physical.node import PhysicalNode, walk_plan
from sqlstream.planner.translate.scaling import default_parallelism
from sqlstream.specs import GroupAggregateSpec, SinkSpec, SortSpec, SourceSpec


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
        and not isinstance(spec, SourceSpec | SinkSpec)
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
