"""The page of the comparison and the figures in it."""

from __future__ import annotations

import pytest
from command_harness import ROOT
from peers.engine import Run
from peers.install import PeerError, java_version
from peers.queries import QUERIES, chosen
from peers.report import (
    Comparison,
    EngineInfo,
    Machine,
    Outcome,
    QueryResult,
    benchmarks_page,
    kept_section,
    next_events,
    ratios,
    significant,
    spread,
)

GROUP = next(query for query in QUERIES if query.name == "group")


def comparison(**outcomes: Outcome) -> Comparison:
    return Comparison(
        events=2_000_000,
        seconds=6,
        short_events=1_000,
        files=2,
        size_bytes=500 * 2**20,
        machine=Machine("a CPU", 2, 24 * 2**30),
        engines=[EngineInfo(name, "1.0", "as it comes") for name in outcomes],
        results=[QueryResult(GROUP, [10, 20, 30, 40], outcomes)],
        busy_elsewhere=0.123,
        short_jobs={name: [Run(0.1, 0.2), Run(0.3, 0.4), Run(0.2, 0.3)] for name in outcomes},
    )


def row_of(page: str, *cells: str) -> list[str]:
    """The cells of the one table row that starts with these."""
    start = f"| {' | '.join(cells)} |"
    (line,) = [line for line in page.splitlines() if line.startswith(start)]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.0, 3, "0"),
        (1234.5, 3, "1,230"),
        (1_234_567.0, 2, "1,200,000"),
        (12.345, 3, "12.3"),
        (0.012345, 3, "0.0123"),
        (9.96, 2, "10"),
        (2.0, 2, "2.0"),
        (float("inf"), 2, "–"),
    ],
)
def test_a_figure_has_so_many_significant_digits(value: float, digits: int, text: str) -> None:
    assert significant(value, digits) == text


def test_a_ratio_is_the_median_of_the_rounds_own_ratios() -> None:
    ours = [Run(1.0, 1.0), Run(2.0, 2.0), Run(1.0, 1.0)]
    theirs = [Run(4.0, 3.0), Run(6.0, 4.0), Run(30.0, 10.0)]
    assert ratios(Outcome(8, ours), Outcome(8, theirs)) == (3.0, 4.0)
    # Four times the events in the same time are four times as many.
    assert ratios(Outcome(8, ours), Outcome(2, theirs)) == (12.0, 16.0)


def test_events_are_added_until_a_run_lasts_and_there_is_room() -> None:
    assert next_events(1_000, 10.0, 30.0, 10**9) == 4_000
    assert next_events(1_000, 40.0, 30.0, 10**9) == 2_000
    assert next_events(1_000, 0.01, 30.0, 64_000) == 64_000


def test_the_spread_is_relative_to_the_median() -> None:
    assert spread([1.0, 2.0, 3.0]) == "100%"


def test_the_page_has_the_medians_and_the_ratios() -> None:
    page = benchmarks_page(
        comparison(
            sqlstream=Outcome(2_000_000, [Run(1.0, 2.0), Run(1.0, 2.0)], [10, 20, 30, 40]),
            flink=Outcome(2_000_000, [Run(5.0, 8.0), Run(7.0, 12.0)], [10, 20, 30, 40]),
        )
    )
    assert row_of(page, "`group`", GROUP.title)[2:] == ["5.0", "6.0"]
    assert row_of(page, "`group`", "sqlstream")[2:] == ["2.00", "1.00 †", "2.00", "2.00", "1.00", "0%", "10"]
    assert row_of(page, "`group`", "flink")[2:] == ["2.00", "6.00", "10.0", "0.333", "0.200", "40%", "10"]
    assert row_of(page, "flink") == ["flink", "0.200", "0.300"]
    assert "† less than 6 s" in page
    assert "12% of its CPU time" in page
    assert "pyclink" not in page


def test_the_page_says_which_engine_failed_and_goes_on_without_it() -> None:
    measured = comparison(
        sqlstream=Outcome(2_000_000, [Run(1.0, 2.0)], [10, 20, 30, 40]), flink=Outcome(error="no such table")
    )
    page = benchmarks_page(measured)
    assert row_of(page, "`group`", GROUP.title)[2:] == ["failed", "failed"]
    assert row_of(page, "`group`", "flink")[2] == "failed"
    assert measured.faults == ["flink failed on `group`: no such table"]
    assert measured.faults[0] in page


def test_the_page_says_which_answer_is_wrong() -> None:
    measured = comparison(sqlstream=Outcome(2_000_000, [Run(1.0, 2.0)], [9, 20, 30, 40]))
    assert measured.faults == [
        "sqlstream's answer to `group` adds up to [9, 20, 30, 40], not [10, 20, 30, 40]"
    ]
    assert row_of(benchmarks_page(measured), "`group`", "sqlstream")[-1] == "9 (wrong: 10 expected)"


def test_without_sqlstream_there_are_figures_and_no_ratios() -> None:
    page = benchmarks_page(comparison(flink=Outcome(2_000_000, [Run(1.0, 2.0)], [10, 20, 30, 40])))
    assert "## Ratios" not in page
    assert row_of(page, "`group`", "flink")[3] == "1.00 †"


def test_the_totals_are_one_row_over_the_query() -> None:
    assert GROUP.with_totals("SELECT 1") == (
        "SELECT COUNT(*) AS result_rows, SUM(auction) AS sum_auction, SUM(bids) AS sum_bids, SUM(total) AS sum_total"
        " FROM (SELECT 1)"
    )


def test_queries_are_chosen_by_name_and_in_that_order() -> None:
    assert [query.name for query in chosen("hop, pass")] == ["hop", "pass"]
    assert chosen("") == QUERIES
    with pytest.raises(ValueError, match='there is no query "q99": choose from pass, group, tumble, hop'):
        chosen("q99")


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', "17.0.15"),
        ('java version "1.8.0_412"', "8.0"),
        ('openjdk version "21"', "21"),
    ],
)
def test_java_tells_its_version(told: str, version: str) -> None:
    assert java_version(told) == version


def test_a_program_that_is_not_java_is_refused() -> None:
    with pytest.raises(PeerError, match="does not tell its version"):
        java_version("command not found")


def test_a_page_says_when_the_largest_input_is_read_from_the_disk() -> None:
    small = Outcome(events=2_000_000, runs=[Run(30.0, 40.0)])
    large = Outcome(events=64_000_000, runs=[Run(30.0, 40.0)])
    assert "read from the disk" not in benchmarks_page(comparison(sqlstream=small))
    assert "The largest input has 16 GiB" in benchmarks_page(comparison(sqlstream=large, flink=small))


def test_a_page_that_is_written_anew_keeps_the_section_that_is_written_by_hand() -> None:
    page = benchmarks_page(comparison(sqlstream=Outcome(8, [Run(1.0, 1.0)])))
    assert kept_section(page) == ""
    by_hand = "\n## Which engine when\n\nIt depends.\n"
    assert kept_section(page + by_hand) == by_hand
    assert (
        kept_section((ROOT / "docs" / "benchmarks.md").read_text()).count(
            "python tests/benches/main.py batch"
        )
        >= 1
    )
