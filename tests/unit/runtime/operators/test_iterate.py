"""A recursive query over tables that change: after each batch the result is what DuckDB computes of the rows that there are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import changing_tables
import pyarrow as pa
import pytest
from changing_tables import TABLES, Changes, freeze, load, result, scripts
from hypothesis import given, settings
from hypothesis import strategies as st
from job_in_a_thread import INSERT_ONLY, RETRACT, JobInAThread
from job_of_subtasks import Act, JobOfSubtasks, Subtasks
from operator_harness import Collected, Row, final_table
from oracle import scratch_database

from sqlstream.changelog import ChangelogMode
from sqlstream.elements import HAND_OVER, Watermark
from sqlstream.errors import UserError
from sqlstream.runtime.operators import iterate
from sqlstream.runtime.operators.operator import Operator
from sqlstream.specs import IterateSpec, MutualIterateSpec

REACHED = (
    "WITH RECURSIVE r (n) AS (SELECT n FROM starts UNION SELECT d FROM r JOIN edges ON n = s) SELECT * FROM r"
)
PATHS = """WITH RECURSIVE r (n, total) AS (SELECT n, 0 FROM starts UNION ALL SELECT d, total + w FROM r JOIN edges ON n = s)
SELECT * FROM r"""

# Rows may go in a circle: a step makes no row that it has not made before.
CIRCULAR = {
    "reached": REACHED,
    "pairs": """WITH RECURSIVE r (a, b) AS (SELECT s, d FROM edges UNION SELECT a, d FROM r JOIN edges ON b = s)
        SELECT * FROM r""",
    "doubled paths": """WITH RECURSIVE r (a, b) AS (SELECT s, d FROM edges UNION SELECT x.a, y.b FROM r x JOIN r y ON x.b = y.a)
        SELECT * FROM r""",
    "both directions": """WITH RECURSIVE r (n) AS (
        SELECT n FROM starts UNION /*(*/ SELECT d FROM r JOIN edges ON n = s UNION SELECT s FROM r JOIN edges ON n = d /*)*/)
        SELECT * FROM r""",
    "in a subquery": """WITH RECURSIVE r (n) AS (
        SELECT n FROM starts UNION SELECT d FROM edges WHERE s IN (SELECT n FROM r) AND w > 1) SELECT * FROM r""",
    "in several subqueries": """WITH RECURSIVE r (n) AS (
        SELECT n FROM starts UNION /*(*/ SELECT d FROM edges WHERE s IN (SELECT n + 1 FROM r)
        UNION SELECT n FROM starts WHERE n IN (SELECT n FROM r)
        UNION SELECT s FROM edges WHERE d IN (SELECT n - 1 FROM r) AND w > 1 /*)*/) SELECT * FROM r""",
    "without another way": """WITH RECURSIVE r (n) AS (
        SELECT n FROM starts UNION SELECT d FROM r JOIN edges ON n = s
        WHERE NOT EXISTS (SELECT 1 FROM starts t WHERE t.n = d + 1)) SELECT * FROM r""",
    "least of a round": """WITH RECURSIVE r (n, best) AS (
        SELECT n, 0 FROM starts UNION
        SELECT d, CAST(MIN(best + w) AS INT) FROM r JOIN edges ON n = s WHERE best < 9 GROUP BY d) SELECT * FROM r""",
    "first of a round": """WITH RECURSIVE r (n, k) AS (
        SELECT n, 0 FROM starts UNION SELECT d, w FROM (
            SELECT d, w, ROW_NUMBER() OVER (PARTITION BY d ORDER BY w, k, n) AS i FROM r JOIN edges ON n = s) WHERE i = 1)
        SELECT * FROM r""",
    "number of a round": """WITH RECURSIVE r (n, c) AS (
        SELECT n, CAST(1 AS BIGINT) FROM starts UNION
        SELECT n + 1, (SELECT COUNT(*) FROM r) FROM r WHERE n < 6 AND n IN (SELECT s FROM edges)) SELECT * FROM r""",
    "beside neighbours": """WITH RECURSIVE r (n, near) AS (
        SELECT n, CAST(0 AS BIGINT) FROM starts UNION
        SELECT d, COUNT(*) OVER (PARTITION BY d) FROM r JOIN edges ON n = s) SELECT * FROM r""",
    "paths that do not cross": """WITH RECURSIVE r (n, path) AS (
        SELECT n, ARRAY[n] FROM starts UNION SELECT d, ARRAY_APPEND(path, d) FROM r JOIN edges ON n = s
        WHERE w > 1 AND NOT ARRAY_CONTAINS(path, d)) SELECT n, path[1] AS a, path[2] AS b, path[3] AS c FROM r""",
    "two queries": """WITH RECURSIVE r (n) AS (SELECT n FROM starts UNION SELECT d FROM r JOIN edges ON n = s),
        back (n) AS (SELECT n FROM r UNION SELECT s FROM back JOIN edges ON n = d WHERE w > 1) SELECT * FROM back""",
    "least of what is connected": """WITH RECURSIVE r (c, n) AS (
        SELECT n, n FROM starts UNION /*(*/ SELECT c, d FROM r JOIN edges ON n = s
        UNION SELECT c, s FROM r JOIN edges ON n = d /*)*/)
        SELECT n, MIN(c) AS c FROM r GROUP BY n""",
    "greatest below a bound": """WITH RECURSIVE r (n, total) AS (
        SELECT n, 9 FROM starts UNION SELECT d, total - w FROM r JOIN edges ON n = s WHERE total > w)
        SELECT MAX(total) AS total, n FROM r GROUP BY n""",
    "outer partners": """WITH RECURSIVE r (n, w) AS (
        SELECT n, 0 FROM starts UNION SELECT COALESCE(d, 5 - n), COALESCE(edges.w, 9)
        FROM r LEFT JOIN edges ON n = s AND edges.w > 1)
        SELECT * FROM r""",
}

# Edges lead to larger numbers alone.
LEADING_ON = {
    "paths": PATHS,
    "shortest paths": """WITH RECURSIVE r (n, total) AS (
        SELECT n, 0 FROM starts UNION ALL SELECT d, total + w FROM r JOIN edges ON n = s)
        SELECT n, MIN(total) AS total FROM r GROUP BY n""",
    "shortest paths of doubles": """WITH RECURSIVE r (n, total) AS (
        SELECT n, 0e0 FROM starts UNION ALL SELECT d, total + w * 1e-1 FROM r JOIN edges ON n = s)
        SELECT n, MIN(total) AS total FROM r GROUP BY n""",
    "hierarchy": """WITH RECURSIVE r (n, depth) AS (
        SELECT n, 0 FROM starts UNION ALL SELECT d, depth + 1 FROM r JOIN edges ON n = s)
        SELECT * FROM r""",
    "texts": """WITH RECURSIVE r (n, path) AS (
        SELECT n, CAST(n AS STRING) FROM starts UNION ALL SELECT d, path || '/' || CAST(d AS STRING) FROM r JOIN edges ON n = s)
        SELECT * FROM r""",
    "arrays": """WITH RECURSIVE r (n, path) AS (
        SELECT n, ARRAY[n] FROM starts UNION ALL SELECT d, ARRAY_APPEND(path, d) FROM r JOIN edges ON n = s)
        SELECT n, path[1] AS a, path[2] AS b, path[3] AS c FROM r""",
    "in two steps": """WITH RECURSIVE r (n) AS (
        SELECT n FROM starts UNION ALL /*(*/ SELECT d FROM r JOIN edges ON n = s WHERE w > 1
        UNION ALL SELECT d FROM r JOIN edges ON n = s WHERE w <= 1 /*)*/) SELECT * FROM r""",
    "sums of a round": """WITH RECURSIVE r (n, c) AS (
        SELECT n, CAST(1 AS BIGINT) FROM starts UNION ALL SELECT d, SUM(c) FROM r JOIN edges ON n = s GROUP BY d)
        SELECT * FROM r""",
    "doubled": """WITH RECURSIVE r (a, b) AS (SELECT s, d FROM edges UNION ALL SELECT x.a, y.b FROM r x JOIN r y ON x.b = y.a)
        SELECT * FROM r""",
    "sure of no other way": """WITH RECURSIVE r (n) AS (
        SELECT n FROM starts UNION ALL SELECT d FROM r JOIN edges ON n = s
        WHERE NOT EXISTS (SELECT 1 FROM starts t WHERE t.n = d)) SELECT * FROM r""",
}


def job_of(text: str, mode: ChangelogMode = RETRACT, **settings: str) -> JobInAThread:
    return JobInAThread(text, TABLES, mode, **settings)


def recomputed(text: str, rows: dict[str, list[Row]]) -> Counter[Row]:
    """DuckDB's answer over the rows that there are. It has one query as a step, which stands in parentheses then."""
    text = text.replace("/*(*/", "(").replace("/*)*/", ")")
    with scratch_database() as connection:
        load(connection, rows)
        return Counter(freeze(row) for row in connection.execute(text).fetchall())


