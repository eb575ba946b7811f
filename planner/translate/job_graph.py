"""StreamGraph → JobGraph: operators that can run in one task are chained into a vertex."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream import config
from sqlstream.changelog import ChangelogMode
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobEdge, JobGraph, JobVertex
from sqlstream.graph.scaling import Scaling
from sqlstream.graph.stream_graph import FORWARD, StreamGraph, StreamNode
from sqlstream.secrets import without_secrets


def translate_job_graph(
    stream_graph: StreamGraph,
    settings: Mapping[str, str],
    job_id: str,
    name: str,
    scaling: Scaling | None = None,
) -> JobGraph:
    """Vertices in topological order, and an edge for each exchange between them.

    An operator joins the vertex of its input when that is its only one, over a FORWARD edge, at the same
    parallelism. A vertex is a tree: a source that feeds two queries runs both in one task.
    """
    is_enabled = bool(config.get(settings, "pipeline.operator-chaining.enabled"))
    nodes = {n.id: n for n in stream_graph.nodes}
    heads: dict[int, int] = {}
    for node in stream_graph.nodes:
        chained_to = _chainable_input(node, nodes) if is_enabled else None
        heads[node.id] = node.id if chained_to is None else heads[chained_to]
    members: dict[int, list[StreamNode]] = {}
    for node in stream_graph.nodes:
        members.setdefault(heads[node.id], []).append(node)
    vertices = tuple(_vertex(nodes[head], chain, nodes) for head, chain in members.items())
    return JobGraph(
        job_id=job_id,
        name=without_secrets(name),
        vertices=vertices,
        edges=_edges(stream_graph, nodes, heads),
        config=dict(settings),
        scaling=scaling,
    )


def _chainable_input(node: StreamNode, nodes: dict[int, StreamNode]) -> int | None:
    if len(node.inputs) != 1 or node.inputs[0].exchange != FORWARD:
        return None
    source = node.inputs[0].source
    return source if nodes[source].parallelism == node.parallelism else None


def _vertex(head: StreamNode, chain: list[StreamNode], nodes: dict[int, StreamNode]) -> JobVertex:
    operators = tuple(_operator(node, node is head, nodes) for node in chain)
    return JobVertex(
        id=head.uid,
        name=_chain_name(head, _followers(chain)),
        operators=operators,
        parallelism=head.parallelism,
        max_parallelism=head.max_parallelism,
    )


def _operator(node: StreamNode, is_head: bool, nodes: dict[int, StreamNode]) -> ChainedOperator:
    ordinals = sorted({e.ordinal for e in node.inputs})
    sources = [[nodes[e.source] for e in node.inputs if e.ordinal == o] for o in ordinals]
    return ChainedOperator(
        id=node.id,
        uid=node.uid,
        name=node.name,
        spec=node.spec,
        input=NETWORK_INPUT if is_head else node.inputs[0].source,
        input_schemas=tuple(s[0].output_schema for s in sources),
        input_modes=tuple(_widest([n.output_mode for n in s]) for s in sources),
        output_schema=node.output_schema,
        output_mode=node.output_mode,
        description=node.description,
        span=node.span,
        state=node.state,
    )


def _widest(modes: list[ChangelogMode]) -> ChangelogMode:
    order = (ChangelogMode.INSERT_ONLY, ChangelogMode.UPSERT, ChangelogMode.RETRACT)
    return max(modes, key=order.index)


def _followers(chain: list[StreamNode]) -> dict[int, list[StreamNode]]:
    """The operators of a vertex that read from another one of it, by the id of that one."""
    ids = {node.id for node in chain}
    found: dict[int, list[StreamNode]] = {}
    for node in chain:
        for source in dict.fromkeys(edge.source for edge in node.inputs if edge.source in ids):
            found.setdefault(source, []).append(node)
    return found


def _chain_name(node: StreamNode, followers: Mapping[int, list[StreamNode]]) -> str:
    """Flink's: `Source: a[1] -> Calc[2] -> (Sink: x[3], Sink: y[4])`."""
    names = [_chain_name(following, followers) for following in followers.get(node.id, ())]
    if not names:
        return node.name
    return f"{node.name} -> {names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'}"


def _edges(
    stream_graph: StreamGraph, nodes: dict[int, StreamNode], heads: dict[int, int]
) -> tuple[JobEdge, ...]:
    edges: list[JobEdge] = []
    for node in stream_graph.nodes:
        if heads[node.id] != node.id:
            continue
        for edge in node.inputs:
            source = nodes[edge.source]
            edges.append(
                JobEdge(
                    id=len(edges),
                    source=nodes[heads[source.id]].uid,
                    source_operator=source.id,
                    target=node.uid,
                    ordinal=edge.ordinal,
                    exchange=edge.exchange,
                    schema=source.output_schema,
                    mode=source.output_mode,
                )
            )
    return tuple(edges)
