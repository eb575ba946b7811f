"""State of a checkpoint finds the operators of a job by their meaning."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from kept_checkpoints import KeptCheckpoint
from msgspec.structs import replace

from sqlstream.elements import Watermark
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import JobGraph, JobVertex
from sqlstream.graph.stream_graph import FORWARD
from sqlstream.messages.checkpoint import (
    ChannelTime,
    InFlightItems,
    SavedOperator,
    StateSegment,
    SubtaskState,
    TableState,
)
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.manifest import (
    CheckpointManifest,
    OperatorIdentity,
    SavedCommit,
    VertexState,
)
from sqlstream.runtime.jobmanager.checkpoints.completed_checkpoints import CompletedCheckpoint
from sqlstream.runtime.jobmanager.checkpoints.restored_state import (
    commits_by_checkpoint,
    restorable_checkpoint,
    sources_of,
)
from sqlstream.spi.committable import Committable

MakeJob = Callable[..., JobGraph]


def written(subtask: int, checkpoint_id: int) -> Committable:
    return Committable("old", checkpoint_id, f"writer {subtask}", subtask, {})


def table_of(operator_id: int, subtask: int) -> SavedOperator:
    segment = StateSegment(f"shared/{operator_id}-{subtask}.arrow", 0, 8, 1, 1, 0, 127)
    return SavedOperator(operator_id, (TableState("t", True, (segment,)),))


def checkpoint_of(
    job: JobGraph, finished: tuple[bool, ...] = (), commits: tuple[SavedCommit, ...] = ()
) -> KeptCheckpoint:
    """Each source subtask n has the positions {"row": n}, each other one a table. Ids of operators are 100 more than the
    job's."""
    vertices = tuple(_vertex(v, not job.inputs_of(v.id), finished) for v in job.vertices)
    manifest = CheckpointManifest(
        "old",
        "old",
        7,
        CheckpointKind.SAVEPOINT,
        1,
        2,
        vertices,
        {vertices[0].vertex_id: {"left": 3}},
        commits,
    )
    return KeptCheckpoint(manifest, "/sp/a", "/sp/a")


def _vertex(vertex: JobVertex, is_source: bool, finished: tuple[bool, ...]) -> VertexState:
    has_finished = finished if is_source and finished else (False,) * vertex.parallelism
    states = tuple(
        SubtaskState()
        if has_finished[n]
        else SubtaskState(splits=({"row": n},), assignment=4)
        if is_source
        else SubtaskState((table_of(vertex.operators[0].id + 100, n),))
        for n in range(vertex.parallelism)
    )
    operators = tuple(OperatorIdentity(o.id + 100, o.uid, o.name, f"DESC {o.name}") for o in vertex.operators)
    return VertexState(
        f"old{vertex.id}", vertex.name, vertex.parallelism, 128, operators, states, has_finished
    )


def restored(kept: KeptCheckpoint, job: JobGraph, ignores_unclaimed: bool = False) -> CompletedCheckpoint:
    return restorable_checkpoint(kept, job, is_owned=False, ignores_unclaimed=ignores_unclaimed)


def without_edge(job: JobGraph, *vertices: JobVertex) -> JobGraph:
    return replace(job, vertices=vertices, edges=())


def test_operators_find_their_state_by_uid_under_other_ids_and_in_other_vertices(make_job: MakeJob) -> None:
    job = make_job("new", 2, 2)
    found = restored(checkpoint_of(job), job)
    source, sink = job.vertices
    assert found.vertices[source.id].positions == (({"row": 0},), ({"row": 1},))
    restore = found.restore_of(sink.id, 1)
    assert restore is not None
    assert (restore.checkpoint_id, restore.directory, restore.is_finished) == (7, "/sp/a", False)
    assert [[o.operator_id for o in state.operators] for state in restore.states] == [[1], [1]]
    enumerators, states = sources_of(checkpoint_of(job).manifest, job)
    assert [v.vertex_id for v in states] == [source.id, sink.id]
    assert enumerators == {source.id: {"left": 3}}


@pytest.mark.parametrize(("old", "new"), [(1, 3), (3, 2), (4, 1)])
def test_at_another_parallelism_every_position_and_table_is_there_once(
    make_job: MakeJob, old: int, new: int
) -> None:
    kept = checkpoint_of(make_job("old", old, old))
    job = make_job("new", new, new)
    found = restored(kept, job)
    source, sink = job.vertices
    positions = [p["row"] for own in found.vertices[source.id].positions for p in own or ()]
    assert sorted(positions) == list(range(old))
    assert len(found.vertices[sink.id].states) == old


def test_items_in_flight_go_on_between_the_same_vertices_and_nowhere_else(make_job: MakeJob) -> None:
    items = InFlightItems(True, 0, 1, (Watermark(5),))
    kept = checkpoint_of(make_job("j1", 2))
    first, *others = kept.manifest.vertices
    subtasks = (replace(first.subtasks[0], in_flight=(items,)), *first.subtasks[1:])
    vertices = (replace(first, subtasks=subtasks), *others)
    kept = dataclasses.replace(kept, manifest=replace(kept.manifest, vertices=vertices))
    same = make_job("j1", 2)
    states = restored(kept, same).restore_of(same.vertices[0].id, 0)
    assert states is not None
    assert [state.in_flight for state in states.states] == [(items,), ()]
    other = without_edge(same, *same.vertices[:1])
    with pytest.raises(UserError, match="goes on with the same statement only") as raised:
        restored(kept, other, ignores_unclaimed=True)
    assert raised.value.code == "SS6222"


