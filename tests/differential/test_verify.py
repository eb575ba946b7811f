"""VERIFY finds no difference: golden scripts, Nexmark queries and random queries, as streams over two processes with Flight
between them, and in batch. A share with fixed seeds runs in `make test`; 200 random queries and a million events run in
`make test-all`, on DuckDB and on Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from differential.nexmark_batch import BATCH_SQL
from differential.random_query import RandomQuery
from differential.test_nexmark import create_tables
from golden.test_results import RESULTS, SCRIPTS, printed
from spark_harness.engine import SMALL
from verify_harness import TOLERANCE, Verifier, assert_equal

from client.verification.outcome import Verification, verification_text
from sqlstream.errors import UserError

REFUSED: dict[str, tuple[str, ...]] = {
    "change_events": ("reading a table of changes",) * 5,
    "group": ("LISTAGG",),
    "json": ("JSON",) * 6,
    "match_recognize": ("MATCH_RECOGNIZE",) * 3,
    "ordered_aggregates": ("FIRST_VALUE",),
}
"""What no batch answers exactly, by script."""

TWO = 2
EVENTS = 20_000
MANY_EVENTS = 1_000_000
SEEDS_A_TEST = 10
STRATEGIES = ("AUTO", "ONE_PHASE", "TWO_PHASE")
QUERIES = sorted(set(BATCH_SQL) - {"q12"}, key=lambda q: int(q[1:]))


@pytest.fixture(scope="module")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Verifier]:
    before = Path.cwd()
    # The golden scripts name their files relative to themselves, and processes start where this one is.
    os.chdir(RESULTS)
    made = Verifier(tmp_path_factory.mktemp("tables"))
    yield made
    made.close()
    os.chdir(before)


def check_script(verifier: Verifier, script: Path, engine: str) -> None:
    verifier.configure(TWO, 7, TOLERANCE)
    found = verifier.verify(script.read_text(), engine)
    refused = [each.message for each in found if isinstance(each, UserError)]
    verified = [each for each in found if isinstance(each, Verification)]
    assert len(refused) == len(REFUSED.get(script.stem, ()))
    for message, name in zip(refused, REFUSED.get(script.stem, ()), strict=True):
        assert name in message
        assert "has no exact counterpart" in message
    if script.stem == "late_rows":
        for each in verified:
            assert not each.is_equal
            assert [reason.kind for reason in each.reasons] == ["late-rows"]
            assert all(table.rows for difference in each.differences for table in difference.inputs)
        return
    if len(verified) > 0 or not refused:
        assert_equal([*verified])


@pytest.mark.parametrize("script", SCRIPTS, ids=[s.stem for s in SCRIPTS])
def test_a_golden_script_has_the_same_rows_as_a_stream_and_in_batch(script: Path, verifier: Verifier) -> None:
    check_script(verifier, script, "duckdb")


# Where VERIFY finds the rows of batch, which has those of the file (test_batch_mode.py), the file need not be asked as well.
@pytest.mark.parametrize(
    "script",
    [s if s.stem in REFUSED else pytest.param(s, marks=pytest.mark.slow) for s in SCRIPTS],
    ids=[s.stem for s in SCRIPTS],
)
def test_a_golden_script_has_the_rows_of_its_file_in_two_processes(
    script: Path, verifier: Verifier, golden: Callable[[Path, str], None]
) -> None:
    verifier.configure(TWO, 7)
    golden(script.with_suffix(".out"), "\n\n".join(map(printed, verifier.run(script.read_text()))))


def check_nexmark(
    verifier: Verifier, query: str, events: int, engine: str, settings: Mapping[str, str] = TOLERANCE
) -> None:
    insert = create_tables(verifier, query, TWO, settings, events)
    (found,) = verifier.verified(insert, engine)
    assert len(verifier.processes_of_last_stream()) == TWO
    assert isinstance(found, Verification), found
    if query == "q19" and not found.is_equal:
        # Bids of one price may change places, which is named.
        assert [reason.kind for reason in found.reasons] == ["ties"], verification_text(found)
        assert found.surplus_rows == found.missing_rows
        return
    assert found.is_equal, verification_text(found)
    assert found.stream_rows > 0


@pytest.mark.parametrize("query", QUERIES)
def test_a_nexmark_query_has_the_same_rows_as_a_stream_and_in_batch(query: str, verifier: Verifier) -> None:
    check_nexmark(verifier, query, EVENTS, "duckdb")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("query", QUERIES)
def test_a_nexmark_query_over_a_million_events_has_the_same_rows(query: str, verifier: Verifier) -> None:
    check_nexmark(verifier, query, MANY_EVENTS, "duckdb")


def test_a_window_of_processing_time_is_refused_by_name(verifier: Verifier) -> None:
    insert = create_tables(verifier, "q12", TWO, TOLERANCE, EVENTS)
    (refused,) = verifier.verified(insert, "duckdb")
    assert isinstance(refused, UserError)
    assert (refused.code, refused.span is not None) == ("SS3301", True)
    assert refused.message.startswith("PROCTIME has no exact counterpart")


def check_seed(verifier: Verifier, seed: int, engine: str, settings: Mapping[str, str] = TOLERANCE) -> None:
    query = RandomQuery(seed)
    verifier.configure(TWO, 3, {**settings, "table.optimizer.agg-phase-strategy": STRATEGIES[seed % 3]})
    for name, (columns, rows) in query.tables.items():
        verifier.create(name, columns, rows, TWO)
    try:
        found = verifier.verify(query.sql, engine)
        if engine == "spark" and any(isinstance(f, UserError) and f.code == "SS3301" for f in found):
            # Spark has not all frames of OVER.
            return
        assert_equal(found)
        # A query whose condition is never true reads no table.
        assert len(verifier.processes_of_last_stream()) in (0, TWO)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {query.sql}\n{query.tables}") from error


@pytest.mark.parametrize("first", range(5000, 5030, SEEDS_A_TEST))
def test_random_queries_have_the_same_rows_as_streams_and_in_batch(first: int, verifier: Verifier) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        check_seed(verifier, seed, "duckdb")


@pytest.mark.timeout(600)
def test_a_share_of_all_has_the_same_rows_on_spark(verifier: Verifier) -> None:
    settings = {**TOLERANCE, **SMALL}
    check_nexmark(verifier, "q5", EVENTS, "spark", settings)
    check_seed(verifier, 5000, "spark", settings)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(6000, 6200, SEEDS_A_TEST))
def test_more_random_queries_have_the_same_rows(first: int, verifier: Verifier) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        check_seed(verifier, seed, "duckdb")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(6000, 6200, SEEDS_A_TEST))
def test_random_queries_have_the_same_rows_on_spark(first: int, verifier: Verifier) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        check_seed(verifier, seed, "spark")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("query", QUERIES)
def test_a_nexmark_query_has_the_same_rows_on_spark(query: str, verifier: Verifier) -> None:
    check_nexmark(verifier, query, MANY_EVENTS, "spark")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("script", SCRIPTS, ids=[s.stem for s in SCRIPTS])
def test_a_golden_script_has_the_same_rows_on_spark(script: Path, verifier: Verifier) -> None:
    check_script(verifier, script, "spark")
