"""`main.py formats` reads and writes the same rows on both sides."""

from __future__ import annotations

from pathlib import Path

from benches.formats import CASES, FormatFigure, format_bench


def test_every_case_has_a_figure_and_leaves_no_file(tmp_path: Path) -> None:
    with format_bench(str(tmp_path), 1_000, 1, {}) as bench:
        found = list(bench.figures(list(CASES)))
    assert [figure.case for figure in found] == list(CASES)
    assert {figure.rows for figure in found} == {46 * (1_000 // 46)}
    assert not list(tmp_path.iterdir())


def test_rates_are_by_bytes_and_by_those_of_duckdb() -> None:
    figure = FormatFigure("json", 1_000, 250.0, ns_per_row=500.0, duckdb_ns_per_row=1_000.0, start_s=0.1)
    assert figure.megabytes_per_s(figure.ns_per_row) == 500.0
    assert figure.times_duckdb == 2.0
