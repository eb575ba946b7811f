"""VERIFY finds no difference: golden scripts, Nexmark queries and random queries, as streams over two processes with Flight
between them, and in batch. A share with fixed seeds runs in `make test`; 200 random queries and a million events run in
`make test-all`; `test_spark_verify.py` does the same on Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from differential.nexmark_batch import BATCH_SQL
from differential.random_query import RandomQuery, function_statements
from differential.test_nexmark import create_tables
from golden.test_results import RESULTS, SCRIPTS, printed
from verify_harness import TOLERANCE, Verifier, assert_equal

from sqlstream.client.verification.outcome import Verification, verification_text
from sqlstream.errors import UserError

REFUSED: dict[str, tuple[str, ...]] = {
    "event_metadata": ("FOR SYSTEM_TIME AS OF",),
    "group": ("LISTAGG",),
    "json": ("ARRAY_AGG", "ARRAY_AGG", "TRY_PARSE_JSON"),
    "match_recognize": ("MATCH_RECOGNIZE",) * 3,
    "ordered_aggregates": ("FIRST_VALUE",),
    "versions_of_changes": ("FOR SYSTEM_TIME AS OF",) * 5,
}
"""What DuckDB does not answer exactly, by script."""

REFUSED_BY_SPARK = {
    **REFUSED,
    "json": ("JSON",) * 6,
    "with_recursive": (*("WITH RECURSIVE",) * 3, "WITH MUTUALLY RECURSIVE"),
}

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
    expected = (REFUSED_BY_SPARK if engine == "spark" else REFUSED).get(script.stem, ())
    assert len(refused) == len(expected)
    for message, name in zip(refused, expected, strict=True):
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
    if found.choice:
        assert [reason.kind for reason in found.reasons] == ["ties"], verification_text(found)
        assert query in ("q6", "q18", "q19")
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


def test_changes_and_what_an_engine_has_not_are_the_same_in_batch(verifier: Verifier, tmp_path: Path) -> None:
    (tmp_path / "by_op.csv").write_text(
        "op,id,city,n\n+I,1,rome,5\n+I,2,oslo,7\n-U,1,rome,5\n+U,1,oslo,5\n+I,3,,\n-D,3,,\n+I,2,oslo,7\n+I,2,oslo,7\n-D,2,oslo,7\n"
    )
    (tmp_path / "by_key.csv").write_text(
        "id,city,n\n1,rome,5\n2,oslo,7\n1,oslo,6\n2,,\n3,rome,\n4,,\n4,bern,1\n"
    )
    (tmp_path / "functions_of_batch.py").write_text(FUNCTIONS)
    columns = "id INT, city STRING, n INT, PRIMARY KEY (id) NOT ENFORCED"

    def table(name: str, columns: str, file: str, options: str) -> str:
        return (
            f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/{file}.csv',"
            f" 'format' = 'csv', 'csv.null-literal' = '', 'csv.header' = 'true', {options})"
        )

    op = "'changelog.op-column' = 'op'"
    script = ";\n".join(
        [
            f"SET 'python.files' = '{tmp_path}/functions_of_batch.py'",
            *(
                f"CREATE FUNCTION {f} AS 'functions_of_batch.{f}' LANGUAGE PYTHON"
                for f in ("plus", "sums", "ways")
            ),
            table("retracted", "id INT, city STRING, n INT", "by_op", f"'changelog.mode' = 'retract', {op}"),
            table("told", columns, "by_op", f"'changelog.mode' = 'upsert', {op}"),
            table("rows_by_key", columns, "by_key", "'changelog.mode' = 'upsert'"),
            *QUERIES_BEYOND_ENGINES,
        ]
    )
    verifier.configure(TWO, 3, TOLERANCE)
    found = verifier.verify(script)
    assert_equal(found)
    assert [each.batch_rows for each in found if isinstance(each, Verification)][:4] == [3, 1, 3, 1]
    assert len(found) == len(QUERIES_BEYOND_ENGINES)
    # Which event of a key came last counts.
    verifier.configure(TWO, 3, {**TOLERANCE, "table.exec.source.cdc-events-duplicate": "true"})
    doubled = script.replace(
        "'changelog.mode' = 'upsert', 'changelog.op", "'changelog.mode' = 'retract', 'changelog.op"
    )
    *before, _ = doubled.split(QUERIES_BEYOND_ENGINES[0])
    assert_equal(verifier.verify(f"{before[0]} SELECT * FROM told"))


FUNCTIONS = """
import pyarrow.compute as pc
from sqlstream import udf, udtf