def run(text: str, script: list[Changes | str], mode: ChangelogMode = RETRACT, ends_before: int = -1) -> None:
    changing_tables.run(job_of(text, mode), lambda rows: recomputed(text, rows), script, ends_before)


@pytest.mark.parametrize("name", CIRCULAR)
@given(st.data())
@settings(max_examples=12, deadline=None)
def test_distinct_rows_are_those_of_the_tables_whatever_came_and_went(name: str, data: st.DataObject) -> None:
    script = data.draw(scripts(leads_on=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iterate, "LAZY_ROUNDS", data.draw(st.sampled_from([0, 1, 2, 64])))
        run(CIRCULAR[name], script, ends_before=data.draw(st.integers(-1, len(script))))


@pytest.mark.parametrize("name", LEADING_ON)
@given(st.data())
@settings(max_examples=12, deadline=None)
def test_rows_come_as_often_as_there_are_ways_to_them(name: str, data: st.DataObject) -> None:
    script = data.draw(scripts(leads_on=True))
    run(LEADING_ON[name], script, ends_before=data.draw(st.integers(-1, len(script))))


@pytest.mark.parametrize("name", [*CIRCULAR, *LEADING_ON])
@given(st.data())
@settings(max_examples=10, deadline=None)
def test_rows_that_only_come_give_the_same_answer(name: str, data: st.DataObject) -> None:
    text = {**CIRCULAR, **LEADING_ON}[name]
    run(text, data.draw(scripts(name in LEADING_ON, has_deletions=False)), INSERT_ONLY)


SUBTASKS = st.lists(st.integers(1, 4), min_size=1, max_size=3)


@pytest.mark.parametrize("name", [*CIRCULAR, *LEADING_ON])
@given(st.data())
@settings(max_examples=8, deadline=None)
def test_several_subtasks_give_the_same_answer_also_as_their_number_changes(
    name: str, data: st.DataObject
) -> None:
    text, mode = {**CIRCULAR, **LEADING_ON}[name], data.draw(st.sampled_from([RETRACT, INSERT_ONLY]))
    job = JobOfSubtasks(text, TABLES, data.draw(SUBTASKS), data.draw(st.integers(0, 99)), mode)
    script = data.draw(scripts(name in LEADING_ON, has_deletions=mode is RETRACT))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iterate, "LAZY_ROUNDS", data.draw(st.sampled_from([0, 1, 64])))
        ends_before = data.draw(st.integers(-1, len(script)))
        changing_tables.run(job, lambda rows: recomputed(text, rows), script, ends_before)


