"""What a JobMaster says of rows that do not add up."""

from __future__ import annotations

from collections.abc import Callable

from checkpointed_master import Master, state_of, with_config
from msgspec.structs import replace

from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.messages.checkpoint import InFlightItems, SubtaskState
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.ledger import LedgerEntry, balance_text, difference_text
from sqlstream.messages.rpc import TaskMetrics, TaskStateUpdate
from sqlstream.runtime.jobmanager.checkpoints.ledger import job_ledger
from sqlstream.runtime.jobmanager.events import Noted, SavepointRequested, SinksAborted, TaskStateChanged
from sqlstream.runtime.jobmanager.job_details import measure_job
from sqlstream.specs import BatchQuerySpec, JoinSpec, WindowJoinSpec
from sqlstream.specs.join import JoinKind
from sqlstream.specs.spec import OperatorSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID

MakeJob = Callable[..., JobGraph]
SOURCE, SINK = 0, 1
Counted = dict[str, int | float]


def counted(operator_id: int, **figures: int) -> SubtaskState:
    names = {"read": "numRecordsIn", "emitted": "numRecordsOut", "done": "numRecordsDone"}
    return SubtaskState(counted={operator_id: {names.get(n, n): v for n, v in figures.items()}})


def checkpoint(job: Master, id: int, sent: int, arrived: int, lost_in_sink: int = 0) -> list[str]:
    """The next checkpoint is complete: what is noted of it."""
    job.tick(1000)
    done = arrived - lost_in_sink
    figures = {
        "j1-0": {SOURCE: {"numRecordsIn": sent, "numRecordsOut": sent}},
        "j1-1": {SINK: {"numRecordsIn": arrived, "numRecordsDone": done}},
    }
    job.out = []
    for execution in list(job.master.graph.executions()):
        name = execution.execution_id
        job.acknowledge(name, id, state=replace(state_of(name, id), counted=figures[name[:4]]))
    job.stored(id)
    return [n.text for n in job.taken(Noted)]


def begun(make_job: MakeJob) -> Master:
    return Master(with_config(make_job("j1", 1, 1)))


def test_rows_that_arrive_add_up(make_job: MakeJob) -> None:
    job = begun(make_job)
    assert checkpoint(job, 1, sent=10, arrived=10) == []
    ledger = job.master.checkpoints.statistics().ledger
    assert ledger is not None
    assert (ledger.checkpoint_id, ledger.is_balanced) == (1, True)
    assert [(e.rows_in, e.rows_out, e.balance) for e in ledger.entries] == [
        (10, 10, ("out",)),
        (10, 0, ("done", "filtered")),
    ]
    assert "numLedgerDifferences" not in measure_job(job.master).total


def test_rows_that_are_lost_on_the_way_are_noted_once(make_job: MakeJob) -> None:
    job = begun(make_job)
    (said,) = checkpoint(job, 1, sent=10, arrived=8)
    assert said == (
        'the rows of the job do not add up at checkpoint 1: operator "out": 10 rows were sent to it, and 8 have arrived: '
        "2 are missing"
    )
    assert measure_job(job.master).total["numLedgerDifferences"] == 1
    assert any(line.endswith(said) for line in job.master.story.lines())


def test_a_difference_that_stays_is_not_noted_again_and_one_that_grows_is(make_job: MakeJob) -> None:
    job = begun(make_job)
    assert len(checkpoint(job, 1, sent=10, arrived=10, lost_in_sink=1)) == 1
    job.committed(1)
    (said,) = checkpoint(job, 2, sent=10, arrived=10, lost_in_sink=2)
    assert said.endswith("of 10 rows in 2 are missing: done 8, filtered 0")
    job.committed(2)
    assert checkpoint(job, 3, sent=10, arrived=10, lost_in_sink=2) == []


def test_the_rows_of_a_job_that_has_finished_are_added_up_without_a_checkpoint(make_job: MakeJob) -> None:
    for arrived, noted in ((7, 0), (6, 1)):
        job = Master(make_job("j1", 1, 1))
        job.out = []
        for name, figures in (
            ("j1-0-0-0", {SOURCE: {"numRecordsIn": 7, "numRecordsOut": 7}}),
            (
                "j1-1-0-0",
                {SINK: {"numRecordsIn": arrived, "numRecordsDone": arrived, "numRecordsInPerSecond": 1.5}},
            ),
        ):
            finish(job, name, figures)
        job.committed(LAST_CHECKPOINT_ID)
        assert job.master.status is JobStatus.FINISHED
        ledger = job.master.checkpoints.statistics().ledger
        assert ledger is not None
        assert (ledger.checkpoint_id, ledger.is_balanced) == (0, not noted)
        assert len([n for n in job.taken(Noted) if "do not add up at its end" in n.text]) == noted


def test_rows_that_wait_in_the_savepoint_of_a_stopped_job_are_not_missing_at_its_end(
    make_job: MakeJob,
) -> None:
    """The last figures of the tasks do not have them; those of the savepoint do."""
    for is_drain, checkpoint_id in ((False, 1), (True, 0)):
        job = begun(make_job)
        job.handle(SavepointRequested("j1", "t1", CheckpointKind.SYNC_SAVEPOINT, "/sp/a", is_drain=is_drain))
        assert checkpoint(job, 1, sent=10, arrived=10) == []
        for name, figures in (
            ("j1-0-0-0", {SOURCE: {"numRecordsIn": 10, "numRecordsOut": 10}}),
            ("j1-1-0-0", {SINK: {"numRecordsIn": 10, "numRecordsDone": 8}}),
        ):
            finish(job, name, figures, ExecutionState.CANCELED)
        job.committed(1)
        job.handle(SinksAborted("j1"))
        assert job.master.status is JobStatus.FINISHED
        ledger = job.master.checkpoints.statistics().ledger
        assert ledger is not None
        assert (ledger.checkpoint_id, ledger.is_balanced) == (checkpoint_id, not is_drain)


