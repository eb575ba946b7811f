"""What the JobManager's REST answers about a running and a failed job."""

import os
import re
import time

import pytest
from msgspec.structs import replace

from sqlstream.client.rest.metrics import job_metrics
from sqlstream.errors import UserError
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobDetails

RUNNING, FAILED, SOURCE, SINK = "a" * 32, "f" * 32, "1" * 32, "2" * 32
VERTEX = f"/jobs/{RUNNING}/vertices/{SOURCE}"


def by_id(answer, key="value"):
    return {entry["id"]: entry[key] for entry in answer.json()}


def test_the_overview_counts_jobs_and_slots(rest):
    found = rest.get("/overview").json()
    assert (found["taskmanagers"], found["slots-total"], found["slots-available"]) == (2, 4, 2)
    assert (found["jobs-running"], found["jobs-failed"], found["jobs-finished"]) == (1, 1, 0)


def test_a_job_shows_its_vertices_times_and_counters(rest):
    job = rest.get(f"/jobs/{RUNNING}").json()
    assert (job["state"], job["end-time"], job["timestamps"]["RUNNING"]) == ("RUNNING", -1, 1_700_000_000_015)
    source, sink = job["vertices"]
    assert (source["start-time"], source["status"], source["tasks"]["RUNNING"]) == (
        1_700_000_000_020,
        "RUNNING",
        2,
    )
    assert (source["metrics"]["write-records"], source["metrics"]["write-bytes"]) == (150, 1600)
    assert source["metrics"]["accumulated-backpressured-time"] == 12_000
    assert (sink["metrics"]["read-records"], sink["metrics"]["read-bytes"]) == (150, 1200)
    assert job["plan"]["nodes"][1]["inputs"] == [
        {"num": 0, "id": SOURCE, "ship_strategy": "GLOBAL", "exchange": "pipelined_bounded"}
    ]


@pytest.mark.parametrize(
    "path",
    [
        f"/jobs/{RUNNING}",
        f"/jobs/{RUNNING}/diagnosis",
        VERTEX,
        *(f"{VERTEX}/{rest}" for rest in ("metrics", "watermarks", "subtasks/metrics", "subtasks/0/metrics")),
    ],
)
def test_a_job_that_is_rescaled_is_described_as_of_one_moment(rest, cluster, path):
    """Rescaling can give the job other vertices, between a question about its tasks and one about its plan."""
    later = replace(cluster.job_graph(RUNNING), vertices=(), edges=())
    cluster.job_graph = lambda job_id: later
    assert rest.get(path).status_code == 200


def test_names_in_a_plans_description_are_escaped(rest):
    nodes = rest.get(f"/jobs/{RUNNING}/plan").json()["plan"]["nodes"]
    assert nodes[0]["description"] == "Source: bids[1](&lt;x&gt;)<br/>"


def test_a_failed_job_names_its_cause_and_the_task_that_failed(rest):
    history = rest.get(f"/jobs/{FAILED}/exceptions").json()["exceptionHistory"]
    (entry,) = history["entries"]
    assert entry["stacktrace"] == "error[SS5003]: division by zero"
    assert (entry["taskName"], entry["taskManagerId"]) == ("Source: bids (1/2)", "tm-1-1")
    assert entry["timestamp"] == 1_700_000_005_000
    assert history["truncated"] is False
    other = rest.get(f"/jobs/{FAILED}/exceptions?failureLabelFilter=reason:EXTERNAL").json()
    assert other["exceptionHistory"]["entries"] == []
    none = rest.get(f"/jobs/{FAILED}/exceptions?maxExceptions=0").json()["exceptionHistory"]
    assert none == {"entries": [], "truncated": True}


def test_the_result_of_a_failed_job_has_its_cause(rest):
    result = rest.get(f"/jobs/{FAILED}/execution-result").json()["job-execution-result"]
    assert result["application-status"] == "FAILED"
    assert result["failure-cause"]["stack-trace"] == "error[SS5003]: division by zero"


