"""Figures of `main.py batch`: what is compared, and how it is shown."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from benches import batch_command
from benches.batch import (
    BatchFigure,
    EngineOrder,
    EngineStart,
    MeasuredEngine,
    batch_queries,
    compared,
    flights_folder,
    query_text,
)
from benches.batch_table import figure_line, markdown, start_line

from sqlstream.client.commands.bench import chosen
from sqlstream.errors import ErrorInfo, UserError

REFUSED = ErrorInfo("SS3301", "a window of processing time has no exact counterpart in DuckDB")
FAILED = ErrorInfo("SS5011", "row 7 cannot be decoded")


def figure(
    engine: str, query: str = "q3", rows: int = 7, checksum: str = "aa", **others: object
) -> BatchFigure:
    return BatchFigure(query, engine, 1.5, 2.25, 3 * 2**20, rows, checksum, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "rows", "checksum", "expected"),
    [
        ("q3", 7, "aa", True),
        ("q3", 7, "bb", False),
        ("q3", 6, "aa", False),
        ("hourly", 7, "bb", False),
        ("q18", 7, "bb", True),
        ("q19", 6, "aa", False),
        ("q12", 6, "bb", None),
    ],
)
def test_answers_are_compared_with_the_first_as_far_as_they_are_defined(
    query: str, rows: int, checksum: str, expected: bool | None
) -> None:
    first, other = compared([figure("stream", query), figure("duckdb", query, rows, checksum)])
    assert first.is_same_answer is None
    assert other.is_same_answer is expected


def test_an_engine_without_an_answer_is_not_compared() -> None:
    found = compared(
        [BatchFigure("q3", "stream", error=FAILED), figure("duckdb"), figure("spark", checksum="bb")]
    )
    assert [f.is_same_answer for f in found] == [None, None, False]
    assert compared([BatchFigure("q3", "stream", error=FAILED)])[0].is_same_answer is None


def test_a_query_without_an_exact_answer_is_refused_and_every_other_error_is_a_failure() -> None:
    assert BatchFigure("q12", "duckdb", error=REFUSED).is_refused
    assert not BatchFigure("q12", "duckdb", error=FAILED).is_refused
    assert not figure("duckdb").is_refused


def test_a_line_shows_the_figures_of_a_query_or_why_there_are_none() -> None:
    assert figure_line(figure("duckdb", first_s=4.0, is_same_answer=False)).split() == [
        "q3",
        "duckdb",
        "4.00",
        "1.500",
        "2.25",
        "3",
        "7",
        "NO",
    ]
    assert figure_line(BatchFigure("q12", "duckdb", error=REFUSED)).endswith(
        "refused: a window of processing time has no exact counterpart in DuckDB [SS3301]"
    )
    assert figure_line(BatchFigure("q3", "spark", error=FAILED)).endswith(
        "failed: row 7 cannot be decoded [SS5011]"
    )
    no_java = ErrorInfo("SS5110", "Spark needs Java 17 or newer, which was not found", hint="install it")
    assert start_line(EngineStart("spark", error=no_java)) == (
        "spark: did not start: Spark needs Java 17 or newer, which was not found [SS5110]"
    )


def test_the_page_has_a_column_for_each_engine_that_started_and_names_what_was_refused() -> None:
    starts = [
        EngineStart("stream", 0.5),
        EngineStart("duckdb", 0.25),
        EngineStart("spark", error=FAILED),
    ]
    figures = [
        figure("stream", first_s=4.0),
        BatchFigure("q3", "duckdb", 0.125, 0.5, 2**20, 7, "aa"),
        figure("stream", "q12", rows=1_000),
        BatchFigure("q12", "duckdb", error=REFUSED),
    ]
    assert markdown(starts, figures) == (
        "| query | result rows | wall s, stream | wall s, duckdb | CPU s, stream | CPU s, duckdb"
        " | peak MiB, stream | peak MiB, duckdb |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
        "| `q3` | 7 | 1.500 | **0.125** | 2.25 | 0.50 | 3 | 1 |\n"
        "| `q12` | 1,000 | **1.500** | – | 2.25 | – | 3 | – |\n"
        "\n"
        "| engine | start s | first query s | the same, warm |\n"
        "| --- | --- | --- | --- |\n"
        "| stream | 0.50 | 4.00 (`q3`) | 1.50 |\n"
        "| duckdb | 0.25 |  |  |\n"
        "| spark | row 7 cannot be decoded [SS5011] |  |  |\n"
        "\n"
        "* `q12` on duckdb: a window of processing time has no exact counterpart in DuckDB [SS3301]\n"
    )


def test_every_query_has_a_file_that_reads_only_what_the_measurement_gives() -> None:
    assert batch_queries()[0] == "q0"
    assert batch_queries()[-3:] == ["hourly", "weather", "carriers"]
    for query in batch_queries():
        assert query_text(query).count("INSERT INTO") == 1


def test_names_are_chosen_in_their_order_and_once() -> None:
    assert chosen("", ("a", "b"), "query") == ["a", "b"]
    assert chosen("b, a,b", ("a", "b"), "query") == ["b", "a"]
    with pytest.raises(UserError, match='there is no query "hourlyy"') as refused:
        chosen("hourlyy", batch_queries(), "query")
    assert "hourly" in refused.value.hint


def test_a_folder_without_flights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "flights.csv").touch()
    with pytest.raises(UserError, match=r"weather\.csv") as refused:
        flights_folder(str(tmp_path))
    assert refused.value.code == "SS5001"
    (tmp_path / "weather.csv").touch()
    assert flights_folder(str(tmp_path)) == str(tmp_path)


def test_a_wrong_setting_is_why_an_engine_does_not_start(tmp_path: Path) -> None:
    order = EngineOrder("duckdb", 1_000, 100, 1, str(tmp_path), {"execution.batch-rows": "many"})
    engine = MeasuredEngine(order)
    try:
        assert engine.start.error is not None
        assert engine.start.error.code == "SS4002"
        # Its process has ended, which is the answer to each further question.
        ended = engine.measure("q0")
    finally:
        engine.close()
    assert ended.error is not None
    assert (ended.error.code, ended.is_refused) == ("SS6063", False)


@pytest.mark.parametrize(
    ("error", "found", "exit_code"),
    [
        (None, [figure("duckdb", is_same_answer=True), figure("spark", error=REFUSED)], 0),
        (None, [figure("duckdb", is_same_answer=False)], 1),
        (None, [figure("duckdb", error=FAILED)], 1),
        (FAILED, [], 1),
    ],
)
def test_the_command_fails_when_an_engine_fails_or_answers_differ(
    error: ErrorInfo | None,
    found: list[BatchFigure],
    exit_code: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def measure(
        orders: object, queries: object, starts: list[EngineStart], figures: list[BatchFigure], out: object
    ) -> None:
        starts.append(EngineStart("duckdb", 0.5, error))
        figures.extend(found)

    monkeypatch.setattr(batch_command, "_measure", measure)
    parser = argparse.ArgumentParser()
    batch_command.add_arguments(parser)
    table = tmp_path / "table.md"
    arguments = parser.parse_args(["--queries", "q3", "--engines", "duckdb", "--markdown", str(table)])
    assert batch_command.execute(arguments) == exit_code
    assert table.read_text()
