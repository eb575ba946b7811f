"""Physical plan → StreamGraph → JobGraph: parallelism, exchanges and chains, and the same job at another parallelism."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from sqlstream import config
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import Span, UserError
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobEdge, JobGraph, JobVertex
from sqlstream.graph.key_groups import default_max_parallelism
from sqlstream.graph.scaling import PlannedInput, PlannedNode, Scaling
from sqlstream.graph.stream_graph import FORWARD, Exchange, ExchangeKind, StreamEdge, StreamGraph, StreamNode
from sqlstream.planner.physical.node import PhysicalNode, walk_plan
from sqlstream.secrets import without_secrets
from sqlstream.specs import SinkSpec
from sqlstream.specs.sink import COLLECT

EDGES_MAX = 10_000
"""Inputs of one operator, unions resolved."""


def translate_stream_graph(
    sinks: tuple[PhysicalNode, ...], scaling: Scaling, settings: Mapping[str, str]
) -> StreamGraph:
    """Operators with their parallelism and the exchanges between them; a union becomes several edges. UserError SS4002 when
    pipeline.max-parallelism is below the parallelism of an operator."""
    parallelism = parallelism_of(scaling)
    max_parallelism = _max_parallelism(settings, max(parallelism, default=1))
    uids: set[str] = set()
    translated = []
    for place, node in enumerate(walk_plan(sinks)):
        if node.spec is None:
            continue
        operator = scaling.nodes[place].operator
        translated.append(
            StreamNode(
                id=operator,
                uid=_unique(node.uid, uids),
                name=f"{node.name}[{operator}]",
                spec=node.spec,
                inputs=_edges(scaling, place, parallelism, node.span),
                output_schema=node.schema,
                output_mode=node.settled_mode,
                parallelism=parallelism[place],
                max_parallelism=max_parallelism,
                description=node.description,
                span=node.span,
                state=node.state,
            )
        )
    return StreamGraph(tuple(translated))


def _max_parallelism(settings: Mapping[str, str], highest: int) -> int:
    """The number of key groups, one for all operators: that of the option, or what follows from the highest parallelism."""
    wanted = int(config.get(settings, "pipeline.max-parallelism"))
    if wanted > 0:
        if wanted < highest:
            raise UserError(
                "SS4002",
                f"pipeline.max-parallelism is {wanted}, below the parallelism {highest} of an operator",
                hint=f"SET 'pipeline.max-parallelism' = '{highest}' or more",
            )
        return wanted
    return default_max_parallelism(highest)


def _edges(
    scaling: Scaling, place: int, parallelism: Sequence[int], span: Span | None
) -> tuple[StreamEdge, ...]:
    edges: list[StreamEdge] = []
    for edge in edges_of(scaling, place, parallelism):
        edges.append(edge)
        if len(edges) > EDGES_MAX:
            raise UserError(
                "SS3019",
                f"an operator of this statement would read more than {EDGES_MAX} inputs",
                span=span,
                hint="a chain of UNION ALL doubles the rows with every link: union fewer queries",
            )
    return tuple(edges)


def _unique(uid: str, used: set[str]) -> str:
    """A distinct uid: equal operators (two INSERTs of one query into one table) are numbered in the order of the script."""
    number, candidate = 0, uid
    while candidate in used:
        number += 1
        candidate = hashlib.sha256(f"{uid}#{number}".encode()).hexdigest()[:32]
    used.add(candidate)
    return candidate


# Physical plan → Scaling, and from it the parallelism and the exchanges of every operator.


REBALANCE = Exchange(ExchangeKind.REBALANCE)


def plan_scaling(sinks: tuple[PhysicalNode, ...], settings: Mapping[str, str]) -> Scaling:
    """Operators are numbered from 1 in the order of `walk_plan`."""
    places: dict[int, int] = {}
    nodes: list[PlannedNode] = []
    operators = 0
    for place, node in enumerate(walk_plan(sinks)):
        places[id(node)] = place
        operators += node.spec is not None
        inputs = tuple(PlannedInput(places[id(i.node)], i.exchange) for i in node.inputs)
        operator = operators if node.spec is not None else 0
        nodes.append(PlannedNode(operator, inputs, node.parallelism, node.traits.is_insert_only))
    return Scaling(default_parallelism(settings), tuple(nodes))


def default_parallelism(settings: Mapping[str, str]) -> int:
    """table.exec.resource.default-parallelism, or else parallelism.default."""
    for_tables = int(config.get(settings, "table.exec.resource.default-parallelism"))
    return for_tables if for_tables > 0 else int(config.get(settings, "parallelism.default"))


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


def edges_of(scaling: Scaling, place: int, parallelism: Sequence[int]) -> Iterator[StreamEdge]:
    """The inputs of one operator, unions resolved. FORWARD needs equal parallelism and is a REBALANCE otherwise. Between single
    subtasks every exchange is a FORWARD."""
    for ordinal, planned in enumerate(scaling.nodes[place].inputs):
        for source in _without_unions(scaling, planned.source):
            exchange = _exchange(planned.exchange, parallelism[source], parallelism[place])
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
        edges=_edges_of_vertex(stream_graph, nodes, heads),
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


def rescaled_job_graph(job: JobGraph, parallelism: int) -> JobGraph:
    """Operators keep their ids and uids, and with them their state; those of a fixed parallelism keep that. The number of key
    groups stays what it was when the job was planned. UserError SS6230 for a job that has no other parallelism, SS6231 for
    more subtasks than key groups."""
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
    operators = {o.id: o for v in job.vertices for o in v.operators}
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
                inputs=tuple(edges_of(wanted, place, counts)),
                output_schema=operator.output_schema,
                output_mode=operator.output_mode,
                parallelism=counts[place],
                max_parallelism=key_groups,
                description=operator.description,
                span=operator.span,
                state=operator.state,
            )
        )
    settings = _settings(job.config, parallelism)
    return translate_job_graph(StreamGraph(tuple(nodes)), settings, job.job_id, job.name, wanted)


def _scaling(job: JobGraph) -> Scaling:
    if job.scaling is None:
        raise UserError(
            "SS6230",
            f'job "{job.name}" is one of a batch engine, or was started by another version of sqlstream',
            hint="start it again with another 'parallelism.default'",
        )
    if parallelism_of(replace(job.scaling, parallelism=1)) == parallelism_of(
        replace(job.scaling, parallelism=2)
    ):
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


# The operator that hands the rows of another one to the client.


_COLLECTING = f"Sink: {COLLECT}"


def collecting(head: ChainedOperator, id: int, uid: str) -> ChainedOperator:
    """The sink `collect` behind `head`, with its rows as they are."""
    schema, mode = head.output_schema, head.output_mode
    spec = SinkSpec(COLLECT, COLLECT, {"connector": COLLECT}, schema)
    return ChainedOperator(id, uid, _COLLECTING, spec, head.id, (schema,), (mode,), schema, mode, _COLLECTING)


def collecting_vertex(id: str, head: ChainedOperator) -> JobVertex:
    """One task of two operators: `head`, whose rows are the answer to the client."""
    sink = collecting(head, head.id + 1, f"{id}-sink")
    return JobVertex(id, f"{head.name} -> {_COLLECTING}", (head, sink), parallelism=1, max_parallelism=1)