def given_to(subtasks: Subtasks, job: JobOfSubtasks, changes: Changes) -> list[dict[int, Act]]:
    """What the subtasks get by these changes, in turn."""
    acts: list[dict[int, Act]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subtasks, "on_batch", lambda rows, n, output: acts.append(subtasks.acts(rows, n)))
        for table, row in changes:
            job.change(table, [row])
    return acts


def hand_over(operator: Operator[Any], output: Any) -> None:
    if operator.on_hand_over(output):
        output.emit_watermark(HAND_OVER)


@pytest.mark.parametrize("text", [REACHED, CIRCULAR["pairs"], CIRCULAR["doubled paths"], PATHS])
@given(st.data())
@settings(max_examples=20, deadline=None)
def test_a_history_ends_for_all_subtasks_behind_the_last_row_that_any_makes_of_it(
    text: str, data: st.DataObject
) -> None:
    """Each has its rows before it is told that there are no more, at whatever moment that is for the others."""
    count, mode = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([RETRACT, INSERT_ONLY]))
    fate = data.draw(st.randoms(use_true_random=False))
    ends = [(a, b) for a in range(6) for b in range(a + 1, 6)]
    edges = [(a, b, 1) for a, b in fate.sample(ends, data.draw(st.integers(1, 12)))]
    history: Changes = [("starts", ("+I", 0)), *(("edges", ("+I", *edge)) for edge in edges)]
    if mode is RETRACT:
        passing = [(*fate.choice(ends), 2) for _ in range(data.draw(st.integers(0, 3)))]
        history += [("edges", (kind, *edge)) for kind in ("+I", "-D") for edge in passing]
    job = JobOfSubtasks(text, TABLES, [count], fate.randrange(100), mode)
    subtasks = next(o for o in job.operators.values() if isinstance(o, Subtasks))
    turns = given_to(subtasks, job, history)
    left = [[*(acts[n] for acts in turns if n in acts), hand_over] for n in range(count)]
    outputs = [Collected() for _ in range(count)]
    while waiting := [n for n in range(count) if left[n]]:
        some = fate.sample(waiting, fate.randint(1, len(waiting)))
        subtasks.run(outputs, {n: left[n].pop(0) for n in some})
    for output in outputs:
        assert output.watermarks == [HAND_OVER]
        assert output.elements[-1] == Watermark(HAND_OVER)
    rows = final_table((b for output in outputs for b in output.batches), has_pairs=False)
    assert rows == recomputed(text, {"starts": [(0,)], "edges": edges})
    for acts in given_to(subtasks, job, [("edges", ("+I", 0, 9, 1))]):
        subtasks.run(outputs, acts)
    subtasks.run(outputs, dict.fromkeys(range(count), lambda operator, out: operator.flush(out)))
    assert [output.watermarks for output in outputs] == [[HAND_OVER]] * count
    assert any(isinstance(output.elements[-1], pa.RecordBatch) for output in outputs)


