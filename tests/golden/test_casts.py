"""Every pair of types: what CAST and TRY_CAST give for a value, or that there is no such cast (Flink: LogicalTypeCasts)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from planner_harness import Planner

from sqlstream.errors import UserError
from sqlstream.planner.relational.nodes import Project
from sqlstream.runtime.evaluate import EvaluationContext, compile_expression

VALUES = {
    "CHAR(3)": ("'1  '", "'abc'"),
    "STRING": ("CAST('12' AS STRING)", "CAST('2024-02-29 12:34:56.789' AS STRING)", "CAST('true' AS STRING)"),
    "BOOLEAN": ("TRUE",),
    "BINARY(2)": ("x'3132'", "x'ff00'"),
    "BYTES": ("CAST(x'616263' AS BYTES)",),
    "DECIMAL(10, 2)": ("CAST(-300.75 AS DECIMAL(10, 2))",),
    "TINYINT": ("CAST(-7 AS TINYINT)",),
    "SMALLINT": ("CAST(300 AS SMALLINT)",),
    "INT": ("70000",),
    "BIGINT": ("9223372036854775807",),
    "FLOAT": ("CAST(1.5 AS FLOAT)", "CAST('NaN' AS FLOAT)"),
    "DOUBLE": ("-1.5E10",),
    "DATE": ("DATE '0001-01-01'", "DATE '9999-12-31'"),
    "TIME(0)": ("TIME '23:59:59'",),
    "TIME(3)": ("CAST('01:02:03.456' AS TIME(3))",),
    "TIMESTAMP(3)": ("TIMESTAMP '0001-01-01 00:00:00.000'", "TIMESTAMP '2024-03-31 02:30:00.123'"),
    "TIMESTAMP(6)": ("TIMESTAMP '9999-12-31 23:59:59.999999'",),
    "TIMESTAMP(9)": ("TIMESTAMP '1969-12-31 23:59:59.999999999'",),
    "TIMESTAMP_LTZ(3)": ("CAST(TIMESTAMP '2024-10-27 02:30:00' AS TIMESTAMP_LTZ(3))",),
    "INTERVAL YEAR TO MONTH": ("INTERVAL '-2-10' YEAR TO MONTH",),
    "INTERVAL DAY TO SECOND(3)": ("INTERVAL '10 00:00:00.004' DAY TO SECOND",),
    "ARRAY<INT>": ("ARRAY[1, NULL]",),
    "MAP<STRING, INT>": ("MAP['a', 1]",),
    "ROW<a INT, b STRING>": ("CAST(ROW(1, 'x') AS ROW<a INT, b STRING>)",),
    "ARRAY<STRING>": ("ARRAY['1', 'x']",),
    "VARIANT": ("PARSE_JSON('12')", """PARSE_JSON('{"a": [1]}')"""),
    "BITMAP": ("BITMAP_BUILD(ARRAY[1, 2])",),
}


TARGETS = [t for t in VALUES if t not in ("SMALLINT", "TIME(0)", "TIMESTAMP(6)", "ARRAY<STRING>", "BYTES")]


@functools.cache
def planner() -> Planner:
    made = Planner()
    made.set("table.local-time-zone", "Europe/Berlin")
    return made


def value_of(expression: str) -> str:
    """Its printed value, or the code of its error; "." where types do not convert."""
    try:
        node = planner().bind(f"SELECT {expression} AS v")
        assert isinstance(node, Project)
        context = EvaluationContext(lambda: 0, "Europe/Berlin")
        function = compile_expression(node.expressions[0], node.input.schema, context)
        column = function(pa.RecordBatch.from_pylist([{"x": 1}]))
        # Python's durations are shorter than SQL's.
        (value,) = (column.view(pa.int64()) if pa.types.is_duration(column.type) else column).to_pylist()
    except UserError as error:
        no_cast = error.code == "SS2008" and error.message.startswith("cannot cast")
        return "." if no_cast else f"{error.code} {error.message}"
    return repr(value)


@pytest.mark.parametrize("source", VALUES)
def test_each_pair_of_types_is_cast_or_refused(source: str, golden: Callable[[Path, str], None]) -> None:
    lines = []
    for value in VALUES[source]:
        lines.append(f"\n## {value}\n")
        refused = []
        for target in TARGETS:
            strict = value_of(f"CAST({value} AS {target})")
            if strict == ".":
                refused.append(target)
                continue
            lenient = value_of(f"TRY_CAST({value} AS {target})") if strict.startswith("SS") else strict
            lines.append(f"{target}: {strict}" + (f"; TRY_CAST: {lenient}" if lenient != strict else ""))
        lines.append(f"no cast: {'; '.join(refused) or 'none'}")
    name = "".join(c if c.isalnum() else "_" for c in source).strip("_").lower()
    golden(Path(__file__).parent / "casts" / f"{name}.out", "\n".join(lines).lstrip())


def test_null_is_cast_to_every_type() -> None:
    casts = [f"{f}(NULL AS {target})" for target in TARGETS for f in ("CAST", "TRY_CAST")]
    node = planner().bind(f"SELECT {', '.join(casts)}")
    assert isinstance(node, Project)
    for expression in node.expressions:
        function = compile_expression(expression, node.input.schema, EvaluationContext())
        assert function(pa.RecordBatch.from_pylist([{"x": 1}])).to_pylist() == [None]


def test_types_that_do_not_convert_are_refused_by_both() -> None:
    for source, target in (
        ("TRUE", "DATE"),
        ("ARRAY[1]", "MAP<INT, INT>"),
        ("BITMAP_BUILD(ARRAY[1])", "VARIANT"),
    ):
        assert value_of(f"CAST({source} AS {target})") == value_of(f"TRY_CAST({source} AS {target})") == "."
