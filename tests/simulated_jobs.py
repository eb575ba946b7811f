"""Random jobs for simulated clusters: a line of one to three vertices, in some of which rows are counted by key."""

from __future__ import annotations

import random

import msgspec
from simulated_tasks import ASSIGNED, COUNT, KEEP, SCHEMA

from sqlstream.changelog import ChangelogMode
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobEdge, JobGraph, JobVertex
from sqlstream.graph.parallelism import rescaled_job_graph
from sqlstream.graph.scaling import PlannedInput, PlannedNode, Scaling
from sqlstream.graph.stream_graph import FORWARD, Exchange, ExchangeKind
from sqlstream.specs import GroupAggregateSpec, SinkSpec, SourceSpec, Spec

CONFIG = {"slot.request.timeout": "20 s", "task.cancellation.timeout": "8 s", "heartbeat.timeout": "3 s"}
HASH = Exchange(ExchangeKind.HASH, (0,))


def random_job(rng: random.Random, number: int, counts: bool = False) -> JobGraph:
    """A job of one to three vertices, of which the last holds a sink. Now and then one is wider than the cluster may be. With
    `counts` one behind the source counts rows by key."""
    depth = rng.randint(2 if counts else 1, 3)
    counting = rng.randint(1, depth - 1) if counts else depth
    parallelism = [rng.randint(1, 3) for _ in range(depth)]
    if rng.random() < 0.1:
        parallelism[-1] = rng.randint(4, 14)
    has_splits = rng.random() < 0.5
    options = {"parts": str(rng.randint(0, 8) if has_splits else parallelism[0])}
    name = ASSIGNED if has_splits else "simulated"
    chains: list[list[Spec]] = [[SourceSpec(f"t{number}", name, options, SCHEMA, SCHEMA.names)]]
    for i in range(1, depth):
        chains.append([COUNT] if i == counting else [] if i > counting else [KEEP])
    chains[-1].append(SinkSpec("s", "simulated", {}, SCHEMA))
    vertices = tuple(_vertex(i, chain, parallelism[i], i > counting) for i, chain in enumerate(chains))
    edges = tuple(
        _edge(i, vertices, HASH if i + 1 == counting else random_exchange(rng), i >= counting)
        for i in range(depth - 1)
    )
    return JobGraph(f"job{number}", f"job {number}", vertices, edges, CONFIG)


def whole_cluster_job(rng: random.Random, number: int, slots: int) -> JobGraph:
    """A job that needs all slots that the cluster may have."""
    job = random_job(rng, number)
    source = job.vertices[0].operators[0]
    spec = source.spec
    assert isinstance(spec, SourceSpec)
    if spec.connector != ASSIGNED:
        wider = msgspec.structs.replace(spec, options={"parts": str(slots)})
        source = msgspec.structs.replace(source, spec=wider)
    operators = (source, *job.vertices[0].operators[1:])
    first = msgspec.structs.replace(job.vertices[0], parallelism=slots, operators=operators)
    others = (msgspec.structs.replace(v, parallelism=min(v.parallelism, slots)) for v in job.vertices[1:])
    return msgspec.structs.replace(job, vertices=(first, *others))


def adaptive_job(rng: random.Random, job: JobGraph) -> JobGraph:
    """The same operators, each a vertex of its own, in a job that follows the slots that there are."""
    nodes: list[PlannedNode] = []
    for vertex in job.vertices:
        fed_by = job.inputs_of(vertex.id)
        for operator in vertex.operators:
            exchange = fed_by[0].exchange if fed_by and operator is vertex.operators[0] else FORWARD
            inputs = (PlannedInput(len(nodes) - 1, exchange),) if nodes else ()
            nodes.append(PlannedNode(operator.id, inputs, 0, operator.output_mode.is_insert_only))
    prefix = "jobmanager.adaptive-scheduler."
    config = {
        "pipeline.operator-chaining.enabled": "false",
        "jobmanager.scheduler": "Adaptive",
        f"{prefix}submission.resource-wait-timeout": "20 s",
        f"{prefix}submission.resource-stabilization-timeout": f"{rng.choice([0, 1500])} ms",
        f"{prefix}executing.resource-stabilization-timeout": f"{rng.choice([0, 1500])} ms",
        f"{prefix}executing.cooldown-after-rescaling": f"{rng.choice([0, 2000])} ms",
        f"{prefix}rescale-trigger.max-checkpoint-failures": rng.choice(["1", "2"]),
    }
    parallelism = rng.randint(2, 4)
    planned = msgspec.structs.replace(
        job, config=job.config | config, scaling=Scaling(parallelism, tuple(nodes))
    )
    return rescaled_job_graph(planned, parallelism)


def random_exchange(rng: random.Random) -> Exchange:
    kind = rng.choice([ExchangeKind.HASH, ExchangeKind.RESCALE, ExchangeKind.BROADCAST])
    return HASH if kind is ExchangeKind.HASH else Exchange(kind, ())


def _vertex(i: int, chain: list[Spec], parallelism: int, is_changelog: bool) -> JobVertex:
    operators = []
    for n, spec in enumerate(chain):
        mode = ChangelogMode.RETRACT if is_changelog else ChangelogMode.INSERT_ONLY
        schemas, modes = ((), ()) if isinstance(spec, SourceSpec) else ((SCHEMA,), (mode,))
        is_changelog = is_changelog or isinstance(spec, GroupAggregateSpec)
        made = ChangelogMode.RETRACT if is_changelog else ChangelogMode.INSERT_ONLY
        id = 10 * i + n + 1
        input = NETWORK_INPUT if n == 0 else id - 1
        operators.append(
            ChainedOperator(id, f"{id:032x}", f"op{id}", spec, input, schemas, modes, SCHEMA, made)
        )
    return JobVertex(operators[0].uid, f"v{i}", tuple(operators), parallelism, 128)


def _edge(i: int, vertices: tuple[JobVertex, ...], exchange: Exchange, is_changelog: bool) -> JobEdge:
    mode = ChangelogMode.RETRACT if is_changelog else ChangelogMode.INSERT_ONLY
    source = vertices[i]
    return JobEdge(i, source.id, source.operators[-1].id, vertices[i + 1].id, 0, exchange, SCHEMA, mode)