def test_backpressure_is_the_share_of_time_that_the_outputs_are_full(rest):
    found = rest.get(VERTEX + "/backpressure").json()
    assert (found["status"], found["backpressureLevel"], found["backpressure-level"]) == (
        "ok",
        "high",
        "high",
    )
    ratios = [(s["ratio"], s["idleRatio"], s["busyRatio"]) for s in found["subtasks"]]
    assert ratios == [(0.6, 0.1, 0.3), (0.6, 0.1, 0.3)]
    assert rest.get(f"/jobs/{FAILED}/vertices/{SOURCE}/backpressure").json()["status"] == "deprecated"


def test_a_vertex_without_a_watermark_shows_the_smallest_one(rest):
    assert by_id(rest.get(f"/jobs/{RUNNING}/vertices/{SINK}/watermarks")) == {
        "0.currentInputWatermark": "1699999999000"
    }
    assert by_id(rest.get(VERTEX + "/watermarks"))["1.currentInputWatermark"] == str(-(2**63))


def test_metrics_are_listed_by_subtask_and_operator_and_read_as_texts(rest):
    ids = {entry["id"] for entry in rest.get(VERTEX + "/metrics").json()}
    assert {"0.numRecordsOut", "1.numRecordsOut", "0.Source__bids[1].numRecordsIn"} <= ids
    found = rest.get(VERTEX + "/metrics?get=0.numRecordsOut,1.numRecordsOut,2.numRecordsOut").json()
    assert found == [{"id": "0.numRecordsOut", "value": "100"}, {"id": "1.numRecordsOut", "value": "50"}]
    assert by_id(rest.get(VERTEX + "/subtasks/1/metrics?get=numRecordsOut")) == {"numRecordsOut": "50"}


def test_metrics_are_aggregated_over_subtasks(rest):
    url = VERTEX + "/subtasks/metrics"
    assert rest.get(url + "?get=numRecordsOut").json() == [
        {
            "id": "numRecordsOut",
            "min": 50.0,
            "max": 100.0,
            "avg": 75.0,
            "sum": 150.0,
            "skew": pytest.approx(100 / 3),
        }
    ]
    assert rest.get(url + "?get=numRecordsOut&agg=max,sum&subtasks=1").json() == [
        {"id": "numRecordsOut", "max": 50.0, "sum": 50.0}
    ]
    assert rest.get(url + "?get=numRecordsOut&agg=mode").status_code == 400
    assert {"id": "numRecordsOut"} in rest.get(url).json()


@pytest.mark.parametrize(
    ("status", "down_ms"), [("RESTARTING", 70), ("RECONCILING", 70), ("RUNNING", 0), ("FAILED", -1)]
)
def test_a_job_is_down_while_it_restarts_or_waits_to_be_taken_over_and_not_after_that(status, down_ms):
    entered = {"CREATED": 100, "RESTARTING": 200, "RUNNING": 400, status: 530}
    job = JobDetails(RUNNING, "j", JobStatus(status), 100, -1, entered, ())
    assert job_metrics({}, job, 600)["downtime"] == down_ms


def test_metrics_of_jobs_and_processes_have_flinks_names(rest, cluster):
    assert by_id(rest.get(f"/jobs/{FAILED}/metrics?get=downtime,runningTime,numRestarts")) == {
        "downtime": "-1", "runningTime": "5085", "numRestarts": "0",
    }  # fmt: skip
    assert rest.get("/jobs/metrics?get=numRestarts&agg=max").json() == [{"id": "numRestarts", "max": 1.0}]
    own = by_id(rest.get("/jobmanager/metrics?get=numRunningJobs,taskSlotsTotal,Status.JVM.Threads.Count"))
    assert (own["numRunningJobs"], own["taskSlotsTotal"]) == ("1", "4")
    assert int(own["Status.JVM.Threads.Count"]) >= 1
    first, second = cluster.task_managers()
    cluster.task_managers = lambda: (replace(first, process_id=os.getpid()), second)
    memory = rest.get("/taskmanagers/metrics?get=Status.JVM.Memory.NonHeap.Used&agg=sum").json()[0]["sum"]
    assert memory > 10 * 2**20
    assert rest.get("/taskmanagers/tm-2-1/metrics").json() == []


