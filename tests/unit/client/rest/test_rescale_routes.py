"""Requests for another parallelism, and what is said of them."""

import pytest
from msgspec.structs import replace
from plan_harness import compile_script

from sqlstream.errors import ErrorInfo
from sqlstream.messages.rescale import AutoscalerStatus, RescaleStep, ScalingDecision, VertexLoad

RUNNING_ID = "a" * 32
TRIGGER = "0" * 31 + "a"
(PLAN,) = compile_script(
    """CREATE TABLE s (k BIGINT, v BIGINT) WITH ('connector' = 'stream', 'scan.parallelism' = '1');
    CREATE TABLE console (k BIGINT, c BIGINT) WITH ('connector' = 'print');
    INSERT INTO console SELECT k, count(*) FROM s GROUP BY k""",
    {"parallelism.default": "2"},
)
SOURCE, COUNTS = (v.id for v in PLAN.job_graph.vertices)


@pytest.fixture(autouse=True)
def plan(cluster):
    """A source of one subtask, and an aggregate."""
    cluster.planned = PLAN.job_graph


def test_a_rescale_is_begun_and_asked_for_by_its_trigger(cluster, rest):
    path = f"/jobs/{RUNNING_ID}/rescaling"
    answer = rest.patch(f"{path}?parallelism=4&triggerId={TRIGGER}")
    assert (answer.status_code, answer.json()) == (202, {"request-id": TRIGGER})
    assert cluster.rescaled == {TRIGGER: [1, 4]}
    assert rest.get(f"{path}/{TRIGGER}").json() == {
        "status": {"id": "IN_PROGRESS", "step": "CHECKPOINT"},
        "operation": None,
    }
    cluster.rescale_step = (RescaleStep.DONE, None)
    assert rest.get(f"{path}/{TRIGGER}").json() == {
        "status": {"id": "COMPLETED", "step": "DONE"},
        "operation": {"parallelism": 4, "earlier": 2},
    }
    cluster.rescale_step = (RescaleStep.DONE, ErrorInfo("SS6233", "too few slots"))
    failed = rest.get(f"{path}/{TRIGGER}").json()["operation"]["failure-cause"]
    assert failed["class"] == "SS6233"
    assert "too few slots" in failed["stack-trace"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 400),
        ("?parallelism=0", 400),
        ("?parallelism=-1", 400),
        ("?parallelism=129", 400),
        ("?parallelism=4&triggerId=mine", 400),
    ],
)
def test_a_parallelism_that_cannot_be_is_refused(cluster, rest, query, status):
    assert rest.patch(f"/jobs/{RUNNING_ID}/rescaling{query}").status_code == status
    assert cluster.rescaled == {}


def test_an_unknown_trigger_and_an_unknown_job_are_not_found(rest):
    assert rest.get(f"/jobs/{RUNNING_ID}/rescaling/{TRIGGER}").status_code == 404
    assert rest.patch(f"/jobs/{'e' * 32}/rescaling?parallelism=2").status_code == 404


def bounds(lower, upper):
    return {"parallelism": {"lowerBound": lower, "upperBound": upper}}


@pytest.mark.parametrize(
    ("wanted", "vertices"), [(8, [1, 8]), (1, [1])], ids=["raised", "lowered to one task"]
)
def test_a_vertex_whose_upper_bound_changes_takes_the_job_there(cluster, rest, wanted, vertices):
    path = f"/jobs/{RUNNING_ID}/resource-requirements"
    assert rest.get(path).json() == {SOURCE: bounds(1, 1), COUNTS: bounds(1, 2)}
    answer = rest.put(path, json={SOURCE: bounds(1, 1), COUNTS: bounds(1, wanted)})
    assert (answer.status_code, answer.json()) == (200, {})
    assert list(cluster.rescaled.values()) == [vertices]


def test_one_vertex_of_several_is_raised_with_the_others_as_they_are(cluster, rest):
    (plan,) = compile_script(
        """CREATE TABLE s (k BIGINT, v BIGINT) WITH ('connector' = 'stream');
        CREATE TABLE console (k BIGINT, c BIGINT) WITH ('connector' = 'print');
        INSERT INTO console SELECT k, count(*) FROM s GROUP BY k""",
        {"parallelism.default": "2"},
    )
    cluster.planned = plan.job_graph
    first, second = (v.id for v in plan.job_graph.vertices)
    path = f"/jobs/{RUNNING_ID}/resource-requirements"
    answer = rest.put(path, json={first: bounds(1, 2), second: bounds(1, 3)})
    assert (answer.status_code, list(cluster.rescaled.values())) == (200, [[3, 3]])
    answer = rest.put(path, json={first: bounds(1, 4), second: bounds(1, 3)})
    assert (answer.status_code, "not from 1 to 3" in answer.text) == (400, True)


@pytest.mark.parametrize(
    "body",
    [
        {COUNTS: bounds(1, 4)},
        {SOURCE: bounds(2, 2), COUNTS: bounds(1, 4)},
        {SOURCE: bounds(1, 1), COUNTS: bounds(5, 4)},
        {SOURCE: {}, COUNTS: {}},
        {SOURCE: bounds(1, 1), COUNTS: bounds(1, 0)},
    ],
    ids=["a vertex is missing", "a fixed one differs", "no number is between", "no bounds", "none"],
)
def test_bounds_that_no_parallelism_has_are_refused(cluster, rest, body):
    answer = rest.put(f"/jobs/{RUNNING_ID}/resource-requirements", json=body)
    assert (answer.status_code, cluster.rescaled) == (400, {})


def test_what_the_autoscaler_has_measured_and_decided_is_told(cluster, rest):
    path = f"/jobs/{RUNNING_ID}/autoscaler"
    assert rest.get(path).json() == {"enabled": False, "vertices": [], "decisions": []}
    status = AutoscalerStatus(
        2,
        (VertexLoad("v", 2, True, 0.9, 0.1),),
        120.5,
        7.0,
        (ScalingDecision(1_700_000_000_000, 2, 3, "it is busy", True),),
    )
    cluster.found[RUNNING_ID] = replace(cluster.found[RUNNING_ID], autoscaler=status)
    assert rest.get(path).json() == {
        "enabled": True,
        "parallelism": 2,
        "recordsPerSecond": 120.5,
        "pendingRecords": 7.0,
        "vertices": [{"name": "v", "parallelism": 2, "busyRatio": 0.9, "backpressuredRatio": 0.1}],
        "decisions": [
            {
                "timestamp": 1_700_000_000_000,
                "parallelism": 2,
                "wanted": 3,
                "applied": True,
                "reason": "it is busy",
            }
        ],
    }
    assert rest.get(f"/jobs/{'e' * 32}/autoscaler").status_code == 404
