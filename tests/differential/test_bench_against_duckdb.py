"""What `bench --against duckdb` asks of DuckDB is what the hand-written batch queries ask."""

from __future__ import annotations

import pytest
from differential.nexmark_batch import BATCH_SQL, batch_answer

from sqlstream.arrow import to_arrow_schema
from sqlstream.client.benches.nexmark import (
    AGAINST_COLUMNS,
    BatchAnswer,
    NexmarkBench,
    answer_in_duckdb,
    available_queries,
    is_equally_right,
)
from sqlstream.client.sessions.target_session import local_session
from sqlstream.errors import JobError
from sqlstream.runtime.connectors.checksum import row_checksum
from sqlstream.runtime.connectors.generators.nexmark_config import NexmarkConfig

EVENTS = 30_000
RATE = 1_000


@pytest.mark.parametrize("query", [q for q in available_queries() if q != "gen"])
def test_the_lowered_query_answers_as_the_hand_written_one(query: str) -> None:
    with local_session() as session, NexmarkBench(EVENTS, 1, RATE, {}) as bench:
        sink, sources = bench.bound(session, query)
    answer = answer_in_duckdb(sink, EVENTS, NexmarkConfig(rate=RATE), 1)
    expected = batch_answer(query, EVENTS, NexmarkConfig(rate=RATE))
    assert answer.rows == expected.num_rows > 0
    assert sources.count("INSERT INTO source_") == (
        2 if query in ("q3", "q4", "q6", "q8", "q9", "q20") else 1
    )
    if query in ("q12", "q18", "q19"):
        return
    columns = [
        c.combine_chunks().cast(f.type)
        for c, f in zip(expected.columns, to_arrow_schema(sink.schema), strict=True)
    ]
    assert answer.checksum == f"{int(row_checksum(columns).sum()) & (2**64 - 1):016x}"


def test_every_query_has_a_batch_answer() -> None:
    assert {*available_queries()} == {"gen", *BATCH_SQL}


def test_answers_are_compared_as_far_as_they_are_defined() -> None:
    answer = BatchAnswer(1.0, 7, "aa")
    assert answer.is_answered_by("q3", 7, "aa") is True
    assert answer.is_answered_by("q3", 7, "bb") is False
    assert answer.is_answered_by("q3", 6, "aa") is False
    assert answer.is_answered_by("q18", 7, "bb") is True
    assert answer.is_answered_by("q19", 6, "aa") is False
    assert answer.is_answered_by("q12", 9, "bb") is None


def test_answers_that_are_too_large_to_compare_agree_by_their_counts_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def verify_sinks(*given: object) -> None:
        raise JobError("SS5070", "DuckDB has no memory left to compare the rows")

    monkeypatch.setattr("sqlstream.client.verification.verify.verify_sinks", verify_sinks)
    with local_session() as session, NexmarkBench(EVENTS, 1, RATE, {}) as bench:
        sink, _ = bench.bound(session, "q18")
        found = is_equally_right(session, sink)
    assert [dict(AGAINST_COLUMNS)["is_same_answer"](each) for each in (None, True, False, found)] == [
        "",
        "yes",
        "NO",
        "count only",
    ]
