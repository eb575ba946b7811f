"""VECTOR_SEARCH in sessions: its forms, its tables, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from http_harness import planned, rows

import sqlstream
from sqlstream.graph.job_graph import read_tables

QUERIES = (
    "CREATE VIEW q AS SELECT * FROM (VALUES (1, ARRAY[1E0, 0.1E0]), (2, CAST(NULL AS ARRAY<DOUBLE>)),"
    " (3, ARRAY[-1E0, 0E0])) AS q (n, q)"
)
BEST = "LATERAL TABLE(VECTOR_SEARCH(TABLE docs, DESCRIPTOR(v), q.q, 1))"


@pytest.fixture
def docs(tmp_path: Path) -> str:
    vectors = pa.array([[1, 0], [0, 1], [1, 1], None], pa.list_(pa.float32()))
    made = pa.table({"id": pa.array([1, 2, 3, 4]), "kind": ["a", "a", "b", "b"], "v": vectors})
    pq.write_table(made, tmp_path / "docs.parquet")
    options = f"'connector' = 'filesystem', 'path' = '{tmp_path}/docs.parquet', 'format' = 'parquet'"
    return f"CREATE TABLE docs (id BIGINT, kind STRING, v ARRAY<FLOAT>) WITH ({options})"


def failure(*statements: str) -> Any:
    with pytest.raises(sqlstream.Error) as raised:
        rows(*statements)
    return raised.value


@pytest.mark.parametrize(
    "search",
    [
        f"FROM q, {BEST}",
        f"FROM q, {BEST} AS d",
        f"FROM q CROSS JOIN {BEST}",
        f"FROM q JOIN {BEST} ON TRUE",
        "FROM q, LATERAL VECTOR_SEARCH(TABLE docs, DESCRIPTOR(v), q.q, 1)",
        "FROM q, LATERAL TABLE(VECTOR_SEARCH(SEARCH_TABLE => TABLE docs, COLUMN_TO_SEARCH => DESCRIPTOR(v),"
        " COLUMN_TO_QUERY => q, TOP_K => 1, CONFIG => MAP['async', 'false', 'metric', 'COSINE', 'reload', '1 h']))",
        "FROM q, LATERAL TABLE(VECTOR_SEARCH(TABLE (SELECT * FROM docs WHERE id > 0), DESCRIPTOR(v), q.q, 1))",
    ],
)
def test_all_forms_find_the_nearest_rows(docs: str, search: str) -> None:
    assert rows(docs, QUERIES, f"SELECT n, id, ROUND(score, 3) {search}") == [(1, 1, 0.995), (3, 2, 0.0)]


def test_a_row_without_any_stays_with_left_join_and_columns_have_other_names(docs: str) -> None:
    search = "VECTOR_SEARCH(TABLE docs, DESCRIPTOR(v), q.q, 1, MAP['metric', 'l2'])"
    found = rows(
        docs,
        QUERIES,
        f"SELECT n, d.a, d.s FROM q LEFT JOIN LATERAL TABLE({search}) AS d (a, b, c, s) ON TRUE",
    )
    assert found == [(1, 1, pytest.approx(0.1)), (2, None, None), (3, 2, pytest.approx(2**0.5))]


def test_conditions_on_what_was_found_choose_among_the_nearest_alone(docs: str) -> None:
    """The table is searched whole: the nearest of kind b is asked for by a subquery."""
    assert rows(docs, QUERIES, f"SELECT n, id FROM q, {BEST} WHERE kind = 'b' AND n > 0") == []
    inner = BEST.replace("TABLE docs", "TABLE (SELECT * FROM docs WHERE kind = 'b')")
    assert rows(docs, QUERIES, f"SELECT n, id FROM q, {inner} WHERE n > 0") == [(1, 3), (3, 3)]
    assert rows(docs, QUERIES, f"SELECT COUNT(*) FROM q, {BEST}") == [(2,)]
    constant = "VECTOR_SEARCH(TABLE docs, DESCRIPTOR(v), ARRAY[0.0, 1.0], 3, MAP['metric', 'dot'])"
    assert rows(docs, f"SELECT id, score FROM LATERAL TABLE({constant})") == [(2, 1.0), (3, 1.0), (1, 0.0)]


def test_the_table_counts_as_read(docs: str) -> None:
    graph = planned(docs, QUERIES, f"SELECT n, id FROM q, {BEST}")
    assert [spec.table for _, spec in read_tables(graph)] == ["docs"]


@pytest.mark.parametrize(
    ("search", "code", "said"),
    [
        ("LATERAL TABLE(VECTOR_SEARCH(TABLE docs, DESCRIPTOR(id), q.q, 1))", "SS3527", "not BIGINT"),
        ("LATERAL TABLE(VECTOR_SEARCH(TABLE docs, DESCRIPTOR(v), q.n, 1))", "SS3527", "not INT"),
        ("LATERAL TABLE(VECTOR_SEARCH(TABLE docs, DESCRIPTOR(w), q.q, 1))", "SS2003", "w"),
        ("LATERAL TABLE(VECTOR_SEARCH(TABLE docs, DESCRIPTOR(v, id), q.q, 1))", "SS3526", "is one column"),
        ("LATERAL TABLE(VECTOR_SEARCH(TABLE docs, DESCRIPTOR(v), q.q, 0))", "SS3526", "from 1 to"),
        ("LATERAL TABLE(VECTOR_SEARCH(TABLE docs, DESCRIPTOR(v), q.q, 1.5))", "SS3526", "from 1 to"),
        ("LATERAL TABLE(VECTOR_SEARCH(TABLE docs, q.q, DESCRIPTOR(v), 1))", "SS3526", "is a column"),
        ("LATERAL TABLE(VECTOR_SEARCH(TABLE docs, DESCRIPTOR(v), q.q))", "SS3526", 'needs "top_k"'),
        ("LATERAL TABLE(VECTOR_SEARCH(TABLE docs, DESCRIPTOR(v), q.q, 1, MAP[], 2))", "SS3526", "at most 5"),
        ("LATERAL TABLE(VECTOR_SEARCH(TABLE docs, DESCRIPTOR(v), q.q, K => 1))", "SS3526", 'no argument "k"'),
        ("LATERAL TABLE(VECTOR_SEARCH(TABLE nix, DESCRIPTOR(v), q.q, 1))", "SS2001", "nix"),
        ("VECTOR_SEARCH(TABLE docs, DESCRIPTOR(v), q.q, 1)", "SS3526", "stands behind LATERAL"),
        ("LATERAL TABLE(VECTOR_SEARCH(TABLE endless, DESCRIPTOR(v), q.q, 1))", "SS3528", "never ends"),
        ("LATERAL TABLE(VECTOR_SEARCH(TABLE counted, DESCRIPTOR(v), q.q, 1))", "SS3031", "Aggregate"),
        *(
            (
                f"LATERAL TABLE(VECTOR_SEARCH(TABLE docs, DESCRIPTOR(v), q.q, 1, MAP[{config}]))",
                "SS3526",
                said,
            )
            for config, said in (
                ("'metric', 'l1'", 'no metric "l1"'),
                ("'async', 'true'", "no use"),
                ("'timeout', '1 s'", "no use"),
                ("'reload', 'daily'", "is a duration"),
                ("'metrik', 'l2'", 'config has no "metrik"'),
                ("'metric', 2", "a MAP of texts"),
            )
        ),
    ],
)
def test_what_has_no_meaning_is_refused(docs: str, search: str, code: str, said: str) -> None:
    more = (
        "CREATE TABLE endless (v ARRAY<FLOAT>) WITH ('connector' = 'datagen')",
        "CREATE VIEW counted AS SELECT v, COUNT(*) AS n FROM docs GROUP BY v",
    )
    error = failure(docs, QUERIES, *more, f"SELECT * FROM q, {search}")
    assert (error.code, said in error.message) == (code, True), error


def test_joins_and_rows_that_it_does_not_take_are_refused(docs: str) -> None:
    right = BEST.replace("q.q", "ARRAY[1E0, 0E0]")
    assert failure(docs, QUERIES, f"SELECT * FROM q RIGHT JOIN {right} ON TRUE").code == "SS3442"
    changing = "(SELECT n, LAST_VALUE(q) AS q FROM q GROUP BY n) AS q"
    assert failure(docs, QUERIES, f"SELECT * FROM {changing}, {BEST}").code == "SS3011"


def test_a_batch_statement_searches_as_a_stream(docs: str) -> None:
    batch = "SET 'execution.runtime-mode' = 'batch'"
    assert rows(docs, QUERIES, batch, f"SELECT n, id FROM q, {BEST}") == [(1, 1), (3, 2)]


def test_a_table_of_duckdb_is_written_and_searched_and_says_when_it_is_read(
    docs: str, tmp_path: Path
) -> None:
    options = f"'connector' = 'duckdb', 'path' = '{tmp_path}/docs.duckdb'"
    kept = f"CREATE TABLE kept (id BIGINT, v ARRAY<FLOAT>, PRIMARY KEY (id) NOT ENFORCED) WITH ({options})"
    searched = "LATERAL TABLE(VECTOR_SEARCH(TABLE {}, DESCRIPTOR(v), q.q, 1{}))"
    rows(docs, kept, "SET 'table.dml-sync' = 'true'", "INSERT INTO kept SELECT id, v FROM docs", "SELECT 1")
    for hint in ("", "'lookup.cache' = 'NONE'", "'lookup.cache' = 'FULL'"):
        table = f"CREATE TABLE kept (id BIGINT, v ARRAY<FLOAT>) WITH ({options}{', ' if hint else ''}{hint})"
        found = rows(table, QUERIES, f"SELECT n, id FROM q, {searched.format('kept', '')}")
        assert sorted(found) == [(1, 1), (3, 2)]
    for hint, config, said in (
        ("'lookup.cache' = 'PARTIAL'", "", "has no keys"),
        ("'lookup.cache' = 'FULL'", ", MAP['reload', '1 h']", "and so does the call"),
    ):
        table = f"CREATE TABLE kept (id BIGINT, v ARRAY<FLOAT>) WITH ({options}, {hint})"
        error = failure(table, QUERIES, f"SELECT n, id FROM q, {searched.format('kept', config)}")
        assert (error.code, said in error.message) == ("SS3610", True)
