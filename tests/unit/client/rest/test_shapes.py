"""Every answer has the keys and types of Flink's."""

import json
from pathlib import Path

import pytest

SHAPES = json.loads((Path(__file__).parent / "flink_shapes.json").read_text())
IDS = {
    ":vertexid": "1" * 32,
    ":subtaskindex": "1",
    ":attempt": "0",
    ":taskmanagerid": "tm-1-1",
    ":checkpointid": "7",
}
RUNNING, FAILED = "a" * 32, "f" * 32

# What a job without end or failure lacks in Flink too.
OPTIONAL = {"job-execution-result", "local_strategy", "caching", "data"}
# What only a completed checkpoint has, or one that has failed.
OPTIONAL |= {"external_path", "discarded", "failure_timestamp", "failure_message"}

ANSWERS = [
    (path, job)
    for path in SHAPES
    for job in (RUNNING, FAILED)
    if ":checkpointid" not in path or job == RUNNING
]


ADDED = {"late_channels"}
"""What an answer has beside Flink's fields."""


def differences(shape, value, path="$"):
    """Where a value has another type, a key too many or a key too few."""
    if value is None or shape == "any":
        return []
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{path} is no list"]
        return [d for i, v in enumerate(value) for d in differences(shape[0], v, f"{path}[{i}]")]
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return [f"{path} is no object"]
        if "*" in shape:
            return [d for k, v in value.items() for d in differences(shape["*"], v, f"{path}.{k}")]
        found = [f"{path} has no {k}" for k in shape if k not in value and k not in OPTIONAL]
        found += [f"{path} has {k}" for k in value if k not in shape and k not in ADDED]
        return found + [
            d for k, v in value.items() if k in shape for d in differences(shape[k], v, f"{path}.{k}")
        ]
    kinds = {"integer": int, "string": str, "boolean": bool, "number": (int, float)}
    # Flink's quantiles of nothing are "NaN".
    if shape == "number" and value == "NaN":
        return []
    is_right = isinstance(value, kinds[shape]) and (shape == "boolean" or not isinstance(value, bool))
    return [] if is_right else [f"{path} is {value!r}, no {shape}"]


@pytest.mark.parametrize(("path", "job_id"), ANSWERS)
def test_the_answer_has_the_shape_of_flinks(rest, path, job_id):
    url = path.replace(":jobid", job_id).replace(":applicationid", job_id)
    for name, value in IDS.items():
        url = url.replace(name, value)
    answer = rest.get(url)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"
    assert differences(SHAPES[path], answer.json()) == []


def test_a_difference_is_found():
    assert differences({"a": "integer", "b": ["string"]}, {"a": "1", "b": [2], "c": 0}) == [
        "$ has c",
        "$.a is '1', no integer",
        "$.b[0] is 2, no string",
    ]


def test_every_path_is_also_below_v1(rest):
    assert rest.get("/v1/jobs").json() == rest.get("/jobs").json()