def test_a_circle_that_is_cut_off_from_its_start_goes_as_a_whole() -> None:
    job = job_of(REACHED, **{"sqlstream.recursion.max-rounds": "50"})
    job.change("starts", [("+I", 1)])
    job.change("edges", [("+I", a, b, 1) for a, b in ((1, 2), (2, 3), (3, 4), (4, 2))])
    job.flush()
    assert result(job) == Counter([(1,), (2,), (3,), (4,)])
    job.change("edges", [("-D", 1, 2, 1)])
    job.flush()
    assert result(job) == Counter([(1,)])


def test_rounds_do_not_rise_without_end_as_rows_are_reached_in_turns() -> None:
    """Each turn, 1 and 2 are reached from each other alone for a while: a row that left would come back behind the other."""
    job = job_of(REACHED, **{"sqlstream.recursion.max-rounds": "3"})
    job.change("starts", [("+I", 0)])
    job.change("edges", [("+I", 0, 1, 1), ("+I", 1, 2, 1), ("+I", 2, 1, 1)])
    job.flush()
    for turn in range(2 * iterate.LAZY_ROUNDS):
        to, away = (2, 1) if turn % 2 == 0 else (1, 2)
        for change in (("+I", 0, to, 1), ("-D", 0, away, 1)):
            job.change("edges", [change])
            job.flush()
        assert result(job) == Counter([(0,), (1,), (2,)])
    job.restore()
    job.change("edges", [("-D", 0, 1, 1)])
    job.flush()
    assert result(job) == Counter([(0,)])


