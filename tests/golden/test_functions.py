"""The values of every scalar function over the rows of `function_examples`, as held in functions/, a file for each family.

`tests/differential` compares the same values with those of DuckDB and Spark; here each of them stays what it is.
"""

from __future__ import annotations

import datetime
import functools
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from function_examples import COLUMNS, EXAMPLES, rows
from planner_harness import Planner

from planner.relational.nodes import Project, RelationalNode
from runtime.evaluate import EvaluationContext, compile_expression
from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.functions import (
    arithmetic,
    collection,
    comparison,
    conditional,
    conversion,
    logical,
    string,
    temporal,
)
from sqlstream.functions import hash as hash_functions

ZONE = "Europe/Berlin"
NOW_MS = 1_711_846_799_123
"""Less than a second before clocks are set in ZONE."""

BY_CHANCE = ("UUID",)


FAMILIES = {
    family.__name__.rpartition(".")[2]: [f.name for f in family.FUNCTIONS]
    for family in (
        arithmetic,
        collection,
        comparison,
        conditional,
        conversion,
        hash_functions,
        logical,
        string,
        temporal,
    )
}


@functools.cache
def planner() -> Planner:
    made = Planner()
    made.set("table.local-time-zone", ZONE)
    made.run(f"CREATE TABLE t ({COLUMNS}) WITH ('connector' = 'datagen')")
    return made


@functools.cache
def table() -> pa.RecordBatch:
    whole = pa.Table.from_pylist(rows(), to_arrow_schema(planner().bind("SELECT * FROM t").schema))
    (batch,) = whole.combine_chunks().to_batches()
    return batch


def test_every_example_is_in_a_family() -> None:
    assert sorted(name for names in FAMILIES.values() for name in names) == sorted(EXAMPLES)


@pytest.mark.parametrize("family", FAMILIES)
def test_functions_have_their_values(family: str, golden: Callable[[Path, str], None]) -> None:
    lines = []
    for function in FAMILIES[family]:
        if function in BY_CHANCE:
            continue
        lines.append(f"\n## {function}")
        for example in EXAMPLES[function]:
            lines.append(f"\n{example}")
            lines += compact(values_of(example))
    golden(Path(__file__).parent / "functions" / f"{family}.out", "\n".join(lines).lstrip())


def values_of(example: str) -> list[str]:
    node: RelationalNode = planner().bind(f"SELECT {example} AS v FROM t")
    while not isinstance(node, Project):
        (node,) = node.inputs
    context = EvaluationContext(lambda: NOW_MS, ZONE, np.random.default_rng(1))
    try:
        function = compile_expression(node.expressions[0], node.input.schema, context)
    except UserError as error:
        return [f"error[{error.code}]: {error.message}"]
    return list(computed(function, table().select(node.input.schema.names)))


def computed(function: Callable[[pa.RecordBatch], pa.Array], part: pa.RecordBatch) -> Iterator[str]:
    """A text for each row; a row that fails shows the error of its batch, in which it is alone."""
    try:
        yield from map(text_of, function(part).to_pylist())
    except UserError as error:
        if part.num_rows == 1:
            yield f"error[{error.code}]: {error.message!r}"
            return
        half = part.num_rows // 2
        yield from computed(function, part.slice(0, half))
        yield from computed(function, part.slice(half))


def text_of(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        # Processors differ in the last digits of sines and logarithms.
        return f"{value:.12g}"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else repr(value)


def compact(texts: list[str]) -> Iterator[str]:
    """The values in lines of up to 120 characters; several equal ones in a row are counted."""
    line = " "
    for text, equal in itertools.groupby(texts):
        count = len(list(equal))
        piece = f" {text}" if count == 1 else f" {text} x{count}"
        if line.strip() and len(line) + len(piece) > 120:
            yield line
            line = " "
        line += piece
    yield line
