"""Planned operators → their parallelism and exchanges → JobGraph, and the JobGraph of the same job at another parallelism."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from sqlstream import config
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobEdge, JobGraph, JobVertex
from sqlstream.graph.scaling import PlannedNode, Scaling
from sqlstream.graph.stream_graph import FORWARD, Exchange, ExchangeKind, StreamEdge, StreamGraph, StreamNode
from sqlstream.secrets import without_secrets

REBALANCE = Exchange(ExchangeKind.REBALANCE)


def parallelism_of(scaling: Scaling) -> tuple[int, ...]:
    """That of each node."""
    found: list[int] = []
    for node in scaling.nodes:
        found.append(node.parallelism or _open_parallelism(node, scaling, found))
    return tuple(found)


def _open_parallelism(node: PlannedNode, scaling: Scaling, found: Sequence[int]) -> int:
    forward = [found[i.source] for i in node.inputs if i.exchange == FORWARD]
    if not forward:
        return scaling.parallelism
    # Over more subtasks the versions of one row would lose their order; one subtask keeps it.
    keeps_order = all(scaling.nodes[i.source].is_insert_only for i in node.inputs)
    return max(forward) if keeps_order or len(set(forward)) == 1 else 1


def edges_of(
    scaling: Scaling, place: int, parallelism: Sequence[int], alike: Sequence[int] | None = None
) -> Iterator[StreamEdge]:
    """The inputs of one operator, unions resolved. FORWARD needs equal parallelism and is a REBALANCE otherwise. Between single
    subtasks every exchange is a FORWARD, or, with `alike`, what it is at that parallelism."""
    for ordinal, planned in enumerate(scaling.nodes[place].inputs):
        for source in _without_unions(scaling, planned.source):
            is_single = parallelism[source] == parallelism[place] == 1
            counts = alike if alike is not None and is_single else parallelism
            exchange = _exchange(planned.exchange, counts[source], counts[place])
            yield StreamEdge(scaling.nodes[source].operator, ordinal, exchange)


def _without_unions(scaling: Scaling, place: int) -> Iterator[int]:
    node = scaling.nodes[place]
    if node.operator:
        yield place
        return
    for branch in node.inputs:
        yield from _without_unions(scaling, branch.source)


def _exchange(wanted: Exchange, source: int, target: int) -> Exchange:
    if source == target == 1:
        return FORWARD
    return REBALANCE if wanted == FORWARD and source != target else wanted


# StreamGraph → JobGraph: operators that can run in one task are chained into a vertex.


def translate_job_graph(
    stream_graph: StreamGraph,
    settings: Mapping[str, str],
    job_id: str,
    name: str,
    scaling: Scaling | None = None,
) -> JobGraph:
    """Vertices in topological order, and an edge for each exchange between them.

    An operator joins the vertex of its input when that is its only one, over a FORWARD edge, at the same
    parallelism and in the same slot sharing group. A vertex is a tree: a source that feeds two queries runs both in one task.
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
        edges=_edges_of_vertex(stream_graph, nodes, heads),
        config=dict(settings),
        scaling=scaling,
    )


def _chainable_input(node: StreamNode, nodes: dict[int, StreamNode]) -> int | None:
    if len(node.inputs) != 1 or node.inputs[0].exchange != FORWARD:
        return None
    source = nodes[node.inputs[0].source]
    is_alike = (source.parallelism, source.slot_sharing_group) == (node.parallelism, node.slot_sharing_group)
    return source.id if is_alike else None


def _vertex(head: StreamNode, chain: list[StreamNode], nodes: dict[int, StreamNode]) -> JobVertex:
    operators = tuple(_operator(node, node is head, nodes) for node in chain)
    return JobVertex(
        id=head.uid,
        name=_chain_name(head, _followers(chain)),
        operators=operators,
        parallelism=head.parallelism,
        max_parallelism=head.max_parallelism,
        slot_sharing_group=head.slot_sharing_group,
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


def _edges_of_vertex(
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


# JobGraph → the JobGraph of the same operators at another parallelism.


_FOR_TABLES = "table.exec.resource.default-parallelism"


def rescaled_job_graph(job: JobGraph, parallelism: int, *, is_chained_as_many: bool = False) -> JobGraph:
    """Operators keep their ids and uids, and with them their state; those of a fixed parallelism keep that. The number of key
    groups stays what it was when the job was planned. `is_chained_as_many`: at the parallelism 1 the vertices are those of two
    subtasks, so that rows that were in flight between many have an edge. UserError SS6230 for a job that has no other
    parallelism, SS6231 for more subtasks than key groups."""
    if parallelism < 1:
        raise UserError("SS6231", f"a job cannot have the parallelism {parallelism}", hint="give 1 or more")
    scaling = _scaling(job)
    key_groups = job.vertices[0].max_parallelism
    wanted = replace(scaling, parallelism=parallelism)
    counts = parallelism_of(wanted)
    if max(counts) > key_groups:
        raise UserError(
            "SS6231",
            f'job "{job.name}" has {key_groups} key groups, so that {parallelism} subtasks cannot share its keys',
            hint="give a lower parallelism; 'pipeline.max-parallelism' is set before a job is started",
        )
    alike = parallelism_of(replace(scaling, parallelism=2)) if is_chained_as_many else None
    operators = {o.id: o for v in job.vertices for o in v.operators}
    groups = {o.id: v.slot_sharing_group for v in job.vertices for o in v.operators}
    nodes = []
    for place, planned in enumerate(wanted.nodes):
        if not planned.operator:
            continue
        operator = operators[planned.operator]
        nodes.append(
            StreamNode(
                id=operator.id,
                uid=operator.uid,
                name=operator.name,
                spec=operator.spec,
                inputs=tuple(edges_of(wanted, place, counts, alike)),
                output_schema=operator.output_schema,
                output_mode=operator.output_mode,
                parallelism=counts[place],
                max_parallelism=key_groups,
                description=operator.description,
                span=operator.span,
                state=operator.state,
                slot_sharing_group=groups[operator.id],
            )
        )
    settings = _settings(job.config, parallelism)
    rescaled = translate_job_graph(StreamGraph(tuple(nodes)), settings, job.job_id, job.name, wanted)
    return replace(rescaled, python=job.python, owner=job.owner, artifacts=job.artifacts, chosen=job.chosen)


def has_open_parallelism(scaling: Scaling) -> bool:
    """Whether some operator follows the parallelism of the job."""
    one, two = (parallelism_of(replace(scaling, parallelism=p)) for p in (1, 2))
    return one != two


def _scaling(job: JobGraph) -> Scaling:
    if job.scaling is None:
        raise UserError(
            "SS6230",
            f'job "{job.name}" is one of a batch engine, or was started by another version of sqlstream',
            hint="start it again with another 'parallelism.default'",
        )
    if not has_open_parallelism(job.scaling):
        raise UserError(
            "SS6230",
            f'every operator of job "{job.name}" has a fixed parallelism',
            hint="only operators over keys and over sources without 'scan.parallelism' have another one",
        )
    return job.scaling


def _settings(settings: Mapping[str, str], parallelism: int) -> dict[str, str]:
    """As if the job had been planned with this parallelism."""
    changed = {"parallelism.default": str(parallelism)}
    if int(config.get(settings, _FOR_TABLES)) > 0:
        changed[_FOR_TABLES] = str(parallelism)
    return dict(settings) | changed
