"""A job that is stopped anywhere and restored at another parallelism leaves the rows of a run that nothing stopped.

Every stateful operator takes part: a job through real task loops is cut three times, and runs with 1, 2, 3 and 1 subtasks.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from killed_jobs import run_killed_job
from moved_jobs import operators_of, plan_job, run_job
from moved_tables import BATCHES, BATCHES_OF_KILLED, CASES, QUERIES, TABLES, scripts
from operator_harness import Row, final_table

from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.runtime import operators
from sqlstream.runtime.kernels.keys.partition import KeySplitter
from sqlstream.runtime.operators.calc import Calc
from sqlstream.runtime.operators.dry_run import kept_state
from sqlstream.runtime.operators.join.join import Join
from sqlstream.runtime.operators.operator import Operator
from sqlstream.runtime.state.logs.row_log import RowLog
from sqlstream.runtime.state.snapshots.snapshot import SavedTables
from sqlstream.runtime.state.tables.keyed_rows import KeyedRows
from sqlstream.runtime.taskmanager.result_partition import Part
from sqlstream.specs import (
    ChangelogNormalizeSpec,
    DeduplicateSpec,
    GroupAggregateSpec,
    SinkSpec,
    SourceSpec,
    WindowAggregateSpec,
)

PARALLELISMS = (1, 2, 3, 1)
SEEDS_SLOW = 40

STATELESS = {
    "Calc",
    "ModelPredict",
    "ProcessOutput",
    "Expand",
    "MarkChanges",
    "Unnest",
    "DropUpdateBefore",
    "WindowTvf",
    "FromChangelog",
    "ToChangelog",
    "SinkOperator",
    "NotNullEnforcer",
    "TypeLengthEnforcer",
    "LookupJoin",
    "VectorSearch",
}
"""What `flush` sends on is no state, and a lookup join may lose its cache."""
MOVED_ALONE = {"ConflictCheck", "KeptValues", "RemotePredict", "SingleRowCheck", "TrainModel"}
"""An operator of INSERT alone, one whose rows differ in each run, one that needs a server, one that keeps rows for a moment, one
of CREATE MODEL alone: their own tests move them."""
WITHIN_OTHERS = {"Unroll"}
"""Runs within MutualIterate alone, whose state has its own."""
KEEPS_NOTHING = {"CompareRows", "_StatesAlone"}
"""One compares two bounded results once, for VERIFY, in a database of its own; such a job starts anew. The other is a user's
function in EXPLAIN STATE, where it is not called."""


@functools.cache
def planned(name: str) -> JobGraph:
    return plan_job(QUERIES[name], CASES[name].settings, TABLES)


@functools.cache
def stayed(name: str, seed: int, batches: tuple[int, int] = BATCHES) -> Counter[Row]:
    """The rows of a run that nothing stops."""
    return final_table(run_job(planned(name), scripts(seed, batches), [1], seed), has_pairs=False)


def check(name: str, seed: int) -> None:
    expected = stayed(name, seed)
    moved = final_table(run_job(planned(name), scripts(seed), PARALLELISMS, seed), has_pairs=False)
    assert moved == expected
    assert expected != Counter()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", QUERIES)
def test_a_job_that_moves_leaves_the_rows_of_one_that_stays_with_many_seeds(name: str) -> None:
    for seed in range(SEEDS_SLOW):
        check(name, seed)


def operator_classes() -> dict[str, type]:
    """All operators in the tree, by name, without the base classes of others."""
    found = {}
    for module in pkgutil.walk_packages(operators.__path__, "sqlstream.runtime.operators."):
        for name, value in vars(importlib.import_module(module.name)).items():
            is_operator = inspect.isclass(value) and issubclass(value, Operator)
            if is_operator and value.__module__ == module.name:
                found[name] = value
    bases = {base for value in found.values() for base in value.__mro__[1:]}
    return {name: value for name, value in found.items() if value not in bases}


def test_every_stateful_operator_takes_part() -> None:
    taking_part = {type(o).__name__ for name in QUERIES for o in operators_of(planned(name), scripts(0))}
    assert (
        set(operator_classes()) - taking_part - STATELESS - KEEPS_NOTHING - MOVED_ALONE - WITHIN_OTHERS
        == set()
    )
    assert {place.partition(":")[0] for place in operators.OPERATORS.values()} <= {
        c.__module__ for c in operator_classes().values()
    }


def check_killed(
    name: str,
    seed: int,
    directory: Path,
    is_unaligned: bool = False,
    aligned_timeout_ms: int = 0,
    concurrent_max: int = 1,
    moved: tuple[int, ...] = (),
) -> dict[str, int]:
    played = scripts(seed, BATCHES_OF_KILLED)
    expected = stayed(name, seed, BATCHES_OF_KILLED)
    figures: dict[str, int] = {}
    lives = moved or ((2, 2, 2, 3) if is_unaligned else PARALLELISMS)
    killed = run_killed_job(
        planned(name),
        played,
        lives,
        seed,
        directory,
        figures,
        is_unaligned=is_unaligned,
        aligned_timeout_ms=aligned_timeout_ms,
        concurrent_max=concurrent_max,
        moves_in_flight=bool(moved),
    )
    assert final_table(killed, has_pairs=False) == expected, figures
    return figures


def lose_filtered_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter drops a row that its condition keeps."""
    emit = Calc._emit
    monkeypatch.setattr(Calc, "_emit", lambda self, batch, output: emit(self, batch.slice(1), output))


