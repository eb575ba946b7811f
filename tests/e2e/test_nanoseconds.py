"""Constants with nanoseconds, in the process of the command, where pandas is not loaded."""

from __future__ import annotations

import json

import pytest
from command_harness import sqlstream

NS = "CAST('2024-02-29 01:02:03.123456789' AS TIMESTAMP(9))"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"ARRAY[{NS}]", ["2024-02-29 01:02:03.123456789"]),
        (f"CAST({NS} AS TIMESTAMP_LTZ(9))", "2024-02-29 01:02:03.123456789Z"),
        (f"v IN ({NS}, TIMESTAMP '2024-02-29 01:02:03.123456788')", True),
        (f"v = {NS} AND v > TIMESTAMP '2024-02-29 01:02:03.123456788'", True),
    ],
)
def test_they_are_kept(expression: str, expected: object) -> None:
    done = sqlstream(
        "run", "--format", "json", "-c", f"SELECT {expression} AS x FROM (VALUES ({NS})) AS t(v)"
    )
    assert (done.stderr, json.loads(done.stdout or "null")) == ("", {"x": expected})