def test_a_task_manager_shows_the_tasks_and_slots_of_live_jobs_only(rest):
    found = rest.get("/taskmanagers/tm-1-1").json()
    assert (found["assignedTasks"], found["freeSlots"], found["timeSinceLastHeartbeat"]) == (
        2,
        1,
        1_700_000_000_060,
    )
    assert [(s["jobId"], s["assignedTasks"]) for s in found["allocatedSlots"]] == [(RUNNING, 2)]


def test_cancel_reaches_the_cluster(rest, cluster):
    assert rest.patch(f"/jobs/{RUNNING}?mode=cancel").status_code == 202
    assert cluster.cancelled == [RUNNING]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("GET", "/jobs/" + "0" * 32, None, 404, "is not known"),
        ("GET", "/jobs/nonsense", None, 400, 'Cannot resolve path parameter (jobid) from value "nonsense".'),
        ("GET", f"/jobs/{RUNNING}/vertices/{'9' * 32}", None, 404, "not found"),
        ("GET", VERTEX + "/subtasks/2", None, 404, "Invalid subtask index"),
        ("GET", VERTEX + "/subtasks/-1", None, 400, "(subtaskindex)"),
        ("GET", VERTEX + "/subtasks/0/attempts/1", None, 404, "Attempt 1"),
        ("GET", "/taskmanagers/tm-9", None, 404, "tm-9"),
        ("GET", f"/jobs/{RUNNING}/exceptions?maxExceptions=x", None, 400, "(maxExceptions)"),
        ("PATCH", f"/jobs/{FAILED}?mode=cancel", None, 409, "already reached another terminal state (FAILED)"),
        ("PATCH", f"/jobs/{RUNNING}?mode=stop", None, 410, "has been removed"),
        ("PATCH", f"/jobs/{RUNNING}?mode=kill", None, 400, "(mode)"),
        ("POST", f"/jobs/{RUNNING}/stop", b'{"formatType":"AVRO"}', 400, "no format of savepoints"),
        ("POST", f"/jobs/{FAILED}/stop", b"{}", 409, "already reached another terminal state (FAILED)"),
        ("POST", f"/jobs/{RUNNING}/stop", b'{"drain":', 400, "Bad request"),
        ("POST", f"/jobs/{RUNNING}/stop", b"x" * 70_000, 413, "exceeded 65536 bytes"),
        ("GET", f"/jobs/{RUNNING}/savepoints/{'0' * 32}", None, 404, "is not known"),
        ("GET", f"/jobs/{RUNNING}/savepoints/x", None, 400, "(triggerid)"),
        ("POST", f"/jobs/{FAILED}/savepoints", b"{}", 409, "already reached another terminal state (FAILED)"),
        ("POST", f"/jobs/{RUNNING}/savepoints", b'{"triggerId":"mine"}', 400, "32 hexadecimal digits"),
        ("POST", f"/jobs/{RUNNING}/checkpoints", b'{"checkpointType":"FULL"}', 501, "CONFIGURED"),
        ("GET", f"/jobs/{RUNNING}/checkpoints/details/1", None, 404, "statistics for checkpoint 1"),
        ("GET", f"/jobs/{RUNNING}/checkpoints/details/7/subtasks/{'9' * 32}", None, 404, "for task 999"),
        ("POST", "/savepoint-disposal", b"{}", 400, "savepoint-path"),
        ("GET", f"/savepoint-disposal/{'0' * 32}", None, 404, "no operation"),
        ("POST", "/jars/upload", b"", 501, "JAR"),
    ],
)  # fmt: skip
def test_a_bad_request_gets_flinks_error_body(rest, cluster, method, path, body, status, words):
    answer = rest.request(method, path, content=body)
    assert answer.status_code == status
    assert list(answer.json()) == ["errors"]
    assert words in answer.json()["errors"][0]
    assert cluster.cancelled == []


def test_a_client_that_deletes_the_cluster_shuts_it_down_at_both_paths(rest, cluster):
    for times, path in enumerate(("/cluster", "/v1/cluster"), start=1):
        answer = rest.delete(path)
        assert (answer.status_code, answer.json(), cluster.shut_downs) == (200, {}, times)


def test_threads_of_the_job_manager_show_their_stacks(rest):
    found = rest.get("/jobmanager/thread-dump").json()["threadInfos"]
    assert any("thread_stacks" in thread["stringifiedThreadInfo"] for thread in found)


