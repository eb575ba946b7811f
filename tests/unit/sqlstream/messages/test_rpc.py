"""Messages survive the wire, and nothing else is taken for one."""

from __future__ import annotations

import msgspec
import pytest
from committable_harness import file_of

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import ErrorInfo, FailureReason
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobGraph, JobVertex
from sqlstream.messages.client_rpc import SubmitJob, decode_client_reply, decode_client_request
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.rpc import (
    CancelTask,
    ControlMessage,
    DeployTask,
    JobStatusReply,
    MetricsReport,
    SinkCommittables,
    TaskDeploymentDescriptor,
    TaskMetrics,
    TaskStateUpdate,
    decode_control_message,
    encode_message,
)
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec

SOURCE = ChainedOperator(
    0,
    "uid",
    "bids",
    SourceSpec("bids", "nexmark", {}, Schema(()), ()),
    *(NETWORK_INPUT, (), (), Schema(()), ChangelogMode.INSERT_ONLY),
)
VERTEX = JobVertex("0" * 32, "calc", (SOURCE,), 2, 128)


@pytest.mark.parametrize(
    "message",
    [
        CancelTask("a#0", "j", "e1"),
        DeployTask("a#0", TaskDeploymentDescriptor("j", "job", VERTEX, 1, 0, "e1", "j/1", (), (), "jm:1")),
        TaskStateUpdate(
            "a#0",
            "j",
            "e1",
            3,
            ExecutionState.FAILED,
            ErrorInfo(code="SS5001", message="disk full", reason=FailureReason.EXTERNAL),
            (SinkCommittables(4, (file_of("part-0"),)),),
            TaskMetrics("e1", {"busyTimeMsPerSecond": 12.5}, {4: {"currentInputWatermark": -(2**63)}}),
        ),
        MetricsReport("a#0", 2, {"j": (TaskMetrics("e1", {"numRecordsIn": 2**62}),)}),
    ],
)
def test_a_control_message_comes_back_as_it_was(message: ControlMessage) -> None:
    assert decode_control_message(encode_message(message)) == message


def test_requests_and_replies_come_back_as_they_were() -> None:
    request = SubmitJob(JobGraph("j", "job", (VERTEX,), ()))
    assert decode_client_request(encode_message(request)) == request
    reply = JobStatusReply("j", JobStatus.CANCELLING)
    assert decode_client_reply(encode_message(reply)) == reply


def test_what_is_not_a_message_is_refused() -> None:
    for data in (
        msgspec.msgpack.encode({"type": "Reboot"}),
        encode_message(JobStatusReply("j", JobStatus.FAILED)),
    ):
        with pytest.raises(msgspec.ValidationError):
            decode_control_message(data)


def test_a_task_is_named_as_flink_names_it() -> None:
    task = TaskDeploymentDescriptor("j", "job", VERTEX, 1, 0, "e1", "j/1", (), (), "jm:1")
    assert task.task_name == "calc (2/2)#0"
