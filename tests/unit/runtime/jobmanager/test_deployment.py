"""The two ends of every channel."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.runtime.jobmanager.deployment import Deployment, consumers_of, describe_tasks
from sqlstream.runtime.jobmanager.execution_graph import ExecutionGraph
from sqlstream.runtime.story import Story
from sqlstream.schema import Schema
from sqlstream.specs import IterateSpec, MutualIterateSpec

MakeJob = Callable[..., JobGraph]


@pytest.mark.parametrize("producers", range(1, 8))
@pytest.mark.parametrize("consumers", range(1, 8))
def test_rescale_feeds_every_consumer_and_wastes_no_producer(producers: int, consumers: int) -> None:
    fed = [consumers_of(ExchangeKind.RESCALE, p, producers, consumers) for p in range(producers)]
    assert all(fed)
    flat = sorted(c for f in fed for c in f)
    assert set(flat) == set(range(consumers))
    assert len(flat) == max(producers, consumers)


@pytest.mark.parametrize(
    ("exchange", "sources", "sinks"),
    [
        (ExchangeKind.HASH, 2, 3),
        (ExchangeKind.FORWARD, 3, 3),
        (ExchangeKind.RESCALE, 2, 5),
        (ExchangeKind.RESCALE, 5, 2),
        (ExchangeKind.SINGLETON, 4, 1),
        (ExchangeKind.BROADCAST, 1, 4),
    ],
)
def test_what_one_end_writes_the_other_reads(
    make_job: MakeJob, exchange: ExchangeKind, sources: int, sinks: int
) -> None:
    graph = ExecutionGraph(make_job("j", sources, sinks, exchange), 0, Story())
    for n, execution in enumerate(graph.executions()):
        execution.task_manager_id, execution.address = f"tm{n}#0", f"tm{n}:1"
    tasks = describe_tasks(graph, graph.subtasks(), Deployment("jm:1", lambda s: None))
    written = {
        (partition.partition_id, i, execution.address, c.execution_id, c.address)
        for execution in graph.executions()
        for partition in tasks[execution.execution_id].outputs
        for i, c in enumerate(partition.consumers)
    }
    read = {
        (c.partition_id, c.subpartition, c.address, execution.execution_id, execution.address)
        for execution in graph.executions()
        for gate in tasks[execution.execution_id].inputs
        for c in gate.channels
    }
    assert written == read
    assert all(t.result_address == "jm:1" for t in tasks.values())


def test_forward_stays_with_its_subtask(make_job: MakeJob) -> None:
    graph = ExecutionGraph(make_job("j", 2, 2, ExchangeKind.FORWARD), 0, Story())
    tasks = describe_tasks(graph, graph.subtasks(), Deployment("", lambda s: None))
    assert [c.subtask for c in tasks["j-1-1-0"].inputs[0].channels] == [1]
    assert tasks["j-0-1-0"].outputs[0].subpartitions == 1


@pytest.mark.parametrize(
    "spec",
    [
        IterateSpec("r", (), (0,), True, False, True, True, ((0,),)),
        MutualIterateSpec(("r",), (Schema(()),), (), ((0,),), (0,), 0, False, placements=((0,), (0,))),
    ],
)
def test_each_subtask_of_a_recursive_query_reads_from_all_others(
    make_job: MakeJob, spec: IterateSpec | MutualIterateSpec
) -> None:
    job = make_job("j", 2, 3, ExchangeKind.HASH)
    *others, last = job.vertices
    head = replace(last.operators[0], spec=spec)
    job = replace(job, vertices=(*others, replace(last, operators=(head, *last.operators[1:]))))
    graph = ExecutionGraph(job, 0, Story())
    for n, execution in enumerate(graph.executions()):
        execution.task_manager_id, execution.address = f"tm{n}#0", f"tm{n}:1"
    tasks = describe_tasks(graph, graph.subtasks(), Deployment("jm:1", lambda s: None)).values()
    peers = [task for task in tasks if task.vertex.id == last.id]
    ids = {task.subtask: task.peers_id for task in peers}
    assert len(set(ids.values())) == 3
    for task in peers:
        assert {(c.subtask, c.partition_id) for c in task.peers} == ids.items() - {
            (task.subtask, task.peers_id)
        }
        assert {c.subpartition for c in task.peers} == {task.subtask}
    assert [task.peers for task in tasks if task.vertex.id != last.id] == [(), ()]
