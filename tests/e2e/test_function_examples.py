"""The examples of DESCRIBE FUNCTION give what they say."""

from __future__ import annotations

import csv
import io

from command_harness import sqlstream

from sqlstream.functions.descriptions import DESCRIPTIONS


def test_every_example_of_a_function_gives_its_value() -> None:
    examples = {name: d for name, d in DESCRIPTIONS.items() if d.example}
    columns = ", ".join(f"{d.example} AS `{name}`" for name, d in examples.items())
    done = sqlstream("run", "--format", "csv", "-c", f"SELECT {columns}")
    assert done.returncode == 0, done.stderr
    names, values = csv.reader(io.StringIO(done.stdout))
    assert dict(zip(names, values, strict=True)) == {name: d.value for name, d in examples.items()}
