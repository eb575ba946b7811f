"""Batch queries in DuckDB: rows in order, tables read once, interrupted at once, and shut off from all else."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from batch_harness import NUMBERS, KeptRun, numbers, plan
from spark_harness.processes import wait_until

from sqlstream import types as sql
from sqlstream.batch_plan import BatchPlan, BatchTable
from sqlstream.errors import ExternalError, FailureReason, JobError, UserError
from sqlstream.runtime.batch.duckdb import MEMORY_MAX, DuckDbEngine
from sqlstream.runtime.batch.engine import BatchCancelled
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec

TEXTS = Schema.of(("s", sql.STRING))
SOON_S = 240.0
"""Far less than what is interrupted would take."""


def run(given: BatchPlan) -> KeptRun:
    kept = KeptRun(given)
    DuckDbEngine().run(given, kept)
    return kept


def csv_table(path: Path, text: str, columns: Schema, **options: str) -> BatchTable:
    path.write_text(text)
    all_options = {"connector": "filesystem", "path": str(path), "format": "csv", **options}
    return BatchTable("t0", SourceSpec("lines", "filesystem", all_options, columns, columns.names))


def test_rows_come_in_the_order_of_the_query() -> None:
    kept = run(plan("SELECT c0 FROM t0 WHERE c0 > 7 ORDER BY c0 DESC", NUMBERS, numbers(10)))
    assert kept.rows() == [(10,), (9,), (8,)]
    assert kept.counts["t0", "numRecordsOut"] == 10


def test_a_shared_table_is_read_once_and_has_all_rows_in_both_places() -> None:
    shared = BatchTable("t0", numbers(4).source, is_shared=True)
    kept = run(plan("SELECT a.c0 FROM t0 AS a JOIN t0 AS b ON a.c0 = b.c0 ORDER BY 1", NUMBERS, shared))
    assert kept.rows() == [(1,), (2,), (3,), (4,)]
    assert kept.counts["t0", "numRecordsOut"] == 4


def test_undecodable_rows_are_counted_and_shown_as_in_a_stream(tmp_path: Path) -> None:
    table = csv_table(
        tmp_path / "a.csv",
        "1\nx\n3\n",
        NUMBERS,
        **{"csv.ignore-parse-errors": "true", "source.rejected-rows.path": ""},
    )
    kept = run(plan("SELECT c0 FROM t0 WHERE c0 IS NOT NULL ORDER BY 1", NUMBERS, table))
    assert kept.rows() == [(1,), (3,)]


def test_what_a_reader_raises_is_the_error_of_the_run(tmp_path: Path) -> None:
    table = csv_table(tmp_path / "a.csv", "1\n", NUMBERS)
    (tmp_path / "a.csv").unlink()
    with pytest.raises((UserError, ExternalError)) as raised:
        run(plan("SELECT c0 FROM t0", NUMBERS, table))
    assert "a.csv" in raised.value.message


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('/SS5101: division by zero')",
        "SELECT error('/SS5101: division by zero') FROM t0",
        """SELECT CAST('SS5102: cannot cast "' || c0 || '" to INT' AS INT) FROM t0""",
    ],
)
def test_words_of_an_error_of_a_row_elsewhere_in_the_text_are_none(query: str) -> None:
    with pytest.raises(JobError) as raised:
        run(plan(query, NUMBERS, numbers(1)))
    assert raised.value.code == "SS6060"


def test_any_other_value_that_duckdb_refuses_is_the_data_s_fault_with_a_hint(tmp_path: Path) -> None:
    table = csv_table(tmp_path / "a.csv", "9223372036854775807\n", NUMBERS)
    with pytest.raises(JobError, match="Overflow in addition") as raised:
        run(plan("SELECT c0 + c0 FROM t0", NUMBERS, table))
    assert (raised.value.code, raised.value.reason) == ("SS6060", FailureReason.USER_DATA)
    assert "run it as a stream" in raised.value.hint


def test_a_long_query_is_interrupted_at_once() -> None:
    given = plan("SELECT count(*) FROM t0 AS a, range(100000000) AS b, range(1000)", NUMBERS, numbers(1000))
    engine, kept = DuckDbEngine(), KeptRun(given)
    ended: list[BaseException] = []

    def body() -> None:
        try:
            engine.run(given, kept)
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    # DuckDB has read the table, and takes hours to join its rows.
    wait_until(lambda: kept.counts["t0", "numRecordsOut"] == 1000)
    assert thread.is_alive()
    kept.cancel()
    engine.cancel("job")
    thread.join(SOON_S)
    assert [type(error) for error in ended] == [BatchCancelled]


def test_a_reader_that_waits_for_rows_sees_the_cancellation() -> None:
    given = plan("SELECT c0 FROM t0", NUMBERS, numbers(100_000, rows_per_second=1))
    engine, kept = DuckDbEngine(), KeptRun(given)
    threading.Timer(0.3, kept.cancel).start()
    # Its rows would come for a day.
    with pytest.raises(BatchCancelled):
        engine.run(given, kept)


def test_rows_beyond_the_memory_are_sorted_in_temporary_files_which_go(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    text = "SELECT c0 FROM t0 ORDER BY hash(c0 || 'some padding that takes memory while it is sorted')"
    seen: set[str] = set()
    given = plan(text, NUMBERS, numbers(2_000_000), config={MEMORY_MAX: "64 mb"})
    kept = KeptRun(given, lambda: seen.update(p.name for p in tmp_path.rglob("*") if p.is_file()))
    DuckDbEngine().run(given, kept)
    assert sum(batch.num_rows for batch in kept.batches[0]) == 2_000_000
    assert seen
    assert list(tmp_path.iterdir()) == []


def test_a_query_that_needs_more_memory_than_allowed_says_which_option(tmp_path: Path) -> None:
    text = "SELECT count(*) FROM (SELECT string_agg(c0 || repeat('x', 1000), '') AS s FROM t0) WHERE s <> ''"
    with pytest.raises(ExternalError) as raised:
        run(plan(text, NUMBERS, numbers(1_000_000), config={MEMORY_MAX: "64 mb"}))
    assert raised.value.code == "SS5070"
    assert MEMORY_MAX in raised.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "SELECT content FROM read_text('/etc/hostname')",
        "SELECT * FROM '/etc/hostname'",
        "COPY (SELECT 1) TO '{path}/stolen.csv'",
        "ATTACH '{path}/other.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
    ],
)
def test_sql_reaches_nothing_but_the_tables_of_its_plan(text: str, tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"disabled|does not exist|locked"):
        run(plan(text.format(path=tmp_path), TEXTS))
    assert list(tmp_path.iterdir()) == []


def test_explain_reads_no_row(tmp_path: Path) -> None:
    table = csv_table(tmp_path / "a.csv", "", NUMBERS)
    (tmp_path / "a.csv").unlink()
    text = DuckDbEngine().explain(plan("SELECT max(c0) FROM t0", NUMBERS, table), LocalFiles())
    assert "max" in text


def test_a_query_that_needs_few_rows_ends_before_its_table() -> None:
    # All of it would take days.
    kept = run(plan("SELECT c0 FROM t0 LIMIT 3", NUMBERS, numbers(10**12)))
    assert len(kept.rows()) == 3
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("table reader")]