def test_a_task_manager_shows_its_log_and_the_stacks_of_its_threads(rest):
    assert rest.get("/taskmanagers/tm-1-1/logs").json()["logs"][0]["name"] == "taskmanager.log"
    assert rest.get("/taskmanagers/tm-1-1/log").text == "records of tm-1\n"
    assert rest.get("/taskmanagers/tm-1-1/logs/taskmanager.log").text == "records of tm-1\n"
    assert rest.get("/taskmanagers/tm-1-1/logs/other").status_code == 404
    assert rest.get("/taskmanagers/tm-9-1/log").status_code == 404
    assert rest.get("/taskmanagers/tm-2-1/thread-dump").json() == {
        "threadInfos": [{"threadName": "main of unix:/run/tm-2", "stringifiedThreadInfo": "  File …"}]
    }
    assert rest.get("/jobmanager/stdout").text == "rows of print tables\n"


def test_a_flame_graph_counts_samples_by_call_and_by_use_of_the_processor(own_rest):
    rest = own_rest
    path = f"/jobs/{RUNNING}/vertices/{'1' * 32}/flamegraph"
    assert rest.get(path).json() == {"endTimestamp": -1, "data": None}
    deadline_s = time.monotonic() + 240
    while (found := rest.get(path).json())["data"] is None:
        assert time.monotonic() < deadline_s
    read = {"name": "read", "value": 8, "children": []}
    assert found["data"] == {
        "name": "root",
        "value": 20,
        "children": [{"name": "run", "value": 20, "children": [read]}],
    }
    on_cpu = rest.get(f"{path}?type=ON_CPU&subtaskindex=1").json()["data"]
    assert (on_cpu["value"], on_cpu["children"][0]["children"][0]["value"]) == (3, 3)
    assert rest.get(f"{path}?type=off_cpu&subtaskindex=0").json()["data"]["value"] == 7
    assert rest.get(f"{path}?type=other").status_code == 400
    assert rest.get(f"{path}?subtaskindex=7").status_code == 404


def test_a_job_is_cancelled_by_the_button_of_the_dashboard(cluster, rest):
    assert rest.get(f"/jobs/{RUNNING}/yarn-cancel").status_code == 202
    assert cluster.cancelled == [RUNNING]


def test_a_job_has_no_stream_graph_that_the_dashboard_would_draw(rest):
    # Flink's dashboard reads the nodes of every stream graph that is not null.
    assert rest.get(f"/jobs/{RUNNING}").json()["stream-graph"] is None


def test_secrets_are_masked(rest):
    shown = {entry["key"]: entry["value"] for entry in rest.get("/jobmanager/config").json()}
    assert shown == {"rest.port": "8081", "s3.secret-key": "******"}


def test_only_files_of_the_log_directory_are_served(cluster, tmp_path):
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    from sqlstream.client.rest.app import ServerInfo, rest_routes

    logs = tmp_path / "log"
    logs.mkdir()
    (logs / "server.log").write_text("started\n")
    (tmp_path / "token").write_text("hunter2")
    (logs / "link").symlink_to(tmp_path / "token")
    app = FastAPI()
    app.include_router(rest_routes(cluster, ServerInfo("0.1.0", log_directory=logs), lambda: None))
    rest = TestClient(app)
    assert [log["name"] for log in rest.get("/jobmanager/logs").json()["logs"]] == ["server.log"]
    assert rest.get("/jobmanager/logs/server.log").text == "started\n"
    assert rest.get("/jobmanager/log").text == "started\n"
    for name in ("link", "..%2Ftoken", "token"):
        assert rest.get(f"/jobmanager/logs/{name}").status_code == 404