def lose_held_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that waits in the state is not there after a restore."""
    load = RowLog._load
    monkeypatch.setattr(
        RowLog, "_load", lambda self, batches, n: load(self, [b.slice(1) for b in batches], n)
    )


def lose_kept_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that a join keeps for its key is not there after a restore."""
    load = KeyedRows.load

    class Lossy(SavedTables):
        def batches(self, name: str) -> Iterator[pa.RecordBatch]:
            return (batch.slice(1) for batch in super().batches(name))

    monkeypatch.setattr(KeyedRows, "load", lambda self, saved: load(self, Lossy(saved.keyed)))


def lose_row_of_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """A join does not keep a row of its right side."""
    keep, append = Join._keep, Join._append

    def lossy_keep(
        self: Join, rows: pa.RecordBatch, signs: np.ndarray, matches: np.ndarray, side: int
    ) -> None:
        keep(self, rows.slice(side), signs[side:], matches[side:], side)

    monkeypatch.setattr(Join, "_keep", lossy_keep)
    monkeypatch.setattr(Join, "_append", lambda self, rows, side: append(self, rows.slice(side), side))


def lose_sent_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exchange drops a row of each part of a batch."""

    def lossy(splitter: KeySplitter, batch: pa.RecordBatch, rows: np.ndarray | None = None) -> list[Part]:
        return [(n, part.slice(1), size, None) for n, part, size, _ in split(splitter, batch, rows)]

    split = KeySplitter.split
    monkeypatch.setattr(KeySplitter, "split", lossy)


@pytest.mark.parametrize(
    ("name", "fault", "where"),
    [
        ("window join", lose_held_row, "(left|right): "),
        ("interval join", lose_held_row, "(left|right): "),
        ("temporal join", lose_held_row, "left: "),
        ("temporal join", lose_kept_row, "right: "),
        ("snapshot join", lose_kept_row, "right: "),
        ("join", lose_kept_row, "(left|right): "),
        ("left join of retracting inputs", lose_kept_row, "(left|right): "),
        ("join", lose_row_of_side, "^[^;]*right: [^;]*$"),
        ("left join of retracting inputs", lose_row_of_side, "^[^;]*right: [^;]*$"),
        ("tumbling windows", lose_sent_row, ""),
        ("tumbling windows", lose_filtered_row, ""),
    ],
)
def test_a_row_that_an_operator_or_an_exchange_loses_is_missing_in_the_ledger(
    name: str,
    fault: Callable[[pytest.MonkeyPatch], None],
    where: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    fault(monkeypatch)

    def run_often() -> None:
        """Whether a row is held when the job is killed is a matter of when that is."""
        for seed in range(20):
            played = scripts(seed, BATCHES_OF_KILLED)
            run_killed_job(planned(name), played, PARALLELISMS, seed, tmp_path / str(seed))

    with pytest.raises(AssertionError, match=r"(is|are) missing") as raised:
        run_often()
    assert re.search(where, str(raised.value).splitlines()[0]), raised.value


@pytest.mark.parametrize(
    "name",
    [
        "join",
        "full join of retracting inputs",
        "semi join",
        "anti join of retracting inputs",
        "full interval join",
        "left window join",
        "temporal join with versions that end",
        "snapshot join with changes",
    ],
)
def test_each_side_of_a_join_adds_up_at_every_checkpoint_of_a_job_that_is_killed_and_moved(
    name: str, tmp_path: Path
) -> None:
    figures = Counter[str]()
    figures.update(check_killed(name, 0, tmp_path / "moved"))
    figures.update(check_killed(name, 1, tmp_path / "passed", is_unaligned=True))
    for side in ("left", "right"):
        assert any(figure.startswith("balanced ") and figure.endswith(f" {side}") for figure in figures), (
            figures
        )


@pytest.mark.parametrize("concurrent_max", [1, 3])
@pytest.mark.parametrize("name", ["join", "distinct rows", "interval join", "temporal join"])
def test_a_job_that_counts_rows_at_least_once_loses_none_when_it_is_killed_and_waits_for_no_barrier(
    name: str, concurrent_max: int, tmp_path: Path
) -> None:
    figures: dict[str, int] = {}
    surplus: Counter[Row] = Counter()
    for seed in range(2):
        played = scripts(seed, BATCHES_OF_KILLED)
        expected = stayed(name, seed, BATCHES_OF_KILLED)
        killed = run_killed_job(
            planned(name), played, PARALLELISMS, seed, tmp_path / str(seed), figures,
            concurrent_max=concurrent_max, mode="AT_LEAST_ONCE",
        )  # fmt: skip
        found = final_table(killed, has_pairs=False)
        assert expected - found == Counter(), figures
        surplus += found - expected
    assert figures["completed"], figures
    assert figures["longest alignment"] == 0
    if name == "join":
        assert surplus, "no row came twice: barriers have blocked"


UNALIGNED_QUERIES = ("left join of retracting inputs", "windows of windows", "best of retracted rows")


@pytest.mark.parametrize("name", UNALIGNED_QUERIES)
def test_a_job_that_is_killed_between_unaligned_checkpoints_commits_the_rows_of_one_that_is_not(
    name: str, tmp_path: Path
) -> None:
    figures = check_killed(name, 0, tmp_path, is_unaligned=True)
    assert figures["items in outputs"], figures


@pytest.mark.parametrize("name", UNALIGNED_QUERIES)
def test_rows_in_flight_go_to_the_subtasks_of_another_parallelism(name: str, tmp_path: Path) -> None:
    figures = Counter[str]()
    for seed in range(3):
        place = tmp_path / str(seed)
        figures.update(check_killed(name, seed, place, is_unaligned=True, moved=(2, 3, 1, 4, 2, 2, 3)))
    assert figures["moved rows in flight"], figures


@pytest.mark.parametrize("name", UNALIGNED_QUERIES)
def test_a_job_whose_barriers_pass_rows_after_a_while_commits_the_rows_of_one_that_is_not_killed(
    name: str, tmp_path: Path
) -> None:
    figures = check_killed(name, 0, tmp_path, is_unaligned=True, aligned_timeout_ms=30)
    assert figures["items in outputs"], figures


@pytest.mark.parametrize("name", UNALIGNED_QUERIES)
def test_a_job_with_several_checkpoints_at_once_commits_the_rows_of_one_that_is_not_killed(
    name: str, tmp_path: Path
) -> None:
    figures = check_killed(name, 0, tmp_path, concurrent_max=4)
    assert figures["begun beside another"], figures


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("aggregate of a user by window", 12),
        ("aggregate of a user by window", 21),
        ("broadcast window join", 33),
        ("broadcast interval join", 9),
        ("broadcast interval join", 24),
    ],
)
def test_subtasks_that_had_come_to_different_places_in_event_time_go_on_from_their_own(
    name: str, seed: int, tmp_path: Path
) -> None:
    check_killed(name, seed, tmp_path, is_unaligned=True, aligned_timeout_ms=20 * (seed % 4))


@pytest.mark.parametrize("is_unaligned", [False, True])
def test_a_job_whose_local_aggregates_have_ended_in_part_goes_on_from_checkpoints(
    is_unaligned: bool, tmp_path: Path
) -> None:
    """Their sources have fewer splits than subtasks."""
    figures: Counter[str] = Counter()
    for seed in range(4):
        figures.update(check_killed("aggregate of a union", seed, tmp_path / str(seed), is_unaligned))
    assert figures["begun with a vertex that has ended in part"], figures


def test_rows_that_are_emitted_at_the_end_are_in_a_checkpoint_that_is_still_being_written(
    tmp_path: Path,
) -> None:
    check_killed("ranks of retracted rows", 25, tmp_path, concurrent_max=3)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", QUERIES)
def test_a_job_that_is_killed_between_checkpoints_commits_the_rows_of_one_that_is_not_with_many_seeds(
    name: str, tmp_path: Path
) -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS_SLOW):
        seen.update(
            check_killed(
                name,
                seed,
                tmp_path / str(seed),
                is_unaligned=seed % 3 == 0,
                aligned_timeout_ms=20 * (seed % 4) if seed % 3 == 0 else 0,
                concurrent_max=3 if seed % 3 == 1 else 1,
            )
        )
    events = ("killed", "completed", "savepoints", "aborted: given up", "begun beside another")
    assert all(seen[event] for event in events), seen


OF_RUNTIME = {
    *("$touched_ms", "$count", "$matches", "$sequence", "$time_ms", "$is_matched"),
    *("$subtask", "$removed_until_ms"),
}


def stateful(name: str) -> list[ChainedOperator]:
    operators = (o for v in planned(name).vertices for o in v.operators)
    return [o for o in operators if o.state is not None and not isinstance(o.spec, SourceSpec | SinkSpec)]


@pytest.mark.parametrize("name", QUERIES)
def test_tables_that_are_named_in_a_plan_have_the_columns_that_it_says(name: str) -> None:
    for operator in stateful(name):
        assert operator.state is not None
        tables = {t.name: t for t in kept_state(operator, {}).tables}
        declared = {n.partition(".")[0] for n in tables}
        for rows in operator.state.rows:
            # A table without rows at the end of the trial is not saved.
            assert rows.table in declared, (operator.name, declared)
            found = [n for n in tables[rows.table].columns.names if n not in OF_RUNTIME]
            if isinstance(operator.spec, DeduplicateSpec):
                found = found[len(operator.spec.keys) + 1 :]
            if isinstance(operator.spec, ChangelogNormalizeSpec):
                # Its keys stand before the row that they are part of.
                found = found[len(operator.spec.keys) :]
            assert len(found) == len(rows.columns), operator.name
            if not isinstance(operator.spec, GroupAggregateSpec | WindowAggregateSpec):
                side = 1 if rows.table in ("right", "changes") else 0
                names = list(operator.input_schemas[side].names)
                assert [n.rpartition("_")[0] or n for n in found[: len(names)]] == [
                    n.rpartition("_")[0] or n for n in names
                ]
        parts = {n for n in tables if "." in n}
        assert parts <= set(operator.state.parts), operator.name


def test_every_operator_that_keeps_something_has_an_identity() -> None:
    for name in QUERIES:
        operators = (o for v in planned(name).vertices for o in v.operators)
        assert all(o.state is not None for o in operators if o.spec.kept_state()), name