def finish(
    job: Master,
    name: str,
    figures: dict[int, Counted],
    state: ExecutionState = ExecutionState.FINISHED,
) -> None:
    subtask = job.master.graph.find(name)
    assert subtask is not None
    update = TaskStateUpdate(
        job.place_of(name),
        "j1",
        name,
        subtask.execution.last_sequence + 1,
        state,
        metrics=TaskMetrics(name, {}, figures),
    )
    job.handle(TaskStateChanged(update))


def sink_entry(graph: JobGraph, source: SubtaskState, sink: SubtaskState) -> LedgerEntry:
    states = {graph.vertices[0].id: (source,), graph.vertices[1].id: (sink,)}
    ledger = job_ledger(graph, states, 1, 0)
    assert ledger is not None
    return ledger.entries[1]


def test_rows_under_way_are_not_lost(make_job: MakeJob) -> None:
    queued = InFlightItems(True, 0, 0, (3,))
    arriving = InFlightItems(False, 0, 0, (1, 1))
    source = replace(counted(SOURCE, read=10, emitted=10), in_flight=(queued,))
    sink = replace(counted(SINK, read=5, done=5), in_flight=(arriving,))
    entry = sink_entry(make_job(), source, sink)
    assert (entry.sent, entry.in_flight, entry.lost) == (10, 5, 0)


def join_entry(make_job: MakeJob, spec: OperatorSpec, **figures: int) -> LedgerEntry:
    """Names of figures have `_` for the dot before a side."""
    graph = make_job()
    source, sink = graph.vertices
    join = replace(sink.operators[0], spec=spec)
    graph = replace(graph, vertices=(source, replace(sink, operators=(join,))))
    named = {name.replace("_", "."): rows for name, rows in figures.items()}
    rows = figures.get("numRecordsIn", 0)
    return sink_entry(graph, counted(SOURCE, read=rows, emitted=rows), counted(SINK, **named))


JOIN = JoinSpec(JoinKind.INNER, (0,), (0,))
MET = {"numRecordsIn": 12, "numRecordsIn_left": 7, "numRecordsIn_right": 5, "heldRows_left": 4}
GONE = {"numRecordsDone_left": 1, "numRecordsExpired_left": 2, "numRecordsRetracted_right": 4}


def test_each_side_of_a_join_adds_up_by_itself(make_job: MakeJob) -> None:
    entry = join_entry(make_job, JOIN, **MET, **GONE, heldRows_right=1)
    assert entry.is_balanced
    assert [(side.name, side.rows_in, side.parts) for side in entry.sides] == [
        ("left", 7, {"done": 1, "held": 4, "expired": 2}),
        ("right", 5, {"held": 1, "retracted": 4}),
    ]
    lost = join_entry(make_job, JOIN, **MET, **GONE)
    assert [side.difference for side in lost.sides] == [0, 1]
    assert difference_text(lost) == "right: of 5 rows in 1 is missing: done 0, held 0, expired 0, retracted 4"
    # Too many on one side do not make up for one that is missing on the other.
    both = join_entry(make_job, JOIN, **{**MET, "heldRows_left": 5}, **GONE)
    assert [side.difference for side in both.sides] == [-1, 1]
    assert not both.is_balanced


def test_rows_that_waited_in_the_savepoint_of_another_job_have_come_to_their_side(make_job: MakeJob) -> None:
    entry = join_entry(make_job, JOIN, numRecordsRestored_left=3, heldRows_left=3)
    assert entry.is_balanced
    assert balance_text(entry.sides[0]) == "rows in + restored = done + held + expired + retracted"


def test_sides_of_which_an_earlier_release_counted_nothing_are_not_compared(make_job: MakeJob) -> None:
    assert join_entry(make_job, JOIN, **{**MET, "numRecordsIn": 112}).sides == ()


def test_a_side_of_which_each_subtask_has_all_rows_is_not_compared(make_job: MakeJob) -> None:
    broadcast = WindowJoinSpec(JoinKind.INNER, (0,), (0,), 1, 1, 1, 1, broadcast_input=1)
    assert join_entry(make_job, broadcast, **MET).sides == ()
    assert len(join_entry(make_job, replace(broadcast, broadcast_input=-1), **MET).sides) == 2


def test_copies_of_a_broadcast_are_rows_that_are_sent(make_job: MakeJob) -> None:
    graph = make_job("j1", 1, 3, ExchangeKind.BROADCAST)
    (edge,) = graph.edges
    source = counted(SOURCE, read=10, emitted=10, **{f"numRecordsCopied.{edge.id}": 20})
    assert sink_entry(graph, source, counted(SINK, read=30, done=30)).is_balanced
    assert sink_entry(graph, source, counted(SINK, read=29, done=29)).lost == 1


def test_rows_that_may_come_again_are_not_compared(make_job: MakeJob) -> None:
    graph = make_job(config={"execution.checkpointing.mode": "AT_LEAST_ONCE"})
    entry = sink_entry(graph, counted(SOURCE, read=10, emitted=10), counted(SINK, read=12, done=12))
    assert (entry.sent, entry.lost, entry.is_balanced) == (None, 0, True)


def test_a_job_whose_rows_another_engine_counts_has_no_ledger(make_job: MakeJob) -> None:
    graph = make_job()
    source = graph.vertices[0]
    query = replace(source.operators[0], spec=BatchQuerySpec("duckdb", "SELECT 1"))
    vertices = (replace(source, operators=(query,)), *graph.vertices[1:])
    assert job_ledger(replace(graph, vertices=vertices), {}, 1, 0) is None