def test_prometheus_reads_metrics_under_the_names_of_flinks_reporter(rest, cluster):
    cluster.calls = 0
    answer = rest.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.text.splitlines()
    assert any(
        line.startswith('flink_jobmanager_numRunningJobs{host="') and line.endswith("} 1.0") for line in lines
    )
    (busy,) = [
        line for line in lines
        if line.startswith("flink_taskmanager_job_task_busyTimeMsPerSecond{") and 'task_name="Sink:_out"' in line
    ]  # fmt: skip
    assert f'job_id="{RUNNING}",job_name="insert_into_out",task_id="{SINK}"' in busy
    assert 'subtask_index="0"' in busy
    assert busy.endswith("} 50.0")
    assert any(
        line.startswith("flink_taskmanager_job_task_operator_numRecordsIn{")
        and 'operator_name="Source:_bids_1_"' in line
        and line.endswith("} 100.0")
        for line in lines
    )
    (pending,) = [line for line in lines if line.startswith("flink_taskmanager_job_task_operator_split_")]
    assert pending.startswith("flink_taskmanager_job_task_operator_split_pendingRecords{")
    assert pending.endswith(',split="my_topic_0",} 7.0')
    assert "# TYPE flink_taskmanager_job_task_busyTimeMsPerSecond gauge" in lines
    assert "# TYPE flink_taskmanager_job_task_operator_numRecordsIn counter" in lines
    assert "# TYPE flink_jobmanager_numRunningJobs gauge" in lines
    assert any(line.startswith("flink_jobmanager_job_uptime{") for line in lines)
    assert FAILED not in answer.text
    # Three lists, two of them twice, and details and plan of the one live job.
    assert cluster.calls <= 7


def test_prometheus_reads_the_others_when_a_job_is_forgotten_meanwhile(rest, cluster, monkeypatch):
    def forgotten(job_id):
        raise UserError("SS6009", f'job "{job_id}" is not known')

    for name in ("metrics", "job_graph"):
        with monkeypatch.context() as patched:
            patched.setattr(cluster, name, forgotten)
            answer, listed = rest.get("/metrics"), rest.get("/jobs/metrics")
        assert (answer.status_code, listed.status_code) == (200, 200)
        assert "flink_jobmanager_numRunningJobs" in answer.text
        assert RUNNING not in answer.text


def test_prometheus_has_durations_as_histograms_and_latencies_as_flinks_summaries(rest):
    lines = rest.get("/metrics").text.splitlines()
    name = "flink_jobmanager_job_checkpointDuration"
    assert f"# TYPE {name} histogram" in lines
    found = [line.split(",le=")[-1] for line in lines if line.startswith(f"{name}_bucket")]
    assert found == ['"100",} 1', '"500",} 2', '"+Inf",} 2']
    assert [line.split()[-1] for line in lines if line.startswith((f"{name}_sum", f"{name}_count"))] == [
        "350",
        "2",
    ]
    name = "flink_taskmanager_job_latency_source_id_operator_id_operator_subtask_index_latency"
    assert f"# TYPE {name} summary" in lines
    (p99,) = [line for line in lines if line.startswith(name) and 'quantile="0.99"' in line]
    assert 'source_id="0",operator_id="1",operator_subtask_index="0"' in p99
    assert p99.endswith("} 9.0")
    # Neither stands there a second time, as a gauge of the job or of the operator.
    assert "endToEndLatency_p99" not in "".join(lines)
    assert "operator_source_id" not in "".join(lines)


def test_latencies_are_metrics_of_the_job(rest):
    flinks = "latency.source_id.0.operator_id.1.operator_subtask_index.0.latency_p99"
    assert by_id(rest.get(f"/jobs/{RUNNING}/metrics?get={flinks},endToEndLatency_p99")) == {
        flinks: "9", "endToEndLatency_p99": "9",
    }  # fmt: skip
    names = [m["id"] for m in rest.get(f"/jobs/{RUNNING}/vertices/{SINK}/metrics").json()]
    assert not [name for name in names if "atency" in name]


def test_every_sample_of_a_family_stands_together(rest):
    names = [
        line.split("{")[0] for line in rest.get("/metrics").text.splitlines() if not line.startswith("#")
    ]
    runs = [name for name, before in zip(names, ["", *names], strict=False) if name != before]
    assert len(runs) == len(set(runs))


def test_a_slot_sharing_group_has_an_id_like_all_others(rest) -> None:
    vertices = rest.get(f"/jobs/{RUNNING}").json()["vertices"]
    groups = {vertex["slotSharingGroupId"] for vertex in vertices}
    assert len(groups) == 1
    assert re.fullmatch("[0-9a-f]{32}", groups.pop())
