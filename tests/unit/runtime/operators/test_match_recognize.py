"""When MATCH_RECOGNIZE emits a match, what it forgets, and which watermark it hands on."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from moved_jobs import plan_job
from operator_harness import Clock, Collected, ManualClock, feed, finish, operator_context, restore

from sqlstream.elements import Watermark
from sqlstream.errors import UserError
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.match.match_recognize import MatchRecognize
from sqlstream.specs.match_recognize import MatchRecognizeSpec

TABLE = """
CREATE TABLE line (k STRING, v INT, rt TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR rt AS rt)
  WITH ('connector' = 'scripted');
"""


def operator_of(clauses: str, **others: Any) -> MatchRecognize:
    """The operator of `SELECT … FROM line MATCH_RECOGNIZE (clauses)`, whose input rows are (k, v, rt)."""
    job = plan_job(f"{TABLE} SELECT * FROM (SELECT k, v, rt, p FROM line) MATCH_RECOGNIZE ({clauses});")
    found = next(o for v in job.vertices for o in v.operators if isinstance(o.spec, MatchRecognizeSpec))
    operator = make_operator(found.spec, operator_context(found.input_schemas, found.output_schema, **others))
    assert isinstance(operator, MatchRecognize)
    return operator


def test_a_match_is_emitted_with_the_row_that_decides_it() -> None:
    operator = operator_of(
        "PARTITION BY k ORDER BY rt MEASURES LAST(b.v) AS v PATTERN (a b+) DEFINE a AS v = 0, b AS b.v > 0"
    )
    output = Collected()
    feed(operator, [[("x", 0, 1), ("x", 1, 2), ("x", 2, 3)], Watermark(3)], output)
    assert output.rows == []
    feed(operator, [[("x", 0, 4)], Watermark(4)], output)
    assert output.rows == [("x", 2)]
    feed(operator, [[("x", 7, 5)], Watermark(5)], output)
    finish(operator, output)
    assert output.rows == [("x", 2), ("x", 7)]


def test_a_reluctant_end_is_emitted_with_its_row() -> None:
    operator = operator_of(
        "PARTITION BY k ORDER BY rt MEASURES LAST(b.v) AS v PATTERN (a b+?) DEFINE a AS v = 0, b AS b.v > 0"
    )
    output = Collected()
    feed(operator, [[("x", 0, 1), ("x", 1, 2)], Watermark(2)], output)
    assert output.rows == [("x", 1)]


def test_rows_behind_the_watermark_are_dropped_and_counted() -> None:
    counts: Counter[str] = Counter()
    operator = operator_of(
        "PARTITION BY k ORDER BY rt MEASURES v AS v PATTERN (a) DEFINE a AS v > 0",
        count=lambda name, n: counts.update({name: n}),
    )
    output = Collected()
    feed(operator, [[("x", 1, 5)], Watermark(5), [("x", 2, 5), ("x", 3, 6)], Watermark(6)], output)
    assert output.rows == [("x", 1), ("x", 3)]
    assert counts["numLateRecordsDropped"] == 1


def test_within_ends_a_match_and_frees_its_rows_without_another_row_of_the_key() -> None:
    operator = operator_of(
        "PARTITION BY k ORDER BY rt MEASURES COUNT(*) AS n PATTERN (a b+) WITHIN INTERVAL '10' SECOND"
        " DEFINE a AS v = 0, b AS b.v > 0"
    )
    output = Collected()
    feed(operator, [[("x", 0, 1_000), ("x", 1, 2_000), ("y", 0, 2_000)], Watermark(10_998)], output)
    assert (output.rows, len(operator._rows)) == ([], 3)
    feed(operator, [Watermark(10_999)], output)
    assert (output.rows, len(operator._rows)) == ([("x", 2)], 1)
    feed(operator, [Watermark(11_999)], output)
    assert len(operator._rows) == 0


def test_the_watermark_waits_for_a_match_of_rows_that_are_there() -> None:
    greedy = operator_of(
        "PARTITION BY k ORDER BY rt MEASURES MATCH_ROWTIME() AS t PATTERN (a b+) DEFINE a AS v = 0, b AS b.v > 0"
    )
    output = Collected()
    rows = [("x", 0, 3), ("x", 1, 4)]
    feed(greedy, [rows, Watermark(9), [("x", 0, 10)], Watermark(10)], output)
    assert output.rows == [("x", 4)]
    assert output.watermarks == [2, 10]


def test_the_watermark_does_not_wait_for_a_match_that_ends_with_a_row_to_come() -> None:
    fixed = operator_of(
        "PARTITION BY k ORDER BY rt MEASURES MATCH_ROWTIME() AS t PATTERN (a b+ c)"
        " DEFINE a AS v = 0, b AS b.v > LAST(a.v), c AS v < 0"
    )
    output = Collected()
    feed(fixed, [[("x", 0, 3), ("x", 1, 4)], Watermark(9), [("x", -1, 10)], Watermark(10)], output)
    assert output.rows == [("x", 10)]
    assert output.watermarks == [9, 10]


@pytest.mark.parametrize(("pattern", "forwarded_ms"), [("a b+ c", 12), ("a b+", 2)])
def test_a_restored_match_holds_the_watermark_back_as_before(pattern: str, forwarded_ms: int) -> None:
    clauses = (
        f"PARTITION BY k ORDER BY rt MEASURES MATCH_ROWTIME() AS t PATTERN ({pattern})"
        " DEFINE a AS v = 0, b AS b.v > LAST(a.v)"
    )
    operator, moved, output = operator_of(clauses), operator_of(clauses), Collected()
    feed(operator, [[("x", 0, 3), ("x", 1, 4)], Watermark(9)], Collected())
    restore(moved, operator.context.state.snapshot())
    feed(moved, [Watermark(10), [("y", 1, 12)], Watermark(12)], output)
    assert output.watermarks[-1] == forwarded_ms


def test_within_ends_a_match_of_processing_time_by_the_clock() -> None:
    clock = ManualClock(1_000)
    operator = operator_of(
        "PARTITION BY k ORDER BY p MEASURES COUNT(*) AS n PATTERN (a b+) WITHIN INTERVAL '5' SECOND"
        " DEFINE a AS v = 0, b AS b.v > 0",
        now_ms=clock,
    )
    output = Collected()
    rows = [("x", 0, None), ("x", 1, None)]
    feed(operator, [rows, Clock(5_900)], output)
    assert output.rows == []
    feed(operator, [Clock(6_100)], output)
    assert output.rows == [("x", 2)]
    assert len(operator._rows) == 0


def test_a_condition_fails_only_for_rows_that_the_pattern_tries() -> None:
    clauses = (
        "PARTITION BY k ORDER BY rt MEASURES b.v AS v PATTERN (a b) DEFINE a AS v = 1, b AS 10 / b.v > 1"
    )
    output = Collected()
    operator = operator_of(clauses)
    feed(operator, [[("x", 0, 1), ("x", 1, 2), ("x", 2, 3)], Watermark(3)], output)
    assert output.rows == [("x", 2)]
    with pytest.raises(UserError, match="division by zero"):
        feed(operator, [[("x", 1, 4), ("x", 0, 5)], Watermark(5)], output)


def test_more_matches_than_are_emitted_at_once_are_all_emitted() -> None:
    operator = operator_of(
        "PARTITION BY k ORDER BY rt MEASURES COUNT(*) AS n AFTER MATCH SKIP TO NEXT ROW PATTERN (a+ b)"
        " DEFINE a AS v = 1, b AS v = 2"
    )
    output = Collected()
    rows = [("x", 1, i) for i in range(1_200)]
    feed(operator, [[*rows, ("x", 2, 1_200)], Watermark(1_200)], output)
    assert output.rows == [("x", n) for n in range(1_201, 1, -1)]


def test_more_ways_to_match_than_can_be_tried_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlstream.runtime.operators.match.matcher.STEPS_MAX", 5_000)
    rows = [("x", v, v) for v in range(1, 41)]
    text = "PARTITION BY k ORDER BY rt MEASURES COUNT(*) AS n PATTERN ({} b) DEFINE a AS a.v >= FIRST(a.v), b AS b.v < 0"
    # Each start has as many steps: those of all starts together are more.
    plain = operator_of(text.format("a+"))
    feed(plain, [rows], Collected())
    finish(plain, Collected())
    nested = operator_of(text.format("(a+)+"))
    feed(nested, [rows], Collected())
    with pytest.raises(UserError, match="ways to match") as error:
        finish(nested, Collected())
    assert error.value.code == "SS3428"
    # Conditions on the row alone cannot fail otherwise the second time, however many ways lead there.
    by_row = operator_of(text.format("(a+)+").replace("a.v >= FIRST(a.v)", "a.v >= 0"))
    feed(by_row, [rows], Collected())
    finish(by_row, Collected())


def test_matching_can_be_cancelled_between_any_steps_and_goes_on_where_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []
    clauses = "PARTITION BY k ORDER BY rt MEASURES COUNT(*) AS n PATTERN ((a+)+ b) DEFINE a AS a.v >= FIRST(a.v), b AS b.v < 0"
    rows = [[(k, v, v) for k in "xy" for v in range(1, 9)] + [("x", -1, 9)], Watermark(9)]
    plain, sliced = Collected(), Collected()
    feed(operator_of(clauses), rows, plain)
    monkeypatch.setattr("sqlstream.runtime.operators.match.matcher.CALL_STEPS", 7)
    operator = operator_of(clauses, pause_ms=looks.append)
    feed(operator, rows, sliced)
    finish(operator, sliced)
    assert sliced.rows == plain.rows == [("x", 9)]
    assert len(looks) > 20


@pytest.mark.parametrize(
    ("define", "last"),
    [
        ("a AS v >= 0, b AS v < 0", -1),
        ("a AS a.v >= PREV(a.v) OR PREV(a.v) IS NULL, b AS b.v < 0", -1),
        ("a AS (LAST(a.v, 1) IS NULL OR a.v > LAST(a.v, 1)) AND a.v >= FIRST(a.v), b AS b.v < FIRST(a.v)", 0),
    ],
)
def test_a_match_that_only_goes_on_costs_the_rows_that_come(
    define: str, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = operator_of(
        f"PARTITION BY k ORDER BY rt MEASURES COUNT(*) AS n, LAST(b.v) AS l PATTERN (a+ b) DEFINE {define}"
    )
    output, sorted_rows = Collected(), []
    ordinary = operator._matcher.find
    monkeypatch.setattr(
        operator._matcher, "find", lambda s, *a: sorted_rows.append(s.batch.num_rows) or ordinary(s, *a)
    )
    for first in range(1, 2_001, 100):
        feed(operator, [[("x", v, v) for v in range(first, first + 100)], Watermark(first + 99)], output)
    # The first batch is matched; the others only go on.
    assert (sorted_rows, output.rows, len(operator._rows)) == ([100], [], 2_000)
    feed(operator, [[("x", last, 2_001)], Watermark(2_001)], output)
    assert (sorted_rows, output.rows) == ([100, 2_001], [("x", 2_001, last)])
