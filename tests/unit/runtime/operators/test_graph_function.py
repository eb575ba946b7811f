"""What graph functions say of vertices, over edges that come and go in any split, against networkx on the edges that are left."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import Collected, Row, batch, final_table, operator_context, restored

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.runtime.operators import make_operator
from sqlstream.schema import Field, Schema
from sqlstream.specs.graph import GraphAlgorithm, GraphSpec
from sqlstream.types import LogicalType

COMPONENTS = GraphAlgorithm.CONNECTED_COMPONENTS
INPUT = {True: ChangelogMode.RETRACT, False: ChangelogMode.INSERT_ONLY}


def name(number: int) -> str:
    """Texts of which some are longer than eight bytes, and whose order is not that of the numbers."""
    return f"{'account-' if number % 3 else ''}{number}"


def context_of(spec: GraphSpec, vertex: LogicalType, mode: ChangelogMode) -> Any:
    edge = Schema.of(("a", vertex), ("b", vertex))
    values = (Field("component", vertex.not_null()),)
    output = Schema((Field("vertex", vertex.not_null()), *values))
    return operator_context([edge], output, input_modes=[INPUT[spec.keeps_edges]], output_mode=mode)


def changes(seed: int, rows: int, vertices: int) -> Iterator[Row]:
    """Edges that come, and go while there are any; one may be there several times, lead to itself, or have no end."""
    fate = random.Random(seed)
    there: list[Row] = []
    for _ in range(rows):
        if there and fate.random() < 0.45:
            yield "-D", *there.pop(fate.randrange(len(there)))
            continue
        edge = fate.randrange(vertices), fate.randrange(vertices)
        if fate.random() < 0.1 and there:
            edge = fate.choice(there)
        there.append(edge)
        yield "+I", *edge


def graph_of(rows: list[Row]) -> nx.DiGraph:
    left: Counter[Row] = Counter()
    for kind, *edge in rows:
        left[tuple(edge)] += 1 if kind == "+I" else -1
    return nx.DiGraph(list((+left).keys()))


def components(graph: nx.DiGraph) -> Counter[Row]:
    return Counter((v, min(found)) for found in nx.weakly_connected_components(graph) for v in found)


EXPECTED: dict[GraphAlgorithm, Callable[[nx.DiGraph], Counter[Row]]] = {COMPONENTS: components}


def check(
    spec: GraphSpec, rows: list[Row], cuts: list[int], vertex: LogicalType, *, restores: bool = False
) -> None:
    """The table behind each batch is that of the edges so far; what is emitted is what it changes, and no more."""
    named = name if vertex == sql.STRING else int
    rows = [(kind, *map(named, edge)) for kind, *edge in rows]
    context = context_of(spec, vertex, ChangelogMode.RETRACT)
    operator, output = make_operator(spec, context), Collected()
    bounds = sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
    table: Counter[Row] = Counter()
    for start, end in itertools.pairwise(bounds):
        part = [row if spec.keeps_edges else row[1:] for row in rows[start:end]]
        before = len(output.batches)
        operator.on_batch(batch(context.input_schemas[0], part, INPUT[spec.keeps_edges]), 0, output)
        expected = EXPECTED[spec.algorithm](graph_of(rows[:end]))
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


@pytest.mark.parametrize("keeps_edges", [True, False])
@given(st.integers(0, 10**9), st.integers(1, 12), st.lists(st.integers(0, 99), max_size=6), VERTICES)
@settings(max_examples=40)
def test_a_restored_graph_goes_on(
    keeps_edges: bool, seed: int, vertices: int, cuts: list[int], vertex: LogicalType
) -> None:
    rows = [row for row in changes(seed, 40, vertices) if keeps_edges or row[0] == "+I"]
    check(GraphSpec(COMPONENTS, keeps_edges), rows, cuts, vertex, restores=True)
