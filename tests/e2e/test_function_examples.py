"""The examples of DESCRIBE FUNCTION give what they say."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from command_harness import sqlstream

from sqlstream.functions import (
    AGGREGATE_FUNCTIONS,
    CALLABLE,
    REWRITTEN_AGGREGATES,
    REWRITTEN_SCALARS,
    SCALAR_FUNCTIONS,
)
from sqlstream.functions.signature import AGGREGATED, DescribedFunction

SCALARS = {n: f for n, f in CALLABLE.items() if n in (SCALAR_FUNCTIONS | REWRITTEN_SCALARS)}
AGGREGATES = {n: f for n, f in CALLABLE.items() if n in (AGGREGATE_FUNCTIONS | REWRITTEN_AGGREGATES)}


def check(functions: Mapping[str, DescribedFunction], source: str, settings: str = "") -> None:
    examples = {name: f for name, f in functions.items() if f.example}
    columns = ", ".join(f"{f.example} AS `{name}`" for name, f in examples.items())
    done = sqlstream("run", "--quiet", "--format", "csv", "-c", f"{settings}SELECT {columns}{source}")
    assert done.returncode == 0, done.stderr
    names, values = csv.reader(io.StringIO(done.stdout))
    assert dict(zip(names, values, strict=True)) == {name: f.value for name, f in examples.items()}


def test_every_example_of_a_scalar_function_gives_its_value() -> None:
    check(SCALARS, "")


def test_every_example_of_an_aggregate_function_gives_its_value() -> None:
    check(AGGREGATES, f" FROM {AGGREGATED}")