def test_rows_in_flight_become_what_arrives_at_other_subtasks(make_job: MakeJob) -> None:
    """What a producer had queued follows what the consumer had received of it, and no watermark goes ahead of the slowest."""
    old = make_job("old", 2, 2)
    segment = StateSegment("shared/a-1.arrow", 0, 8, 1, 5)
    queued = InFlightItems(True, 0, 1, (2, Watermark(70), 3), (segment,))
    received = InFlightItems(False, 0, 0, (Watermark(20), 1), (replace(segment, offset=8),))
    kept = checkpoint_of(old)
    source, sink = kept.manifest.vertices
    marks = (ChannelTime(10, False), ChannelTime(40, False))
    sources = (replace(source.subtasks[0], in_flight=(queued,)), source.subtasks[1])
    sinks = tuple(replace(s, channels=marks) for s in sink.subtasks)
    sinks = (sinks[0], replace(sinks[1], in_flight=(received,)))
    vertices = (replace(source, subtasks=sources), replace(sink, subtasks=sinks))
    kept = dataclasses.replace(kept, manifest=replace(kept.manifest, vertices=vertices))
    job = make_job("new", 3, 3)
    found = restored(kept, job).restore_of(job.vertices[1].id, 2)
    assert found is not None
    assert found.arrivals is not None
    # The first has come to 10; the second to 40, since the other channel of it comes to 70.
    assert found.arrivals.watermarks == ((10, 40),)
    assert [(r.gate, r.consumer, r.rows) for r in found.arrivals.rows] == [(0, 1, (1,)), (0, 1, (2, 3))]
    assert not any(state.in_flight or state.channels for state in found.states)


def test_rows_in_flight_that_no_channel_brings_are_not_left_out(make_job: MakeJob) -> None:
    items = InFlightItems(True, 7, 0, (2,), (StateSegment("shared/a-1.arrow", 0, 8, 1, 2),))
    kept = checkpoint_of(make_job("old", 2, 2))
    source, sink = kept.manifest.vertices
    sources = (replace(source.subtasks[0], in_flight=(items,)), source.subtasks[1])
    kept = dataclasses.replace(
        kept, manifest=replace(kept.manifest, vertices=(replace(source, subtasks=sources), sink))
    )
    with pytest.raises(UserError, match="that no channel of the job brings"):
        restored(kept, make_job("new", 3, 3))


def test_rows_in_flight_by_forward_belong_to_nobody_else(make_job: MakeJob) -> None:
    items = InFlightItems(True, 0, 0, (2,), (StateSegment("shared/a-1.arrow", 0, 8, 1, 2),))
    kept = checkpoint_of(make_job("old", 2, 2))
    source, sink = kept.manifest.vertices
    sources = (replace(source.subtasks[0], in_flight=(items,)), source.subtasks[1])
    kept = dataclasses.replace(
        kept, manifest=replace(kept.manifest, vertices=(replace(source, subtasks=sources), sink))
    )
    job = make_job("new", 3, 3)
    (edge,) = job.edges
    job = replace(job, edges=(replace(edge, exchange=FORWARD),))
    with pytest.raises(UserError, match="by FORWARD, which goes on with the same parallelism only") as raised:
        restored(kept, job)
    assert raised.value.code == "SS6222"


def test_state_that_nobody_takes_is_named_and_refused_unless_allowed(make_job: MakeJob) -> None:
    old = make_job("old", 1, 1)
    source, sink = old.vertices
    kept = checkpoint_of(old)
    other = replace(sink, operators=(replace(sink.operators[0], uid="another"),))
    job = without_edge(old, source, other)
    with pytest.raises(
        UserError, match=r'"/sp/a" has state that no operator of the job takes: DESC out'
    ) as error:
        restored(kept, job)
    assert "ignore-unclaimed-state" in error.value.hint
    found = restored(kept, job, ignores_unclaimed=True)
    assert found.restore_of(other.id, 0) is None


def test_operators_without_state_may_go(make_job: MakeJob) -> None:
    old = make_job("old", 1, 1)
    kept = checkpoint_of(old)
    vertices = tuple(
        replace(v, subtasks=(SubtaskState(),)) if n else v for n, v in enumerate(kept.manifest.vertices)
    )
    kept = KeptCheckpoint(replace(kept.manifest, vertices=vertices), "/sp/a", "/sp/a")
    assert restored(kept, without_edge(old, old.vertices[0])).vertices.keys() == {old.vertices[0].id}


def test_another_number_of_key_groups_is_refused(make_job: MakeJob) -> None:
    old = make_job("old", 1, 1)
    source, sink = old.vertices
    job = replace(old, vertices=(source, replace(sink, max_parallelism=64)))
    with pytest.raises(UserError, match="64 key groups, and 128") as error:
        restored(checkpoint_of(old), job)
    assert "'pipeline.max-parallelism' to 128" in error.value.hint


def test_a_finished_subtask_is_so_again_and_has_nothing_left_to_read(make_job: MakeJob) -> None:
    job = make_job("new", 2, 1)
    found = restored(checkpoint_of(job, (True, False)), job)
    source = job.vertices[0]
    vertex = found.vertices[source.id]
    assert (vertex.finished, vertex.positions) == ((True, False), ((), ({"row": 1},)))
    assert found.has_finished(source.id, 0)


def test_commits_are_repeated_in_the_order_of_their_checkpoints(make_job: MakeJob) -> None:
    job = make_job("new", 1, 1)
    spec = job.vertices[1].operators[0].spec
    saved = tuple(SavedCommit(n, "v", 1, spec, (written(0, n),)) for n in (7, 5, 6))  # type: ignore[arg-type]
    assert list(commits_by_checkpoint(checkpoint_of(job, commits=saved).manifest, job)) == [5, 6, 7]
