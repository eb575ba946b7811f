"""An INSERT WITH BACKFILL leaves the rows of one run over the history and the table, wherever the seam is."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator

import pytest
from oracle import Engine, Row, assert_same_rows, rows_of

from sqlstream.errors import UserError
from sqlstream.planner.compile import CompiledPlan
from sqlstream.planner.dialect.parser import parse_statements
from sqlstream.planner.dialect.statements import Insert
from sqlstream.planner.physical.node import walk_plan
from sqlstream.specs import BackfillSpec, GroupAggregateSpec, RankSpec, SourceSpec, Spec

COLUMNS = "id BIGINT, k STRING, v INT, d DOUBLE, m DECIMAL(12, 2), ts TIMESTAMP(3)"
DELAY_MS = 5_000
WATERMARK = f", WATERMARK FOR ts AS ts - INTERVAL '{DELAY_MS // 1000}' SECOND"
START = datetime.datetime(2026, 1, 1)
ROWS = 300

TUMBLE = "TUMBLE(TABLE {t}, DESCRIPTOR(ts), INTERVAL '7' MINUTE, INTERVAL '1' MINUTE)"
HOP = "HOP(TABLE {t}, DESCRIPTOR(ts), INTERVAL '2' MINUTE, INTERVAL '10' MINUTE)"
CUMULATE = "CUMULATE(TABLE {t}, DESCRIPTOR(ts), INTERVAL '2' MINUTE, INTERVAL '10' MINUTE)"
BOUNDS = "window_start, window_end"
NUMBERED = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY k"
CASES = {
    "counts": ("k STRING, n BIGINT, w BIGINT", "SELECT k, COUNT(*), COUNT(v) FROM {t} GROUP BY k"),
    "sums": ("k STRING, s INT, a INT, b DOUBLE", "SELECT k, SUM(v), AVG(v), AVG(d) FROM {t} GROUP BY k"),
    "decimals": (
        "k STRING, s DECIMAL(38, 2), a DECIMAL(38, 6)",
        "SELECT k, SUM(m), AVG(m) FROM {t} GROUP BY k",
    ),
    "extremes": (
        "k STRING, a INT, b INT, c STRING, e TIMESTAMP(3)",
        "SELECT k, MIN(v), MAX(v), MAX(k), MIN(ts) FROM {t} GROUP BY k",
    ),
    "variances": (
        "k STRING, a DOUBLE, b DOUBLE, c DOUBLE",
        "SELECT k, STDDEV_POP(d), VAR_SAMP(v), STDDEV_SAMP(d) FROM {t} GROUP BY k",
    ),
    "filtered calls": (
        "v INT, n BIGINT, s BIGINT",
        "SELECT v, COUNT(*) FILTER (WHERE k = 'a'), SUM(id) FILTER (WHERE k <> 'a') FROM {t} GROUP BY v",
    ),
    "distinct rows": ("k STRING, v INT", "SELECT DISTINCT k, v FROM {t} WHERE v > 2"),
    "all rows": ("n BIGINT, s BIGINT, a INT", "SELECT COUNT(*), SUM(id), MAX(v) FROM {t}"),
    "having": ("k STRING, n BIGINT", "SELECT k, COUNT(*) FROM {t} GROUP BY k HAVING COUNT(*) > 60"),
    "rollup": ("k STRING, v INT, n BIGINT", "SELECT k, v, COUNT(*) FROM {t} GROUP BY ROLLUP (k, v)"),
    "groups of groups": (
        "n BIGINT, g BIGINT",
        "SELECT n, COUNT(*) FROM (SELECT v, k, COUNT(*) AS n FROM {t} GROUP BY v, k) GROUP BY n",
    ),
    "two aggregations": (
        "k STRING, n BIGINT, s BIGINT",
        "SELECT a.k, a.n, b.s FROM (SELECT k, COUNT(*) AS n FROM {t} GROUP BY k) a"
        " JOIN (SELECT k, SUM(id) AS s FROM {t} GROUP BY k) b ON a.k = b.k",
    ),
    "first rows": (
        "id BIGINT, k STRING, ts TIMESTAMP(3)",
        f"SELECT id, k, ts FROM {NUMBERED} ORDER BY ts) AS r FROM {{t}}) WHERE r = 1",
    ),
    "last rows": (
        "id BIGINT, k STRING, d DOUBLE",
        f"SELECT id, k, d FROM {NUMBERED} ORDER BY ts DESC) AS r FROM {{t}} WHERE v < 5) WHERE r = 1",
    ),
    "first rows where NULL comes first": (
        "id BIGINT, v INT",
        f"SELECT id, v FROM {NUMBERED} ORDER BY v, m, id DESC) AS r FROM {{t}}) WHERE r = 1",
    ),
    "first rows where NULL comes last": (
        "id BIGINT, v INT",
        "SELECT id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, id / 3 ORDER BY v DESC, id) AS r FROM {t}) WHERE r = 1",
    ),
    "the first row of all": (
        "id BIGINT, k STRING",
        "SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY k DESC NULLS FIRST, id) AS r FROM {t}) WHERE r = 1",
    ),
    "first ranks": (
        "id BIGINT, k STRING, d DOUBLE, r BIGINT",
        f"SELECT id, k, d, r FROM {NUMBERED} ORDER BY d DESC) AS r FROM {{t}}) WHERE r <= 3",
    ),
    "ranks without their number": (
        "id BIGINT, v INT",
        f"SELECT id, v FROM {NUMBERED} ORDER BY v DESC, m, id) AS r FROM {{t}}) WHERE r <= 4",
    ),
    "ranks between": (
        "id BIGINT, d DOUBLE, r BIGINT",
        "SELECT id, d, r FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY d) AS r FROM {t}) WHERE r BETWEEN 3 AND 6",
    ),
    "groups of first rows": (
        "v INT, n BIGINT, s BIGINT",
        f"SELECT v, COUNT(*), SUM(id) FROM {NUMBERED}, v ORDER BY ts DESC) AS r FROM {{t}}) WHERE r = 1 GROUP BY v",
    ),
    "ranks of windows": (
        "k STRING, b TIMESTAMP(3), d DOUBLE, r BIGINT",
        f"SELECT k, window_end, d, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {BOUNDS}, k ORDER BY d) AS r"
        f" FROM {TUMBLE}) WHERE r <= 2",
    ),
    "tumbling": (
        "k STRING, a TIMESTAMP(3), b TIMESTAMP(3), n BIGINT, s DOUBLE",
        f"SELECT k, {BOUNDS}, COUNT(*), SUM(d) FROM {TUMBLE} GROUP BY k, {BOUNDS}",
    ),
    "tumbling of all": (
        "a TIMESTAMP(3), b TIMESTAMP(3), n BIGINT, v INT",
        f"SELECT {BOUNDS}, COUNT(*), MAX(v) FROM {TUMBLE} GROUP BY {BOUNDS}",
    ),
    "hopping": (
        "k STRING, a TIMESTAMP(3), b TIMESTAMP(3), n BIGINT, s INT",
        f"SELECT k, {BOUNDS}, COUNT(*), AVG(v) FROM {HOP} GROUP BY k, {BOUNDS}",
    ),
    "cumulating": (
        "k STRING, a TIMESTAMP(3), b TIMESTAMP(3), n BIGINT, s INT",
        f"SELECT k, {BOUNDS}, COUNT(*), SUM(v) FROM {CUMULATE} GROUP BY k, {BOUNDS}",
    ),
    "windows as columns": (
        "k STRING, a TIMESTAMP(3), b TIMESTAMP(3), n BIGINT",
        f"SELECT k, {BOUNDS}, COUNT(*) FROM (SELECT k, {BOUNDS}, v * 2 AS w FROM {HOP} WHERE v > 1) GROUP BY k, {BOUNDS}",
    ),
}
JOINS = {
    "pairs": ("id BIGINT, v INT, s STRING", "SELECT a.id, a.v, b.k FROM {t} a JOIN {u} b ON a.v = b.v"),
    "left rows": (
        "id BIGINT, s BIGINT",
        "SELECT a.id, b.id FROM {t} a LEFT JOIN {u} b ON a.k = b.k AND a.v < b.v",
    ),
    "right rows": ("id BIGINT, s BIGINT", "SELECT a.id, b.id FROM {t} a RIGHT JOIN {u} b ON a.id = b.id"),
    "all rows": ("id BIGINT, s BIGINT", "SELECT a.id, b.id FROM {t} a FULL JOIN {u} b ON a.id = b.id + 100"),
    "rows with partners": ("id BIGINT", "SELECT id FROM {t} WHERE v IN (SELECT v FROM {u} WHERE id > 290)"),
    "rows without": (
        "id BIGINT",
        "SELECT id FROM {t} a WHERE NOT EXISTS (SELECT 1 FROM {u} b WHERE b.id = a.id + 7)",
    ),
    "other keys": (
        "a BIGINT, b BIGINT",
        "SELECT a.id, b.id FROM {t} a JOIN {u} b ON a.id - b.id BETWEEN 1 AND 2",
    ),
    "computed keys": (
        "a BIGINT, b STRING",
        "SELECT a.id, b.k FROM {t} a JOIN {u} b ON a.id * 2 = b.id WHERE a.v > 1",
    ),
    "three tables": (
        "a BIGINT, b BIGINT, c BIGINT",
        "SELECT a.id, b.id, c.id FROM {t} a LEFT JOIN {u} b ON a.id = b.id JOIN {t} c ON a.id = c.id + 1",
    ),
    "groups of pairs": (
        "k STRING, n BIGINT, s BIGINT",
        "SELECT a.k, COUNT(*), SUM(b.id) FROM {t} a JOIN {u} b ON a.id = b.id GROUP BY a.k",
    ),
    "first pairs": (
        "a BIGINT, b BIGINT",
        "SELECT a, b FROM (SELECT a.id AS a, b.id AS b, ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.id DESC) AS r"
        " FROM {t} a JOIN {u} b ON a.k = b.k) WHERE r = 1",
    ),
    "pairs of a row and a group": (
        "id BIGINT, n BIGINT",
        "SELECT a.id, b.n FROM {t} a LEFT JOIN (SELECT v, COUNT(*) AS n FROM {u} GROUP BY v) b ON a.v = b.v",
    ),
}
WINDOWED = [name for name, (_, sql) in CASES.items() if "DESCRIPTOR" in sql]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    made = Engine(tmp_path_factory.mktemp("tables"))
    yield made
    made.close()


def moment(ms: int) -> str:
    return str(START + datetime.timedelta(milliseconds=ms))


def generated(random_: random.Random) -> list[Row]:
    """Rows that are out of order by less than the delay of the watermark."""
    rows: list[Row] = []
    at_ms = 0
    for i in range(ROWS):
        at_ms += random_.choice((1, 700, 10_000, 60_000))
        v = None if random_.random() < 0.1 else random_.randrange(6)
        k = random_.choice(("a", "b", "c", None))
        rows.append((i, k, v, random_.random(), f"{random_.randrange(1000)}.25", moment(at_ms)))
    rows.sort(
        key=lambda row: (
            datetime.datetime.fromisoformat(row[5]).timestamp() * 1000 + random_.randrange(DELAY_MS)
        )
    )
    return rows


def backfilled(engine: Engine, columns: str, select: str, hand_over: str) -> list[Row]:
    """The final rows of the INSERT. Its plan has a history, so that none of these tests passes without one."""
    engine.run(f"CREATE TABLE result ({columns}) WITH ('connector' = 'blackhole')")
    text = f"INSERT INTO result {select.format(t='live')} WITH BACKFILL live FROM history {hand_over}"
    (statement,) = parse_statements(text)
    assert isinstance(statement, Insert)
    finished = engine.collect(statement)
    specs = [node.spec for node in walk_plan(finished.plan.physical)]  # type: ignore[union-attr]
    assert any(isinstance(spec, BackfillSpec) or getattr(spec, "turn", -1) >= 0 for spec in specs)
    return rows_of(finished.table)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 40))])
def test_the_rows_are_those_of_one_run_over_both(name: str, seed: int, engine: Engine) -> None:
    random_ = random.Random(f"{name} {seed}")
    columns, select = CASES[name]
    rows = generated(random_)
    seam = random_.choice(rows)[5] if random_.random() < 0.8 else moment(random_.choice((-1, 10**9)))
    engine.configure(random_.choice((1, 2, 3)), random_.choice((1, 7, 65536)))
    # Each has rows of the other, too, which the seam leaves out.
    history = [r for r in rows if r[5] < seam or random_.random() < 0.2]
    live = [r for r in rows if r[5] >= seam or random_.random() < 0.2]
    strategy = random_.choice(("", ", 'scan.watermark.emit.strategy' = 'on-event'"))
    engine.create("history", COLUMNS, history, random_.choice((1, 2)))
    engine.create("live", COLUMNS + WATERMARK, live, 1, strategy)
    engine.create("whole", COLUMNS + WATERMARK, rows, 1)
    (expected,) = engine.run(select.format(t="whole"))
    actual = backfilled(engine, columns, select, f"HAND OVER AT ts >= TIMESTAMP '{seam}'")
    assert_same_rows(actual, rows_of(expected.table))


@pytest.mark.parametrize("name", WINDOWED)
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 40))])
def test_rows_that_are_late_behind_the_seam_are_those_of_one_run(
    name: str, seed: int, engine: Engine
) -> None:
    """By on-event watermarks, with which each row is late or not whatever the batches are."""
    random_ = random.Random(f"late {name} {seed}")
    columns, select = CASES[name]
    rows = sorted(generated(random_), key=lambda row: row[5])
    place = random_.randrange(1, ROWS - 1)
    seam = rows[place][5]
    live = [r for r in rows if r[5] >= seam]
    # Some come up to thousands of seconds late, and none is before the seam.
    live = sorted(live, key=lambda r: r[0] + (random_.randrange(100) if random_.random() < 0.2 else 0))
    history = [r for r in rows if r[5] < seam]
    exact = ", 'scan.watermark.emit.strategy' = 'on-event'"
    engine.configure(random_.choice((1, 2)), random_.choice((1, 7, 65536)))
    engine.create("history", COLUMNS, history, 1)
    engine.create("live", COLUMNS + WATERMARK, live, 1, exact)
    engine.create("whole", COLUMNS + WATERMARK, [*history, *live], 1, exact)
    (expected,) = engine.run(select.format(t="whole"))
    actual = backfilled(engine, columns, select, f"HAND OVER AT ts >= TIMESTAMP '{seam}'")
    assert_same_rows(actual, rows_of(expected.table))


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 40))])
def test_rows_that_are_joined_are_those_of_one_run(name: str, seed: int, engine: Engine) -> None:
    """Where either table, or both, have a history, and each seam is somewhere else."""
    random_ = random.Random(f"{name} {seed}")
    columns, select = JOINS[name]
    engine.configure(random_.choice((1, 2, 3)), random_.choice((1, 7, 65536)))
    clauses = []
    for table in random_.choice((["live"], ["other"], ["live", "other"])):
        seam = random_.randrange(-1, ROWS + 1)
        rows = generated(random_)
        engine.create(f"{table}_history", COLUMNS, [r for r in rows if r[0] < seam], random_.choice((1, 2)))
        engine.create(table, COLUMNS + WATERMARK, [r for r in rows if r[0] >= seam - 5], 1)
        engine.create(f"whole_{table}", COLUMNS, rows, 1)
        clauses.append(f"{table} FROM {table}_history HAND OVER AT id >= {seam}")
    for table in ("live", "other"):
        if not any(clause.startswith(table) for clause in clauses):
            rows = generated(random_)
            engine.create(table, COLUMNS, rows, 2)
            engine.create(f"whole_{table}", COLUMNS, rows, 1)
    (expected,) = engine.run(select.format(t="whole_live", u="whole_other"))
    engine.run(f"CREATE TABLE result ({columns}) WITH ('connector' = 'blackhole')")
    text = f"INSERT INTO result {select.format(t='live', u='other')} WITH BACKFILL {', '.join(clauses)}"
    (statement,) = parse_statements(text)
    assert isinstance(statement, Insert)
    assert_same_rows(rows_of(engine.collect(statement).table), rows_of(expected.table))


def test_without_a_hand_over_all_rows_of_both_count(engine: Engine) -> None:
    columns, select = CASES["counts"]
    rows = generated(random.Random(0))
    engine.configure(2, 7)
    engine.create("history", COLUMNS, rows, 1)
    engine.create("live", COLUMNS + WATERMARK, rows, 1)
    engine.create("whole", COLUMNS, rows + rows, 1)
    (expected,) = engine.run(select.format(t="whole"))
    assert_same_rows(backfilled(engine, columns, select, ""), rows_of(expected.table))


PAIRS = "{t} a JOIN other b ON a.id = b.id"
HINT = "/*+ STATE_TTL('a' = '1 d', 'b' = '1 d') */"
OF_STRINGS, OF_NUMBERS = "k STRING, n BIGINT", "n BIGINT, g BIGINT"


def planned(engine: Engine, columns: str, select: str, settings: dict[str, str] | None = None) -> list[Spec]:
    """The operators of an INSERT into a table with these columns, of `live` with a history and `other` without one."""
    engine.configure(2, 7, settings)
    for table in ("history", "live", "other"):
        engine.create(table, COLUMNS + WATERMARK, generated(random.Random(0)), 1)
    engine.run(f"CREATE TABLE result ({columns}) WITH ('connector' = 'blackhole')")
    text = f"INSERT INTO result {select.format(t='live')} WITH BACKFILL live FROM history"
    (statement,) = parse_statements(text)
    assert isinstance(statement, Insert)
    plan = engine.compile_collected(statement)
    assert isinstance(plan, CompiledPlan)
    return [node.spec for node in walk_plan(plan.physical) if node.spec is not None]


@pytest.mark.parametrize(
    ("columns", "select", "are_held"),
    [
        # What DuckDB has aggregated comes once by itself.
        (*CASES["distinct rows"], [False]),
        (*CASES["groups of groups"], [False, True]),
        (*CASES["groups of first rows"], [True]),
        (OF_STRINGS, f"SELECT a.k, COUNT(*) FROM {PAIRS} GROUP BY a.k", [True]),
        (OF_STRINGS, f"SELECT {HINT} a.k, COUNT(*) FROM {PAIRS} GROUP BY a.k", [True]),
        # Of rows with a history DuckDB finds the first ones.
        (*CASES["first ranks"], [False]),
        ("a BIGINT, b BIGINT", JOINS["first pairs"][1].replace("{u}", "other"), [True]),
        # Each row of it is emitted once anyway.
        ("k STRING", f"SELECT DISTINCT a.k FROM {PAIRS}", [False]),
        (
            OF_NUMBERS,
            "SELECT v, COUNT(*) FROM other GROUP BY v UNION ALL SELECT v, COUNT(*) FROM {t} GROUP BY v",
            [False, False],
        ),
    ],
)
def test_an_aggregation_whose_results_change_while_histories_are_read_holds_them(
    columns: str, select: str, are_held: list[bool], engine: Engine
) -> None:
    """A table without a history that is read beside them says where it begins, too, or it would hold them for ever."""
    specs = planned(engine, columns, select)
    aggregates = [
        s for s in specs if isinstance(s, GroupAggregateSpec | RankSpec) and s.phase.value != "LOCAL"
    ]
    assert sorted(s.holds_history for s in aggregates) == are_held
    reads = {s.table: s.hands_over for s in specs if isinstance(s, SourceSpec) and s.turn < 0}
    assert reads == {table: table == "other" and any(are_held) for table in reads}


def test_a_result_that_could_expire_before_it_is_emitted_is_not_held(engine: Engine) -> None:
    select = f"SELECT a.k, COUNT(*) FROM {PAIRS} GROUP BY a.k"
    for ttl, is_held in (("0 s", True), ("1 d", False)):
        specs = planned(engine, OF_STRINGS, select, {"table.exec.state.ttl": ttl})
        assert any(getattr(spec, "holds_history", False) for spec in specs) == is_held


GROUPED = "SELECT id, k, MAX(v) AS v, MAX(d) AS d, MAX(m) AS m, MAX(ts) AS ts FROM doubled GROUP BY id, k"


def with_grouped_history(engine: Engine, rows: list[Row]) -> None:
    """A history that is a view over each row twice, which a stream would change while it reads them."""
    engine.configure(2, 7)
    engine.create("doubled", COLUMNS, [row for row in rows[:200] for _ in range(2)], 1)
    engine.run(f"CREATE VIEW history AS {GROUPED}")
    engine.create("live", COLUMNS + WATERMARK, rows[200:], 1)
    engine.create("whole", COLUMNS + WATERMARK, rows, 1)


@pytest.mark.parametrize("name", ["sums", "first ranks", "pairs", "left rows"])
def test_a_history_may_be_a_view_that_groups(name: str, engine: Engine) -> None:
    columns, select = {**CASES, **JOINS}[name]
    with_grouped_history(engine, generated(random.Random(name)))
    (expected,) = engine.run(select.format(t="whole", u="whole"))
    rows = backfilled(engine, columns, select.replace("{u}", "{t}"), "")
    assert_same_rows(rows, rows_of(expected.table))


def test_windows_are_not_built_from_rows_that_change(engine: Engine) -> None:
    columns, select = CASES["tumbling"]
    rows = sorted(generated(random.Random(0)), key=lambda row: row[5])
    with_grouped_history(engine, rows)
    with pytest.raises(UserError, match="windows are built from rows that stay") as caught:
        backfilled(engine, columns, select, f"HAND OVER AT ts >= TIMESTAMP '{rows[200][5]}'")
    assert caught.value.code == "SS3503"