def test_a_row_that_has_another_round_is_no_change_of_the_result() -> None:
    job = job_of(REACHED)
    job.change("starts", [("+I", 1)])
    job.change("edges", [("+I", 1, 2, 1), ("+I", 2, 3, 1)])
    job.flush()
    before = len(job.output.batches)
    job.change("edges", [("+I", 1, 3, 1)])
    job.flush()
    job.change("edges", [("-D", 2, 3, 1)])
    job.flush()
    assert len(job.output.batches) == before


def test_rows_without_end_stop_the_job_with_a_hint() -> None:
    job = job_of(PATHS, **{"sqlstream.recursion.max-rounds": "50"})
    job.change("starts", [("+I", 1)])
    job.change("edges", [("+I", 1, 2, 1), ("+I", 2, 1, 1)])
    with pytest.raises(UserError, match="more than 50 rounds") as caught:
        job.flush()
    assert caught.value.code == "SS5400"


def test_rows_that_double_in_each_round_stop_the_job_before_the_memory_is_full() -> None:
    job = job_of(PATHS, **{"sqlstream.recursion.max-pending-bytes": "1 mb"})
    job.change("starts", [("+I", 1)])
    job.change("edges", [("+I", 1, 1, 1), ("+I", 1, 1, 2)])
    with pytest.raises(UserError, match="more than 1 MB") as caught:
        job.flush()
    assert caught.value.code == "SS5401"


@pytest.mark.parametrize(
    ("text", "mode", "has_rounds"),
    [
        (REACHED, INSERT_ONLY, False),
        (REACHED, RETRACT, True),
        (PATHS, INSERT_ONLY, False),
        (PATHS, RETRACT, False),
        (LEADING_ON["sums of a round"], RETRACT, True),
        (LEADING_ON["sums of a round"], INSERT_ONLY, True),
        (CIRCULAR["doubled paths"], INSERT_ONLY, True),
    ],
)
def test_rounds_are_kept_only_where_they_matter(text: str, mode: ChangelogMode, has_rounds: bool) -> None:
    (spec,) = (s for s in job_of(text, mode).specs if isinstance(s, IterateSpec))
    assert spec.has_rounds is has_rounds


@pytest.mark.parametrize(
    ("text", "has_others"),
    [
        (CIRCULAR["least of what is connected"], False),
        (CIRCULAR["greatest below a bound"], False),
        (LEADING_ON["shortest paths"], False),
        (LEADING_ON["shortest paths"].replace("MIN", "MAX"), False),
        (LEADING_ON["shortest paths of doubles"], False),
        (LEADING_ON["shortest paths"].replace("MIN", "SUM"), True),
        (LEADING_ON["shortest paths"].replace("total + w", "total * w"), True),
        (
            LEADING_ON["shortest paths"]
            .replace("n, MIN(total) AS total", "MIN(n)")
            .replace("BY n", "BY total"),
            True,
        ),
        (LEADING_ON["shortest paths"].replace("MIN(total) AS", "MIN(n) AS low, MIN(total) AS"), True),
        (CIRCULAR["greatest below a bound"].replace("total > w", "total < w"), True),
        (CIRCULAR["first of a round"].replace("* FROM r", "n, MIN(k) FROM r GROUP BY n"), True),
    ],
)
def test_other_rows_than_the_best_ones_are_made_only_where_they_decide(text: str, has_others: bool) -> None:
    (spec,) = (s for s in job_of(text).specs if isinstance(s, IterateSpec | MutualIterateSpec))
    assert isinstance(spec, IterateSpec) is has_others
