"""Checkpoints, savepoints and restarts of a job in Flink's bodies."""

from sqlstream.errors import ErrorInfo
from sqlstream.messages.client_rpc import SavepointStatusReply

RUNNING, FAILED = "a" * 32, "f" * 32
SOURCE, SINK = "1" * 32, "2" * 32
START_MS = 1_700_000_000_000
TRIGGER = "c" * 32


def test_counts_latest_and_history_are_those_of_the_job(rest):
    found = rest.get(f"/jobs/{RUNNING}/checkpoints").json()
    assert found["counts"] == {"restored": 1, "total": 4, "in_progress": 1, "completed": 2, "failed": 1}
    assert [(c["id"], c["status"], c["is_savepoint"]) for c in found["history"]] == [
        (9, "IN_PROGRESS", False),
        (8, "FAILED", False),
        (7, "COMPLETED", False),
        (6, "COMPLETED", True),
    ]
    latest = found["latest"]
    assert (latest["completed"]["id"], latest["savepoint"]["id"], latest["failed"]["id"]) == (7, 6, 8)
    assert latest["completed"]["external_path"] == "/checkpoints/a/chk-7"
    assert latest["restored"] == {
        "id": 3,
        "restore_timestamp": START_MS + 500,
        "is_savepoint": False,
        "external_path": "/checkpoints/a/chk-3",
    }
    assert found["summary"]["state_size"]["max"] == 900
    assert found["summary"]["checkpointed_size"]["avg"] == 400


def test_the_ledger_has_the_rows_of_operators_and_what_is_missing(rest):
    assert rest.get(f"/jobs/{RUNNING}/ledger").json() == {
        "checkpoint": 7,
        "timestamp": START_MS + 1300,
        "balanced": False,
        "operators": [
            {
                "id": 1,
                "name": "Sink: out",
                "vertex-id": SINK,
                "rows-in": 8,
                "rows-out": 0,
                "rows-sent": 10,
                "in-flight": 1,
                "parts": {"done": 7},
                "balance": "rows in = done + filtered",
                "difference": 1,
                "lost": 1,
                "text": "10 rows were sent to it, and 9 have arrived or are in flight: 1 is missing; "
                "of 8 rows in 1 is missing: done 7, filtered 0",
                "sides": [],
            },
            {
                "id": 2,
                "name": "Join",
                "vertex-id": SINK,
                "rows-in": 9,
                "rows-out": 4,
                "rows-sent": None,
                "in-flight": 0,
                "parts": {"held": 8},
                "balance": "",
                "difference": 0,
                "lost": 0,
                "text": "right: of 4 rows in 1 is missing: done 0, held 3",
                "sides": [
                    {
                        "name": "left",
                        "rows-in": 5,
                        "parts": {"held": 5},
                        "balance": "rows in = done + held",
                        "difference": 0,
                        "text": "",
                    },
                    {
                        "name": "right",
                        "rows-in": 4,
                        "parts": {"held": 3},
                        "balance": "rows in = done + held",
                        "difference": 1,
                        "text": "of 4 rows in 1 is missing: done 0, held 3",
                    },
                ],
            },
        ],
    }
    assert rest.get(f"/jobs/{FAILED}/ledger").json() == {
        "checkpoint": None,
        "timestamp": None,
        "balanced": True,
        "operators": [],
    }


def test_a_failed_checkpoint_says_why_and_which_subtask(rest):
    failed = rest.get(f"/jobs/{RUNNING}/checkpoints/details/8").json()
    assert failed["failure_message"] == "Sink: out (1/1): the checkpoint was not acknowledged within 600 ms"
    assert (failed["failure_timestamp"], failed["num_acknowledged_subtasks"]) == (START_MS + 2600, 0)
    (subtask,) = rest.get(f"/jobs/{RUNNING}/checkpoints/details/8/subtasks/{SINK}").json()["subtasks"]
    assert subtask == {"className": "pending", "index": 0, "status": "pending_or_failed"}


def test_details_have_the_figures_of_vertices_and_subtasks(rest):
    found = rest.get(f"/jobs/{RUNNING}/checkpoints/details/7").json()
    assert {id: task["state_size"] for id, task in found["tasks"].items()} == {SOURCE: 900, SINK: 0}
    vertex = rest.get(f"/jobs/{RUNNING}/checkpoints/details/7/subtasks/{SOURCE}").json()
    assert (vertex["checkpointed_size"], vertex["end_to_end_duration"], vertex["num_subtasks"]) == (
        400,
        200,
        2,
    )
    assert vertex["summary"]["checkpoint_duration"]["async"]["max"] == 10
    assert vertex["summary"]["alignment"]["persisted"]["max"] == vertex["persisted_data"] == 128
    assert vertex["subtasks"][1] == {
        "className": "completed", "index": 1, "status": "completed", "ack_timestamp": START_MS + 1200,
        "end_to_end_duration": 200, "checkpointed_size": 300, "state_size": 500,
        "checkpoint": {"sync": 2, "async": 10},
        "alignment": {"buffered": 0, "processed": 0, "persisted": 128, "duration": 0, "late_channels": []},
        "start_delay": 188, "unaligned_checkpoint": True, "aborted": False,
    }  # fmt: skip


