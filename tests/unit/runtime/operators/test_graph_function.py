"""What graph functions say of vertices, over edges that come and go in any split, against networkx on the edges that are left."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import Collected, Row, batch, final_table, operator_context, restored, run_operator

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.runtime.operators import make_operator
from sqlstream.schema import Field, Schema
from sqlstream.specs.graph import GraphAlgorithm, GraphSpec
from sqlstream.types import LogicalType

COMPONENTS = GraphAlgorithm.CONNECTED_COMPONENTS
PATHS = GraphAlgorithm.SHORTEST_PATHS
TRIANGLES = GraphAlgorithm.TRIANGLES
RANKS = GraphAlgorithm.PAGERANK
LABELS = GraphAlgorithm.LABEL_PROPAGATION
INPUT = {True: ChangelogMode.RETRACT, False: ChangelogMode.INSERT_ONLY}


def name(number: int) -> str:
    """Texts of which some are longer than eight bytes, and whose order is not that of the numbers."""
    return f"{'account-' if number % 3 else ''}{number}"


def context_of(
    spec: GraphSpec, vertex: LogicalType, mode: ChangelogMode, weight: LogicalType | None = None
) -> Any:
    weights = [] if weight is None else [("w", weight)]
    edge = Schema.of(("a", vertex), ("b", vertex), *weights)
    count, of = sql.BIGINT.not_null(), vertex.not_null()
    values = {
        COMPONENTS: [Field("component", of)],
        PATHS: [Field("distance", count if weight is None else weight.not_null())],
        TRIANGLES: [Field("triangles", count)],
        RANKS: [Field("rank", sql.DOUBLE.not_null())],
        LABELS: [Field("label", of)],
    }[spec.algorithm]
    if weight is not None:
        values.append(Field("hops", count))
    output = Schema((Field("vertex", of), *values))
    return operator_context([edge], output, input_modes=[INPUT[spec.keeps_edges]], output_mode=mode)


def changes(seed: int, rows: int, vertices: int, weights: tuple[float, ...] = ()) -> Iterator[Row]:
    """Edges that come, and go while there are any; one may be there several times, lead to itself, or have no end."""
    fate = random.Random(seed)
    there: list[Row] = []
    for _ in range(rows):
        if there and fate.random() < 0.45:
            yield "-D", *there.pop(fate.randrange(len(there)))
            continue
        weight = [fate.choice(weights)] if weights else []
        edge: Row = (fate.randrange(vertices), fate.randrange(vertices), *weight)
        if fate.random() < 0.1 and there:
            edge = fate.choice(there)
        there.append(edge)
        yield "+I", *edge


def graph_of(rows: list[Row]) -> nx.DiGraph:
    """The edges that are left, of several between two vertices the lightest."""
    left: Counter[Row] = Counter()
    for kind, *edge in rows:
        left[tuple(edge)] += 1 if kind == "+I" else -1
    graph = nx.DiGraph()
    for source, target, *weight in sorted((+left).keys(), key=lambda edge: edge[2:], reverse=True):
        graph.add_edge(source, target, weight=weight[0] if weight else 1)
    return graph


def components(graph: nx.DiGraph, spec: GraphSpec) -> Counter[Row]:
    return Counter((v, min(found)) for found in nx.weakly_connected_components(graph) for v in found)


def paths(graph: nx.DiGraph, spec: GraphSpec) -> Counter[Row]:
    if spec.source not in graph:
        return Counter()
    return Counter(nx.single_source_dijkstra_path_length(graph, spec.source).items())


def weighted_paths(graph: nx.DiGraph, spec: GraphSpec) -> Counter[Row]:
    """With the fewest edges, by Bellman-Ford."""
    found = {spec.source: (0, 0)} if spec.source in graph else {}
    for _ in graph:
        for source, target, weight in graph.edges(data="weight"):
            if source in found:
                distance, hops = found[source]
                found[target] = min(found.get(target, (float("inf"), 0)), (distance + weight, hops + 1))
    return Counter((vertex, *way) for vertex, way in found.items())


def triangles(graph: nx.DiGraph, spec: GraphSpec) -> Counter[Row]:
    undirected = graph.to_undirected()
    undirected.remove_edges_from(list(nx.selfloop_edges(undirected)))
    return Counter(nx.triangles(undirected).items())


def ranks(graph: nx.DiGraph, spec: GraphSpec) -> Counter[Row]:
    """From scratch, in whole numbers of 2^-32."""
    one = 1 << 32
    found = dict.fromkeys(graph, one)
    for _ in range(spec.iterations):
        given = {v: sum(found[u] // graph.out_degree(u) for u in graph.predecessors(v)) for v in graph}
        found = {v: round((1 - spec.damping) * one) + int(float(given[v]) * spec.damping) for v in graph}
    return Counter((vertex, rank / one) for vertex, rank in found.items())


def labels(graph: nx.DiGraph, spec: GraphSpec) -> Counter[Row]:
    undirected = graph.to_undirected()
    found = {vertex: vertex for vertex in graph}
    for _ in range(spec.iterations):
        votes = {v: Counter(found[u] for u in {v, *undirected[v]}) for v in graph}
        found = {v: min(votes[v], key=lambda label, of=votes[v]: (-of[label], label)) for v in graph}
    return Counter(found.items())


EXPECTED: dict[GraphAlgorithm, Callable[[nx.DiGraph, GraphSpec], Counter[Row]]] = {
    COMPONENTS: components,
    PATHS: paths,
    TRIANGLES: triangles,
    RANKS: ranks,
    LABELS: labels,
}


def check(
    spec: GraphSpec,
    rows: list[Row],
    cuts: list[int],
    vertex: LogicalType,
    *,
    restores: bool = False,
    weight: LogicalType | None = None,
) -> None:
    """The table behind each batch is that of the edges so far; what is emitted is what it changes, and no more."""
    named = name if vertex == sql.STRING else int
    rows = [(kind, named(a), named(b), *rest) for kind, a, b, *rest in rows]
    if spec.algorithm is PATHS:
        spec = msgspec.structs.replace(spec, source=named(0))
    expected_of = EXPECTED[spec.algorithm] if weight is None else weighted_paths
    context = context_of(spec, vertex, ChangelogMode.RETRACT, weight)
    operator, output = make_operator(spec, context), Collected()
    bounds = sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
    table: Counter[Row] = Counter()
    for start, end in itertools.pairwise(bounds):
        part = [row if spec.keeps_edges else row[1:] for row in rows[start:end]]
        before = len(output.batches)
        operator.on_batch(batch(context.input_schemas[0], part, INPUT[spec.keeps_edges]), 0, output)
        expected = expected_of(graph_of(rows[:end]), spec)
        emitted = output.batches[before:]
        assert final_table(output.batches, [0]) == expected
        told = sum(b.num_rows for b in emitted)
        assert told == sum((table - expected).values()) + sum((expected - table).values())
        table = expected
        if restores:
            snapshot = operator.context.state.snapshot()
            operator = restored(spec, context, [snapshot], 0, 1)


VERTICES = st.sampled_from([sql.BIGINT, sql.INT, sql.STRING])


@given(st.integers(0, 10**9), st.integers(1, 12), st.lists(st.integers(0, 99), max_size=12), VERTICES)
@settings(max_examples=150)
def test_components_of_edges_that_come_and_go(
    seed: int, vertices: int, cuts: list[int], vertex: LogicalType
) -> None:
    check(GraphSpec(COMPONENTS, keeps_edges=True), list(changes(seed, 60, vertices)), cuts, vertex)


@given(st.integers(0, 10**9), st.integers(1, 40), st.lists(st.integers(0, 99), max_size=12), VERTICES)
@settings(max_examples=100)
def test_components_of_edges_that_only_come(
    seed: int, vertices: int, cuts: list[int], vertex: LogicalType
) -> None:
    rows = [row for row in changes(seed, 60, vertices) if row[0] == "+I"]
    check(GraphSpec(COMPONENTS, keeps_edges=False), rows, cuts, vertex)


ALL = [
    GraphSpec(COMPONENTS, True),
    GraphSpec(COMPONENTS, False),
    GraphSpec(PATHS, True),
    GraphSpec(TRIANGLES, True),
    GraphSpec(RANKS, True, damping=0.85, iterations=4),
    GraphSpec(LABELS, True, iterations=3),
]


@pytest.mark.parametrize("spec", ALL[2:], ids=lambda spec: spec.algorithm.value)
@given(st.integers(0, 10**9), st.integers(1, 12), st.lists(st.integers(0, 99), max_size=8), VERTICES)
@settings(max_examples=80)
def test_other_algorithms_over_edges_that_come_and_go(
    spec: GraphSpec, seed: int, vertices: int, cuts: list[int], vertex: LogicalType
) -> None:
    check(spec, list(changes(seed, 60, vertices)), cuts, vertex)


@pytest.mark.parametrize(("weight", "weights"), [(sql.BIGINT, (0, 1, 2, 5)), (sql.DOUBLE, (0.0, 0.5, 2.25))])
@given(st.integers(0, 10**9), st.integers(1, 10), st.lists(st.integers(0, 99), max_size=8), VERTICES)
@settings(max_examples=80)
def test_paths_along_edges_with_weights(
    weight: LogicalType,
    weights: tuple[float, ...],
    seed: int,
    vertices: int,
    cuts: list[int],
    vertex: LogicalType,
) -> None:
    check(GraphSpec(PATHS, True), list(changes(seed, 60, vertices, weights)), cuts, vertex, weight=weight)


@pytest.mark.parametrize("spec", ALL, ids=lambda spec: f"{spec.algorithm.value}-{spec.keeps_edges}")
@given(st.integers(0, 10**9), st.integers(1, 12), st.lists(st.integers(0, 99), max_size=6), VERTICES)
@settings(max_examples=40)
def test_a_restored_graph_goes_on(
    spec: GraphSpec, seed: int, vertices: int, cuts: list[int], vertex: LogicalType
) -> None:
    rows = [row for row in changes(seed, 40, vertices) if spec.keeps_edges or row[0] == "+I"]
    check(spec, rows, cuts, vertex, restores=True)


@pytest.mark.parametrize(
    ("weight", "edges", "code"),
    [
        (sql.BIGINT, [(0, 1, 3), (1, 2, -1)], "SS5420"),
        (sql.DOUBLE, [(0, 1, float("nan"))], "SS5420"),
        (sql.BIGINT, [(0, 1, 2**62), (1, 2, 2**62)], "SS5421"),
    ],
)
def test_a_weight_that_makes_no_distance_is_an_error(
    weight: LogicalType, edges: list[Row], code: str
) -> None:
    spec = GraphSpec(PATHS, True, source=0)
    context = context_of(spec, sql.BIGINT, ChangelogMode.RETRACT, weight)
    operator = make_operator(spec, context)
    rows = [("+I", *edge) for edge in edges]
    with pytest.raises(UserError) as caught:
        operator.on_batch(batch(context.input_schemas[0], rows, ChangelogMode.RETRACT), 0, Collected())
    assert caught.value.code == code


def test_an_edge_without_an_end_is_none() -> None:
    spec = GraphSpec(COMPONENTS, keeps_edges=False)
    context = context_of(spec, sql.BIGINT, ChangelogMode.UPSERT)
    output = run_operator(spec, context, [[(1, None), (None, 2), (4, 3), (None, None)]])
    assert output.upserted([0]) == {(3,): (3, 3), (4,): (4, 3)}
