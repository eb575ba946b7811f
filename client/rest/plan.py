"""The plan of a job in Flink's JSON: one node per vertex, in topological order (Flink: JsonPlanGenerator)."""

from __future__ import annotations

import hashlib
import html

from sqlstream.client.rest.messages import Plan, PlanInput, PlanNode
from sqlstream.graph.job_graph import JobGraph, JobVertex
from sqlstream.graph.stream_graph import ExchangeKind

_SHIP_STRATEGIES = {ExchangeKind.SINGLETON: "GLOBAL"}
"""Where Flink names an exchange otherwise."""


def describe_plan(graph: JobGraph) -> Plan:
    nodes = [_describe_node(graph, vertex) for vertex in graph.vertices]
    return Plan(graph.job_id, graph.name, job_type(graph.is_batch), nodes)


def job_type(is_batch: bool) -> str:
    return "BATCH" if is_batch else "STREAMING"


def slot_sharing_group_id(name: str) -> str:
    """32 hex digits that stand for a slot sharing group's name."""
    return hashlib.blake2b(name.encode(), digest_size=16).hexdigest()


def _describe_node(graph: JobGraph, vertex: JobVertex) -> PlanNode:
    inputs = [
        PlanInput(
            num=edge.ordinal,
            id=edge.source,
            ship_strategy=_SHIP_STRATEGIES.get(edge.exchange.kind, edge.exchange.kind.name),
            exchange="pipelined_bounded",
        )
        for edge in graph.inputs_of(vertex.id)
    ]
    return PlanNode(
        id=vertex.id,
        parallelism=vertex.parallelism,
        operator="",
        operator_strategy="",
        description=describe_chain(vertex),
        inputs=inputs,
        optimizer_properties={},
    )


def describe_chain(vertex: JobVertex) -> str:
    """The operators of a chain as a tree, one a line. It is HTML, as Flink's is: texts are escaped."""
    depths: dict[int, int] = {}
    lines = []
    for operator in vertex.operators:
        depth = depths[operator.id] = depths.get(operator.input, -1) + 1
        text = operator.description or operator.name
        lines.append("   " * (depth - 1) + ("+- " if depth else "") + html.escape(text))
    return "<br/>".join(lines) + "<br/>"
