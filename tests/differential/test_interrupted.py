"""Golden, Nexmark and differential queries whose job loses a process and goes on at another parallelism: the same answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from differential.combined_queries import COMBINED, EVENT_TIME
from differential.combined_queries import TABLES as COMBINED_TABLES
from differential.nexmark_batch import BATCH_SQL, COMPARED_COLUMNS, batch_answer
from differential.random_query import RandomQuery, function_statements
from differential.test_nexmark import create_tables
from golden.test_results import RESULTS, SCRIPTS, printed
from interrupted_connectors import register
from interrupted_engine import HASHMAP, MAPPED, InterruptedEngine, Lives
from oracle import Differential, Engine, Finished, assert_same_rows, rows_of
from sql_cases import cases_of

from sqlstream.runtime.connectors import CONNECTORS, connector
from sqlstream.runtime.connectors.generators.nexmark_config import NexmarkConfig

QUERIES = cases_of("queries")
SEED = 7
CHILDREN = Path(__file__).parents[1] / "children"
EVENTS = 40_000
RATE = 1000
ALWAYS = {"top_n", "q5", "q18", "match_behind_temporal_join"}
"""These run in make test, the others in make test-all."""
TO_MAPPED = Lives(HASHMAP, MAPPED)
TO_HASHMAP = Lives(MAPPED, HASHMAP)
AT_ONCE = Lives(HASHMAP, MAPPED, unaligned="0 ms")
IN_TIME = Lives(MAPPED, HASHMAP, unaligned="40 ms")
ALWAYS_UNALIGNED = {("hops", AT_ONCE), ("over_behind_temporal_join", IN_TIME)}
UNALIGNED_EACH = 4
"""Of the other queries one in so many runs with unaligned checkpoints, too."""


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InterruptedEngine]:
    with pytest.MonkeyPatch.context() as patch:
        path = os.pathsep.join(p for p in (str(CHILDREN), os.environ.get("PYTHONPATH", "")) if p)
        patch.setenv("PYTHONPATH", path)
        # The golden scripts name their files relative to themselves, and children keep the directory that they began in.
        patch.chdir(RESULTS)
        for name, made in CONNECTORS.items():
            patch.setitem(CONNECTORS, name, made)
        register()
        connector.cache_clear()
        engine = InterruptedEngine(tmp_path_factory.mktemp("interrupted"), SEED)
        yield engine
        engine.close()
        ran = f"{engine.kills} kills and {engine.restores} restores of {engine.jobs} jobs came in time"
        assert engine.kills >= engine.jobs // 2, ran
        assert engine.restores >= engine.jobs // 2, ran
        unaligned = f"{engine.went_on_in_flight} of {engine.unaligned_jobs} jobs went on with rows in flight"
        assert 4 * engine.went_on_in_flight >= engine.unaligned_jobs, unaligned
    connector.cache_clear()


@pytest.fixture(autouse=True)
def each_is_killed(request: pytest.FixtureRequest, interrupted: InterruptedEngine) -> Iterator[None]:
    """Those that run in make test have sources that do not end before, so that none passes without a kill."""
    kills, jobs = interrupted.kills, interrupted.jobs
    yield
    if request.node.get_closest_marker("slow") is None:
        assert interrupted.kills - kills >= interrupted.jobs - jobs > 0


def share(names: list[str]) -> list[object]:
    """Each by itself, with its state in memory first and in mapped files behind the restore, and the other way round; some with
    unaligned checkpoints."""
    return [
        pytest.param(
            name,
            lives,
            marks=() if name in ALWAYS and lives == TO_MAPPED else pytest.mark.slow,
            id=f"{name}-{lives}",
        )
        for number, name in enumerate(names)
        for lives in (TO_MAPPED, TO_HASHMAP, (AT_ONCE, IN_TIME)[number // UNALIGNED_EACH % 2])
        if lives.unaligned is None or number % UNALIGNED_EACH == 0
    ]


@pytest.mark.parametrize(("script", "lives"), share([s.stem for s in SCRIPTS]))
def test_a_golden_result_is_the_same(script: str, lives: Lives, interrupted: InterruptedEngine) -> None:
    interrupted.lives = lives
    interrupted.configure(parallelism=3, batch_rows=1)
    interrupted.pause_ms = 60
    finished = interrupted.run((RESULTS / f"{script}.sql").read_text())
    assert [sorted(printed(f).splitlines()) for f in finished] == [
        sorted(result.splitlines()) for result in _results(RESULTS / f"{script}.out", len(finished))
    ]


def _results(path: Path, count: int) -> list[str]:
    """One text for each query of a script; a query without rows has an empty one."""
    found = path.read_text().rstrip("\n").split("\n\n")
    return [*found, *[""] * (count - len(found))]


@pytest.mark.parametrize(("query", "lives"), share(sorted(BATCH_SQL, key=lambda q: int(q[1:]))))
def test_a_nexmark_query_has_the_batch_answer(
    query: str, lives: Lives, interrupted: InterruptedEngine
) -> None:
    interrupted.lives = lives
    if query == "q12":
        pytest.skip("its windows are of processing time")
    interrupted.pause_ms = 20
    insert = create_tables(interrupted, query, 3, {"execution.batch-rows": "500"}, EVENTS)
    expected = batch_answer(query, EVENTS, NexmarkConfig(rate=RATE))
    actual = interrupted.collect(insert).table
    columns = COMPARED_COLUMNS.get(query, tuple(expected.column_names))
    wanted = expected.select(columns).cast(actual.select(columns).schema)
    assert_same_rows(rows_of(actual.select(columns)), rows_of(wanted))


@pytest.mark.slow
@pytest.mark.parametrize(("query", "lives"), share(sorted(QUERIES)))
def test_a_query_has_the_batch_answer(query: str, lives: Lives, interrupted: InterruptedEngine) -> None:
    interrupted.lives = lives
    case = QUERIES[query]
    read = {table.name for table in case.used_tables}
    tables = {name: table for name, table in case.rows_of_tables.items() if name in read}
    interrupted.pause_ms = 200
    Differential(interrupted)(case.script, tables, parallelism=3, batch_rows=1)


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize(("query", "lives"), share(sorted(COMBINED)))
def test_a_job_of_several_kinds_of_state_has_the_rows_of_one_that_runs_through(
    query: str, lives: Lives, parallelism: int, interrupted: InterruptedEngine, tmp_path: Path
) -> None:
    interrupted.lives = lives
    interrupted.pause_ms = 20
    check_as_run_through(COMBINED[query], parallelism, interrupted, tmp_path)


@pytest.mark.parametrize(
    ("query", "lives", "parallelism"),
    [
        pytest.param(
            query,
            lives,
            parallelism,
            # With as many subtasks as processes each kill waits for the start of another one.
            marks=() if (query, lives) in ALWAYS_UNALIGNED and parallelism == 2 else pytest.mark.slow,
            id=f"{query}-{lives}-{parallelism}",
        )
        for query in sorted(EVENT_TIME | COMBINED)
        for lives in (AT_ONCE, IN_TIME)
        for parallelism in (2, 3)
    ],
)
def test_a_job_that_goes_on_from_unaligned_checkpoints_has_the_rows_of_one_that_runs_through(
    query: str, lives: Lives, parallelism: int, interrupted: InterruptedEngine, tmp_path: Path
) -> None:
    interrupted.lives = lives
    interrupted.pause_ms = 1
    check_as_run_through((EVENT_TIME | COMBINED)[query], parallelism, interrupted, tmp_path)


def check_as_run_through(query: str, parallelism: int, interrupted: InterruptedEngine, place: Path) -> None:
    def run(engine: Engine, parallelism: int, batch_rows: int) -> Finished:
        engine.configure(parallelism, batch_rows)
        for name, (columns, rows) in COMBINED_TABLES.items():
            engine.create(name, columns, rows, files=2 if name in ("bids", "clicks") else 1)
        (finished,) = engine.run(query)
        return finished

    through = Engine(place)
    wanted = rows_of(run(through, 1, 100).table)
    through.close()
    assert len(wanted) > 3
    assert_same_rows(rows_of(run(interrupted, parallelism, 7).table), wanted)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(9000, 9100, 5))
def test_random_queries_have_the_batch_answer(first: int, interrupted: InterruptedEngine) -> None:
    interrupted.pause_ms = 200
    for seed in range(first, first + 5):
        interrupted.lives = (TO_MAPPED, TO_HASHMAP, AT_ONCE, TO_HASHMAP, TO_MAPPED, IN_TIME)[seed % 6]
        query = RandomQuery(seed)
        script = ";\n".join([*function_statements(query.sql), query.sql])
        try:
            Differential(interrupted)(
                script, query.tables, parallelism=3, batch_rows=1, batch_sql=query.batch_sql
            )
        except Exception as error:
            raise AssertionError(f"seed {seed}: {query.sql}\n{query.tables}") from error
