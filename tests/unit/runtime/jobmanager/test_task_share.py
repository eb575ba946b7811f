"""A task is sent what it loads of its vertex's state, and no more."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from sqlstream.elements import Watermark
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.checkpoint import (
    InFlightItems,
    SavedOperator,
    StateSegment,
    SubtaskState,
    TableState,
    TaskRestore,
)
from sqlstream.runtime.jobmanager.deployment import share_of
from sqlstream.runtime.jobmanager.execution_graph import ExecutionGraph, ExecutionVertex
from sqlstream.runtime.story import Story
from sqlstream.specs import ValuesSpec

MakeJob = Callable[..., JobGraph]
IN_FLIGHT = (InFlightItems(False, 0, 0, (Watermark(1),)),)
READ = ({"row": 3},)


def segment(name: str, first: int, last: int) -> StateSegment:
    return StateSegment(f"shared/{name}-1.arrow", 0, 8, 1, 1, first, last)


def of_old(n: int, first: int, last: int) -> SubtaskState:
    """An old subtask with the key groups `first` to `last`."""
    keyed = TableState("t", True, (segment(f"keyed{n}", first, last),))
    shared = TableState("s", False, (segment(f"shared{n}", -1, -1),))
    return SubtaskState((SavedOperator(1, (keyed, shared)),), READ, 4, IN_FLIGHT)


def subtasks(job: JobGraph) -> tuple[ExecutionVertex, ...]:
    return ExecutionGraph(job, 0, Story()).vertices[job.vertices[0].id]


def loaded(restore: TaskRestore, table: str) -> list[list[str]]:
    """The files of a table, by old subtask."""
    return [
        [s.path for o in state.operators for t in o.tables if t.name == table for s in t.segments]
        for state in restore.states
    ]


def test_each_task_gets_its_key_groups_all_shared_tables_and_its_own_items_in_flight(
    make_job: MakeJob,
) -> None:
    restore = TaskRestore(1, "/chk", (of_old(0, 0, 63), of_old(1, 64, 127)))
    shares = [share_of(restore, s.vertex, s.subtask) for s in subtasks(make_job("j", 2, 1))]
    assert [loaded(share, "t") for share in shares] == [
        [["shared/keyed0-1.arrow"], []],
        [[], ["shared/keyed1-1.arrow"]],
    ]
    both = [["shared/shared0-1.arrow"], ["shared/shared1-1.arrow"]]
    assert [loaded(share, "s") for share in shares] == [both, both]
    assert [[bool(s.in_flight) for s in share.states] for share in shares] == [[True, False], [False, True]]
    assert [s.splits for share in shares for s in share.states] == [None] * 4


def test_at_another_parallelism_a_task_gets_all_that_its_key_groups_are_spread_over(
    make_job: MakeJob,
) -> None:
    restore = TaskRestore(1, "/chk", (of_old(0, 0, 63), of_old(1, 64, 127)))
    shares = [share_of(restore, s.vertex, s.subtask) for s in subtasks(make_job("j", 3, 1))]
    found = [[bool(paths) for paths in loaded(share, "t")] for share in shares]
    assert found == [[True, False], [True, True], [False, True]]


def test_one_of_as_many_subtasks_gets_all_that_it_has_saved_and_nothing_of_others(
    make_job: MakeJob,
) -> None:
    states = (of_old(0, 0, 127), of_old(1, 0, 127))
    restore = TaskRestore(1, "/chk", states, is_own=True)
    shares = [share_of(restore, s.vertex, s.subtask) for s in subtasks(make_job("j", 2, 1))]
    assert [[state.operators for state in share.states] for share in shares] == [
        [states[0].operators, ()],
        [(), states[1].operators],
    ]


def test_readers_of_the_statements_own_rows_learn_what_all_have_read(make_job: MakeJob) -> None:
    job = make_job("j", 2, 1)
    source = job.vertices[0]
    values = replace(source.operators[0], spec=ValuesSpec(()))
    job = replace(job, vertices=(replace(source, operators=(values,)), *job.vertices[1:]))
    restore = TaskRestore(1, "/chk", (of_old(0, 0, 63), of_old(1, 64, 127)))
    assert [s.splits for s in share_of(restore, job.vertices[0], 1).states] == [READ, READ]


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_task_that_had_finished_loads_nothing(make_job: MakeJob, is_finished: bool) -> None:
    restore = TaskRestore(1, "/chk", (of_old(0, 0, 127),), is_finished)
    assert bool(share_of(restore, make_job("j", 1, 1).vertices[0], 0).states) is not is_finished