def test_a_subtask_names_the_channels_whose_barriers_came_late(rest):
    (sink,) = rest.get(f"/jobs/{RUNNING}/checkpoints/details/7/subtasks/{SINK}").json()["subtasks"]
    late = [{"vertex-id": SOURCE, "subtask": 1, "duration": 20}]
    assert sink["alignment"] == {
        "buffered": 0,
        "processed": 0,
        "persisted": 0,
        "duration": 20,
        "late_channels": late,
    }


def test_a_savepoint_is_triggered_and_its_path_told(rest, cluster):
    body = {
        "target-directory": "/savepoints",
        "cancel-job": False,
        "formatType": "NATIVE",
        "triggerId": TRIGGER,
    }
    assert rest.post(f"/jobs/{RUNNING}/savepoints", json=body).json() == {"request-id": TRIGGER}
    assert cluster.triggered == [("savepoint", RUNNING, TRIGGER, "/savepoints")]
    url = f"/jobs/{RUNNING}/savepoints/{TRIGGER}"
    assert rest.get(url).json() == {"status": {"id": "IN_PROGRESS"}, "operation": None}
    cluster.ends[TRIGGER] = SavepointStatusReply(RUNNING, TRIGGER, True, 6, "/savepoints/savepoint-a")
    assert rest.get(url).json() == {
        "status": {"id": "COMPLETED"},
        "operation": {"location": "/savepoints/savepoint-a"},
    }


def test_a_savepoint_that_failed_tells_its_cause(rest, cluster):
    request_id = rest.post(f"/jobs/{RUNNING}/savepoints").json()["request-id"]
    error = ErrorInfo("SS6212", "no space left")
    cluster.ends[request_id] = SavepointStatusReply(RUNNING, request_id, True, 6, "", error)
    found = rest.get(f"/jobs/{RUNNING}/savepoints/{request_id}").json()
    cause = {"class": "SS6212", "stack-trace": "error[SS6212]: no space left"}
    assert found == {"status": {"id": "COMPLETED"}, "operation": {"failure-cause": cause}}


def test_a_job_is_stopped_with_a_savepoint_and_drained_when_asked(rest, cluster):
    first = rest.post(f"/jobs/{RUNNING}/stop")
    second = rest.post(f"/jobs/{RUNNING}/stop", json={"targetDirectory": "/s", "drain": True})
    third = rest.post(f"/jobs/{RUNNING}/savepoints", json={"cancel-job": True})
    assert [answer.status_code for answer in (first, second, third)] == [202, 202, 202]
    assert [(kind, job, *rest) for kind, job, _, *rest in cluster.triggered] == [
        ("stop", RUNNING, "", False),
        ("stop", RUNNING, "/s", True),
        ("stop", RUNNING, "", False),
    ]
    assert cluster.cancelled == []


def test_a_checkpoint_is_taken_on_request(rest, cluster):
    body = {"checkpointType": "CONFIGURED", "triggerId": TRIGGER}
    assert rest.post(f"/jobs/{RUNNING}/checkpoints", json=body).json() == {"request-id": TRIGGER}
    cluster.ends[TRIGGER] = SavepointStatusReply(RUNNING, TRIGGER, True, 10, "/checkpoints/a/chk-10")
    assert rest.get(f"/jobs/{RUNNING}/checkpoints/{TRIGGER}").json() == {
        "status": {"id": "COMPLETED"},
        "operation": {"checkpointId": 10, "failureCause": None},
    }


def test_a_savepoint_is_disposed_of(rest, cluster):
    def dispose(path):
        answer = rest.post("/savepoint-disposal", json={"savepoint-path": path}).json()
        return rest.get(f"/savepoint-disposal/{answer['request-id']}").json()

    assert dispose("/savepoints/savepoint-a") == {"status": {"id": "COMPLETED"}, "operation": {}}
    assert cluster.triggered == [("disposal", "/savepoints/savepoint-a")]
    assert "no savepoint" in dispose("/etc")["operation"]["failure-cause"]["stack-trace"]


def test_restarts_are_in_the_exception_history_behind_the_cause_of_a_failure(rest):
    (restart,) = rest.get(f"/jobs/{RUNNING}/exceptions").json()["exceptionHistory"]["entries"]
    assert (restart["exceptionName"], restart["taskName"]) == ("SS6006", "Sink: out (1/1)")
    assert restart["timestamp"] == START_MS + 400


def test_metrics_count_restarts_and_checkpoints(rest):
    names = "numRestarts,totalNumberOfCheckpoints,numberOfCompletedCheckpoints"
    found = rest.get(f"/jobs/{RUNNING}/metrics?get={names}").json()
    assert {metric["id"]: metric["value"] for metric in found} == {
        "numRestarts": "1",
        "totalNumberOfCheckpoints": "3",
        "numberOfCompletedCheckpoints": "2",
    }


def test_the_settings_of_a_job_are_told(rest, cluster):
    from msgspec.structs import replace

    config = {
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    job_graph = cluster.job_graph
    cluster.job_graph = lambda job_id: replace(job_graph(job_id), config=config)
    found = rest.get(f"/jobs/{RUNNING}/checkpoints/config").json()
    assert (found["interval"], found["externalization"]) == (
        10_000,
        {"enabled": True, "delete_on_cancellation": False},
    )
    strategy = rest.get(f"/jobs/{RUNNING}/config").json()["execution-config"]["restart-strategy"]
    assert strategy.startswith("Restart with exponential delay: starting at 1000 ms")
