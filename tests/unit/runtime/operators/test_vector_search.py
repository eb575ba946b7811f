"""A vector search gives each row the rows whose vectors are nearest, as a computation row by row does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lookup_harness import ListTable
from operator_harness import Collected, ManualClock, Row, feed, finish, operator_context

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.expressions import Call, InputRef, Literal
from sqlstream.runtime.operators.join.vector_search import VectorSearch, VectorTable
from sqlstream.schema import Field, Schema
from sqlstream.specs import JoinKind, SourceSpec, VectorSearchSpec
from sqlstream.specs.join import VectorMetric

Vector = list[float | None] | None


def schemas(element: sql.LogicalType) -> tuple[Schema, Schema]:
    queries = Schema.of(("n", sql.BIGINT), ("q", sql.array(sql.DOUBLE)))
    return queries, Schema.of(("id", sql.BIGINT), ("kind", sql.STRING), ("v", sql.array(element)))


def spec_of(element: sql.LogicalType, **changed: Any) -> VectorSearchSpec:
    _, table = schemas(element)
    given = {
        "kind": JoinKind.INNER,
        "left_keys": (),
        "source_keys": (),
        "right_keys": (),
        "source": SourceSpec("docs", "filesystem", {}, table, table.names),
        "projections": tuple(InputRef(i, t) for i, t in enumerate(table.types)),
        "right_schema": table,
        "columns": (0,),
        "query": 1,
        "vector": 2,
        "top_k": 2,
    }
    return VectorSearchSpec(**{**given, **changed})


def made(
    spec: VectorSearchSpec, element: sql.LogicalType, table: ListTable, clock: ManualClock | None = None
) -> VectorSearch:
    queries, found = schemas(element)
    output = Schema((queries.fields[0], *found.fields, Field("score", sql.DOUBLE)))
    return VectorSearch(spec, operator_context([queries], output, now_ms=clock or ManualClock()), table)


def is_vector(vector: Vector) -> bool:
    return vector is not None and all(x is not None and math.isfinite(x) for x in vector)


def score_of(metric: VectorMetric, a: Vector, b: Vector) -> float | None:
    """None where there is none."""
    if not is_vector(a) or not is_vector(b):
        return None
    assert a is not None
    assert b is not None
    pairs = [(float(x or 0), float(y or 0)) for x, y in zip(a, b, strict=True)]
    product = sum(x * y for x, y in pairs)
    if metric is VectorMetric.DOT:
        return product
    if metric is VectorMetric.L2:
        return math.sqrt(sum((x - y) ** 2 for x, y in pairs))
    lengths = math.sqrt(sum(x * x for x, _ in pairs)) * math.sqrt(sum(y * y for _, y in pairs))
    return product / lengths if lengths else None


def reference(spec: VectorSearchSpec, queries: list[Row], table: list[Row]) -> list[Row]:
    metric, found = VectorMetric(spec.metric), []
    for n, query in queries:
        scored = [(row, s) for row in table if (s := score_of(metric, query, row[2])) is not None]
        sign = 1 if metric is VectorMetric.L2 else -1
        best = sorted(scored, key=lambda pair: sign * pair[1])[: spec.top_k]
        found += [(n, *row, score) for row, score in best]
        if not best and spec.kind is JoinKind.LEFT:
            found.append((n, None, None, None, None))
    return found


# Sums and products of such numbers are exact in FLOAT, so that equal scores are equal.
numbers = st.integers(-4, 4).map(lambda n: n / 2)
vectors = st.none() | st.lists(numbers, min_size=3, max_size=3)
odd_vectors = vectors | st.sampled_from(
    [[None, 1.0, 0.0], [float("nan"), 0.0, 1.0], [float("inf"), 0.0, 0.0]]
)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.lists(odd_vectors, max_size=4), max_size=4),
    st.lists(odd_vectors, max_size=30),
    st.sampled_from([sql.FLOAT, sql.DOUBLE]),
    st.sampled_from(list(VectorMetric)),
    st.sampled_from([JoinKind.INNER, JoinKind.LEFT]),
    st.integers(1, 6),
)
def test_rows_have_their_nearest_ones_in_order(
    cut: list[list[Vector]],
    table: list[Vector],
    element: sql.LogicalType,
    metric: VectorMetric,
    kind: JoinKind,
    top_k: int,
) -> None:
    spec = spec_of(element, metric=metric.value, kind=kind, top_k=top_k)
    rows: list[Row] = [(i, "ab"[i % 2], v) for i, v in enumerate(table)]
    operator, output = made(spec, element, ListTable(schemas(element)[1], (), rows)), Collected()
    n = iter(range(100))
    batches = [[(next(n), q) for q in batch] for batch in cut]
    feed(operator, batches, output)
    finish(operator, output)
    wanted = reference(spec, [row for batch in batches for row in batch], rows)
    found = output.rows
    assert [row[0] for row in found] == [row[0] for row in wanted]
    assert [row[-1] for row in found] == [
        row[-1] if row[-1] is None else pytest.approx(row[-1]) for row in wanted
    ]
    for row in found:
        # Of rows with equal scores any may be there: each has the score that it says.
        if row[1] is not None:
            query = dict(r for batch in batches for r in batch)[row[0]]
            assert row[-1] == pytest.approx(score_of(metric, query, table[row[1]]))
    assert len({row[:2] for row in found}) == len(found)


@pytest.mark.parametrize("metric", list(VectorMetric))
@pytest.mark.parametrize("element", [sql.FLOAT, sql.DOUBLE])
def test_many_vectors_are_searched_as_numpy_does_it(metric: VectorMetric, element: sql.LogicalType) -> None:
    fate = np.random.default_rng(7)
    dtype = np.float32 if element is sql.FLOAT else np.float64
    table = fate.standard_normal((3_000, 24)).astype(dtype)
    queries = fate.standard_normal((40, 24))
    spec = spec_of(element, metric=metric.value, top_k=10)
    rows: list[Row] = [(i, "a", v) for i, v in enumerate(table.tolist())]
    operator, output = made(spec, element, ListTable(schemas(element)[1], (), rows)), Collected()
    feed(operator, [list(enumerate(queries.tolist()))], output)
    exact = table.astype(np.float64)
    products = queries @ exact.T
    if metric is VectorMetric.COSINE:
        lengths = np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(exact, axis=1)
        scores = products / lengths
    elif metric is VectorMetric.DOT:
        scores = products
    else:
        scores = -np.linalg.norm(queries[:, None] - exact, axis=2)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    assert [row[1] for row in output.rows] == best.ravel().tolist()
    wanted = np.abs(np.take_along_axis(scores, best, axis=1)) if metric is VectorMetric.L2 else None
    found = np.array([row[-1] for row in output.rows]).reshape(40, 10)
    taken = np.take_along_axis(scores, best, axis=1) if wanted is None else wanted
    np.testing.assert_allclose(found, taken, rtol=1e-12)


@pytest.mark.parametrize("metric", list(VectorMetric))
@pytest.mark.parametrize("element", [sql.FLOAT, sql.DOUBLE])
@pytest.mark.parametrize(("offset", "width"), [(1_000.0, 0.01), (1e8, 1e-3), (1e20, 1e19), (1e-24, 1e-25)])
def test_the_nearest_are_exact_where_vectors_differ_by_less_than_products_of_them_are_rounded(
    metric: VectorMetric, element: sql.LogicalType, offset: float, width: float
) -> None:
    fate = np.random.default_rng(7)
    given = offset + width * fate.standard_normal((2_000, 2))
    vectors = pa.array(given.tolist(), to_arrow_type(sql.array(element)))
    table = VectorTable(pa.record_batch({"v": vectors}), 0, metric, "docs")
    queries = offset + width * fate.standard_normal((8, 2))
    _, scores = table.nearest(queries, 5)
    exact = table.vectors.astype(np.float64)
    for query, found in zip(queries, scores, strict=True):
        if metric is VectorMetric.L2:
            wanted = np.sort(np.linalg.norm(exact - query, axis=1))[:5]
        else:
            lengths = np.linalg.norm(exact, axis=1) * np.linalg.norm(query)
            products = exact @ query
            wanted = -np.sort(-(products / lengths if metric is VectorMetric.COSINE else products))[:5]
        np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_a_table_is_read_once_or_again_when_it_is_due_and_only_its_rows_that_are_wanted() -> None:
    _, found = schemas(sql.FLOAT)
    table = ListTable(found, (), [(1, "a", [1.0, 0.0]), (2, "b", [1.0, 0.0])])
    is_a = Call("=", (InputRef(1, sql.STRING), Literal("a", sql.STRING)), sql.BOOLEAN)
    for reload_ms, wanted in ((0, [1, 1]), (500, [1, 3])):
        clock, output = ManualClock(1_000), Collected()
        spec = spec_of(sql.FLOAT, reload_ms=reload_ms, source_condition=is_a)
        operator = made(spec, sql.FLOAT, table, clock)
        table.rows = [(1, "a", [1.0, 0.0]), (2, "b", [1.0, 0.0])]
        feed(operator, [[(1, [1.0, 0.0])]], output)
        table.rows = [(3, "a", [1.0, 0.0])]
        clock.now_ms = 1_500
        feed(operator, [[(2, [1.0, 0.0])]], output)
        assert [row[1] for row in output.rows] == wanted


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"lookup.cache": "NONE"}, [1, 2, 3]),
        ({"lookup.cache": "FULL"}, [1, 1, 1]),
        ({"lookup.cache": "FULL", "lookup.full-cache.periodic-reload.interval": "1 s"}, [1, 1, 3]),
    ],
)
def test_a_table_is_read_again_as_its_cache_says(options: dict[str, str], wanted: list[int]) -> None:
    _, found = schemas(sql.FLOAT)
    source = SourceSpec("docs", "duckdb", {"path": "x.duckdb", **options}, found, found.names)
    table, clock, output = ListTable(found, (), []), ManualClock(1_000), Collected()
    operator = made(spec_of(sql.FLOAT, source=source), sql.FLOAT, table, clock)
    for number in (1, 2, 3):
        table.rows = [(number, "a", [1.0, 0.0])]
        clock.now_ms = 500 * number
        feed(operator, [[(number, [1.0, 0.0])]], output)
    assert [row[1] for row in output.rows] == wanted


@pytest.mark.parametrize(
    ("query", "table", "said"),
    [
        ([1.0], [[1.0, 2.0]], "a vector of length 1 is searched for"),
        ([1.0, 2.0], [[1.0, 2.0], [1.0]], 'the vectors of table "docs" have lengths 2 and 1'),
    ],
)
def test_vectors_of_other_lengths_are_refused(query: Vector, table: list[Vector], said: str) -> None:
    rows: list[Row] = [(i, "a", v) for i, v in enumerate(table)]
    operator = made(spec_of(sql.FLOAT), sql.FLOAT, ListTable(schemas(sql.FLOAT)[1], (), rows))
    with pytest.raises(UserError) as raised:
        feed(operator, [[(1, query)]], Collected())
    assert (raised.value.code, said in raised.value.message) == ("SS5445", True), raised.value
