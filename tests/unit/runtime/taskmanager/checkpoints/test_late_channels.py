"""Tests of the names of channels that a checkpoint waited for."""

from __future__ import annotations

import msgspec

from sqlstream.changelog import ChangelogMode
from sqlstream.graph.job_graph import JobEdge, JobVertex
from sqlstream.graph.stream_graph import FORWARD
from sqlstream.messages.rpc import (
    InputChannelDescriptor,
    InputGateDescriptor,
    LateChannel,
    TaskDeploymentDescriptor,
)
from sqlstream.runtime.taskmanager.checkpoints.barrier_round import late_channels
from sqlstream.schema import Schema


def gate(source: str, *subtasks: int) -> InputGateDescriptor:
    edge = JobEdge(0, source, 0, "v", 0, FORWARD, Schema(()), ChangelogMode.INSERT_ONLY)
    return InputGateDescriptor(
        edge, tuple(InputChannelDescriptor("p", 0, n, "e", "tm", "a") for n in subtasks)
    )


TASK = TaskDeploymentDescriptor(
    "j", "job", JobVertex("v", "join", (), 1, 128), 0, 0, "e", "a", (gate("left", 2, 3), gate("right", *range(9))), (), ""
)  # fmt: skip


def test_channels_have_the_names_of_their_producers_and_the_latest_stands_first() -> None:
    assert late_channels(TASK, {0: 0, 1: 7, 2: 1, 10: 9}) == (
        LateChannel("right", 8, 9),
        LateChannel("left", 3, 7),
        LateChannel("right", 0, 1),
    )


def test_there_are_eight_at_most_and_none_that_was_not_late() -> None:
    assert late_channels(TASK, dict.fromkeys(range(11), 5)) == (
        *(LateChannel("left", n, 5) for n in (2, 3)),
        *(LateChannel("right", n, 5) for n in range(6)),
    )
    assert late_channels(TASK, dict.fromkeys(range(11), 0)) == ()
    assert late_channels(msgspec.structs.replace(TASK, inputs=()), {}) == ()