@udf(result_type="BIGINT")
def plus(a: int, b: int):
    return None if a is None else a + b

@udf(result_type="BIGINT", func_type="arrow")
def sums(a, b):
    return pc.add(a, b)

@udtf(result_types=["INT", "STRING"])
def ways(n: int):
    for i in range(n or 0):
        yield i, f"way {i}"
"""
QUERIES_BEYOND_ENGINES = (
    "SELECT * FROM retracted",
    "SELECT * FROM told",
    "SELECT * FROM rows_by_key",
    "SELECT COUNT(*) FROM retracted WHERE n > 5",
    "SELECT city, SUM(n), COUNT(DISTINCT id) FROM rows_by_key WHERE id <> 1 GROUP BY city",
    "SELECT r.id, k.city FROM retracted AS r LEFT JOIN rows_by_key AS k ON r.id = k.id",
    "SELECT plus(id, n), plus(plus(id, 1), 1) * 2, sums(id, n) FROM rows_by_key WHERE plus(id, n) IS NOT NULL",
    "SELECT id, i, w FROM rows_by_key LEFT JOIN LATERAL TABLE(ways(n)) AS t (i, w) ON TRUE",
    "SELECT SUM(plus(id, 1)) FROM (SELECT id FROM rows_by_key UNION ALL SELECT id FROM told)",
    "SELECT id, CAST(PARSE_JSON('{\"a\": [1, ' || CAST(id AS STRING) || ']}')['a'][2] AS INT), PRINTF('%03d', id) FROM told",
    "SELECT JSON_VALUE('{\"a\": ' || CAST(n AS STRING) || '}', '$.a' RETURNING INT), SHA512(city), BITMAP_TO_ARRAY(BITMAP_BUILD("
    "ARRAY[id, n])) FROM retracted",
    "SELECT city, LISTAGG(CAST(id AS STRING), '-') WITHIN GROUP (ORDER BY id DESC), PERCENTILE_CONT(0.3)"
    " WITHIN GROUP (ORDER BY n), PERCENTILE(n, ARRAY[0.1, 1]) FILTER (WHERE id > 1) FROM retracted"
    " GROUP BY city HAVING COUNT(*) > 0",
    "SELECT ARRAY_AGG(city) WITHIN GROUP (ORDER BY id, n) FROM rows_by_key",
    "SELECT COUNT(*) FROM (SELECT LISTAGG(CAST(id AS STRING)) WITHIN GROUP (ORDER BY id) AS ids FROM rows_by_key"
    " GROUP BY city) AS t WHERE ids > '1'",
    "SELECT * FROM rows_by_key UNPIVOT INCLUDE NULLS (v FOR k IN (id, n))",
    "SELECT CASE WHEN n > 5 THEN plus(n, 10 / (n - 5)) END FROM retracted",
)
"""Over tables of changes, and with functions that engines have not themselves."""


def check_seed(verifier: Verifier, seed: int, engine: str, settings: Mapping[str, str] = TOLERANCE) -> None:
    query = RandomQuery(seed, is_plain=engine == "spark", is_for_both=True)
    verifier.configure(TWO, 3, {**settings, "table.optimizer.agg-phase-strategy": STRATEGIES[seed % 3]})
    for name, (columns, rows) in query.tables.items():
        verifier.create(name, columns, rows, TWO)
    try:
        script = ";\n".join([*function_statements(query.sql), query.sql])
        found = verifier.verify(script, engine)
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


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(6000, 6200, SEEDS_A_TEST))
def test_more_random_queries_have_the_same_rows(first: int, verifier: Verifier) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        check_seed(verifier, seed, "duckdb")
