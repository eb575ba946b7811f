"""The batch answers to the Nexmark queries: one for each file, and well defined where that is promised."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from differential.nexmark_batch import BATCH_SQL, COMPARED_COLUMNS, batch_answer, nexmark_tables

from sqlstream.planner.dialect.parser import parse_script
from sqlstream.runtime.connectors.generators.nexmark_config import NexmarkConfig

QUERIES = Path(__file__).parents[2] / "queries" / "nexmark"


def test_every_query_file_has_a_batch_answer_and_a_line_in_the_readme() -> None:
    files = {path.stem for path in QUERIES.glob("*.sql")}
    assert files == set(BATCH_SQL)
    readme = (QUERIES / "README.md").read_text()
    assert all(f"[{query}]({query}.sql)" in readme for query in files)


@pytest.mark.parametrize("query", sorted(BATCH_SQL))
def test_every_query_file_parses_and_ends_in_an_insert(query: str) -> None:
    statements = parse_script((QUERIES / f"{query}.sql").read_text())
    assert type(statements[-1]).__name__ == "Insert"
    assert {type(statement).__name__ for statement in statements[:-1]} == {"CreateTable"}


@pytest.mark.parametrize("query", sorted(BATCH_SQL))
def test_every_batch_answer_has_rows(query: str) -> None:
    answer = batch_answer(query, 30_000, NexmarkConfig(rate=1000))
    assert answer.num_rows > 0
    assert set(COMPARED_COLUMNS.get(query, ())) <= set(answer.column_names)


def test_tables_hold_all_events_once_in_order() -> None:
    tables = nexmark_tables(1234, NexmarkConfig())
    numbers = pa.chunked_array([c for t in tables.values() for c in t["number"].chunks])
    assert sorted(numbers.to_pylist()) == list(range(1234))
    assert tables["bid"]["number"].to_pylist() == [n for n in range(1234) if n % 50 >= 4]
