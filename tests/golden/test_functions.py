"""The values of every scalar function over the rows of `function_examples`, as held in functions/, a file for each family.

Each value stands behind the values of the columns that its example reads: `'ab', 2 → 'abab'`.

`tests/differential` compares the same values with those of DuckDB and Spark; here each of them stays what it is.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from function_examples import COLUMNS, EXAMPLES, rows
from planner_harness import Planner

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.expressions import InputRef, walk
from sqlstream.functions import SCALAR_FAMILIES
from sqlstream.planner.relational.nodes import Project, RelationalNode
from sqlstream.runtime.evaluate import EvaluationContext, compile_expression

ZONE = "Europe/Berlin"
NOW_MS = 1_711_846_799_123
"""Less than a second before clocks are set in ZONE."""

BY_CHANCE = ("UUID", "CURRENT_WATERMARK")

MORE: dict[str, tuple[str, ...]] = {
    "ROUND": ("ROUND(x, j)", "ROUND(f, n)", "ROUND(d, j)", "ROUND(i, j)", "ROUND(x, -400)", "ROUND(x, 400)"),
    "HOUR": ("HOUR(y)",),
    "REGEXP_REPLACE": (
        *(f"REGEXP_REPLACE(s, '(?<one>a)(b)', {r})" for r in ("'$20'", "'$3'", "'\\$1'", "'5 $'", "'${x}'")),
        "REGEXP_REPLACE(s, 'a', '\\')",
    ),
    "TRUNCATE": ("TRUNCATE(x, j)", "TRUNCATE(d, j)", "TRUNCATE(i, j)", "TRUNCATE(x, -400)"),
    "CAST": (
        *("CAST(s AS BINARY(3))", "CAST(s AS VARBINARY(2))", "CAST(c AS CHAR(3))", "CAST(c AS CHAR(4))"),
        *("CAST(s AS VARCHAR(2))", "CAST(c AS VARCHAR(2))", "CAST(f AS DOUBLE)", "CAST(f AS DECIMAL(6, 2))"),
        *("CAST(d AS FLOAT)", "CAST(g AS DOUBLE)", "CAST(CAST(l AS DECIMAL(15, 0)) AS DOUBLE)"),
        *("CAST(CAST(l AS DECIMAL(16, 1)) AS DOUBLE)", "CAST(CAST(j AS DECIMAL(7, 3)) AS FLOAT)"),
        *("CAST(CAST(j AS DECIMAL(8, 3)) AS FLOAT)", "CAST(us AS TIMESTAMP(5))", "CAST(us AS TIME(3))"),
        *("CAST(9223372036854775807 AS DECIMAL(19, 0))", "CAST(CAST(127 AS TINYINT) AS DECIMAL(3, 0))"),
        *("CAST('9223372036854775807' AS BIGINT)", "CAST('-9223372036854775808' AS BIGINT)"),
        *("CAST('9223372036854775808' AS BIGINT)", "CAST('128' AS TINYINT)", "CAST('-128' AS TINYINT)"),
        *("CAST('2147483648' AS INT)", "CAST('1e2' AS INT)", "CAST('1.9' AS INT)", "CAST('' AS INT)"),
        *(
            "CAST(0.001 AS STRING)",
            "CAST(0.001E0 AS STRING)",
            "CAST(0.0009E0 AS STRING)",
            "CAST(1E7 AS STRING)",
        ),
        *("CAST(9999999E0 AS STRING)", "CAST(-0.0E0 AS STRING)", "CAST(1E308 * 10 AS STRING)"),
    ),
    "TO_TIMESTAMP": (
        *("TO_TIMESTAMP('2024-12-31 23:59:59')", "TO_TIMESTAMP('2024-01-01 00:00:00')"),
        *("TO_TIMESTAMP('2024-13-01 00:00:00')", "TO_TIMESTAMP('2024-00-01 00:00:00')"),
        *("TO_TIMESTAMP('2024-12-01 24:00:00')", "TO_TIMESTAMP('2024-12-01 23:60:00')"),
        *("TO_TIMESTAMP('2024-12-01 23:59:60')", "TO_TIMESTAMP('2024-12-00 23:59:59')"),
        *("TO_TIMESTAMP('2023-02-28 00:00:00')", "TO_TIMESTAMP('2023-02-29 00:00:00')"),
        *("TO_TIMESTAMP('2100-02-29 00:00:00')", "TO_TIMESTAMP('2000-02-29 00:00:00')"),
    ),
    "TO_DATE": (
        "TO_DATE('2024-12-31')",
        "TO_DATE('2024-11-31')",
        "TO_DATE('2024-00-10')",
        "TO_DATE('2024-10-00')",
    ),
    "UPPER": ("UPPER('µ é ß ŉ ǰ ΐ ﬁ')", "UPPER('straße ﬀ ᾳ')", "UPPER('ⱡ 𐐨 €')"),
    "LOWER": ("LOWER('ΑΣ ΑΣΑ Σ')", "LOWER('İ Ⱡ 𐐀 Å €')", "LOWER('ŻÓŁĆ')"),
    "*": (
        *(
            "INTERVAL 5 DAY",
            "INTERVAL -1.5 SECONDS",
            "CAST(INTERVAL (i + 1) MONTH AS STRING)",
            "CAST(INTERVAL i HOUR AS STRING)",
            "CAST(INTERVAL - (i) WEEK AS STRING)",
        ),
        *("d * CAST(NULL AS INT)", "n * d", "i * CAST(2 AS DECIMAL(3, 1))", "l * l", "g * g", "d * g * d"),
    ),
    "+": ("l + i + d", "d + x + i", "g + 1 + n", "d + CAST(NULL AS INT)", "n + n + n"),
    "IN": (
        *("i IN (1, 2)", "COALESCE(i, 0) IN (0, 1)", "COALESCE(s, '') IN ('', 'a', NULL)", "o IN (TRUE)"),
        *("ARRAY[1] IN (ARRAY[i], ARRAY[2])", "ARRAY[i] IN (ARRAY[1], ARRAY[n])"),
    ),
    "SIMILAR TO": (
        *(
            "s SIMILAR TO '[[:ALPHA:]]+'",
            "s SIMILAR TO '[_[:digit:].-]*'",
            "'a_%' SIMILAR TO 'a[%_]{2}'",
            "s SIMILAR TO '[:a]%'",
        ),
        *(
            "'a b' SIMILAR TO 'a[[:SPACE:]]b'",
            "'aZ9' SIMILAR TO '[[:lower:]][[:UPPER:]][^[:alpha:]]'",
        ),
    ),
    "NULLIF": ("NULLIF(ARRAY[i], ARRAY[1])", "NULLIF(ROW(i, 'a'), ROW(1, 'a'))", "NULLIF(m, MAP['a', 1])"),
    "ITEM": ("m['zz']", "MAP['a', i, 'b', j, 'a', n]['a']", "ARRAY[i, j, n][2]", "ARRAY[i][0 + 2]"),
    "CARDINALITY": (
        "CARDINALITY(ARRAY[i, j])",
        "CARDINALITY(MAP['a', i])",
        "CARDINALITY(CAST(NULL AS ARRAY<INT>))",
    ),
    "FLOOR": (
        *("FLOOR(x / 0)", "FLOOR(-0.5)", "FLOOR(-0.0E0)"),
        *(
            f"FLOOR({p} TO {u})"
            for p in ("lt", "y")
            for u in ("DECADE", "CENTURY", "MILLENNIUM", "MICROSECOND")
        ),
    ),
    "CASE": (
        "CASE WHEN i > 5 THEN 'a' WHEN i > 2 THEN 'b' WHEN i > 0 THEN 'c' ELSE s END",
        "CASE WHEN j = 0 THEN NULL WHEN i / j > 1 THEN i / j WHEN n = 0 THEN -1 ELSE i % n END",
    ),
    "EXTRACT": (
        *(
            f"EXTRACT({u} FROM INTERVAL '25:01:01.234' HOUR TO SECOND * j)"
            for u in ("DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "NANOSECOND", "EPOCH")
        ),
        *(f"EXTRACT({u} FROM INTERVAL '11' MONTH * i)" for u in ("YEAR", "QUARTER", "MONTH", "CENTURY")),
        *(f"EXTRACT({unit} FROM h)" for unit in ("HOUR", "MINUTE", "SECOND", "MILLISECOND")),
        *(
            f"EXTRACT({unit} FROM {point})"
            for unit in ("MILLISECOND", "MICROSECOND", "NANOSECOND", "DECADE", "CENTURY", "MILLENNIUM")
            for point in ("ts", "us", "y")
        ),
    ),
    "CEIL": tuple(f"CEIL({p} TO {u})" for p in ("ts", "y") for u in ("DECADE", "CENTURY", "MILLENNIUM")),
    "DATE_FORMAT": (
        "DATE_FORMAT(ts, 'yyyy' || CASE WHEN o THEN '-MM' ELSE '' END)",
        *("DATE_FORMAT(ts, 'yyyy-QQQ Q QQ QQQQ')", "DATE_FORMAT(ts, 'G GGGG GGGGG MMMMM EEEEE qq')"),
        *(
            "DATE_FORMAT(us, 'n')",
            "DATE_FORMAT(us, 'AAA N')",
            "DATE_FORMAT(TIMESTAMP '1969-12-31 23:59:59.9', 'n A')",
        ),
    ),
    "CONVERT_TZ": tuple(
        f"CONVERT_TZ('2024-07-01 12:00:00', '{zone}', 'Asia/Kathmandu')"
        for zone in ("PST", "EST", "JST", "GMT+8", "UTC-3", "+0530", "+7", "Australia/Lord_Howe")
    ),
    "TO_TIMESTAMP_LTZ": (
        "TO_TIMESTAMP_LTZ('2024-07-01 12:00:00', 'yyyy-MM-dd HH:mm:ss', 'PST')",
        "TO_TIMESTAMP_LTZ('2024-07-01 12:00:00', 'yyyy-MM-dd HH:mm:ss', 'GMT-3')",
    ),
    "GREATEST": tuple(
        f"{name}({values})"
        for name in ("GREATEST", "LEAST")
        for values in ("CAST('NaN' AS DOUBLE), 1", "1, CAST('NaN' AS DOUBLE)", "1, 2, NULL")
    ),
    "TIMESTAMPADD": (
        *(f"TIMESTAMPADD({unit}, i, h)" for unit in ("HOUR", "MINUTE", "SECOND", "MILLISECOND")),
        *("TIMESTAMPADD(HOUR, NULL, h)", "TIMESTAMPADD(HOUR, 25, TIME '10:00:00')"),
    ),
    "ARRAY": (
        *(
            "ARRAY[]",
            "ARRAY[NULL]",
            "ARRAY[ARRAY[], ARRAY[i]]",
            "CAST(ARRAY[] AS ARRAY<INT>)",
            "CARDINALITY(ARRAY[])",
        ),
        *(
            "COALESCE(CAST(NULL AS ARRAY<INT>), ARRAY[])",
            "CASE WHEN o THEN ARRAY[] ELSE ARRAY[i] END",
            "ARRAY[] = ARRAY[i]",
        ),
        *(
            "ARRAY_APPEND(ARRAY[], i)",
            "ARRAY_CONCAT(ARRAY[NULL], ARRAY[s])",
            "ARRAY[][1]",
            "JSON_STRING(ARRAY[])",
        ),
    ),
    "MAP": (
        "MAP['a', NULL]",
        "MAP['a', NULL, 'b', i]",
        "MAP_UNION(MAP['a', NULL], MAP['a', i])",
        "MAP['a', ARRAY[]]",
    ),
    "TIMESTAMPDIFF": (
        *(f"TIMESTAMPDIFF({unit}, TIME '10:00:00', h)" for unit in ("HOUR", "SECOND", "MILLISECOND")),
        *(
            f"TIMESTAMPDIFF({unit}, {points})"
            for unit in ("MONTH", "DAY", "QUARTER", "YEAR")
            for points in (
                "TIMESTAMP '2024-01-31 12:00:00', TIMESTAMP '2024-02-29 12:00:00'",
                "TIMESTAMP '2024-03-31 12:00:00', TIMESTAMP '2024-02-29 12:00:00'",
                "TIMESTAMP '2023-03-01 12:00:00', TIMESTAMP '2024-03-01 11:59:59'",
                "TIMESTAMP '2024-03-01 12:00:00', TIMESTAMP '2024-03-01 12:00:00'",
                "TIMESTAMP '2024-03-01 11:59:59', TIMESTAMP '2023-03-01 12:00:00'",
            )
        ),
    ),
}
"""Further examples, of boundaries that only our own code has."""


FAMILIES = {
    title.lower().replace(",", "").replace(" ", "_"): functions for title, functions in SCALAR_FAMILIES
}


@functools.cache
def planner() -> Planner:
    made = Planner()
    made.set("table.local-time-zone", ZONE)
    made.run(f"CREATE TABLE t ({COLUMNS}) WITH ('connector' = 'datagen')")
    return made


@functools.cache
def table() -> pa.RecordBatch:
    """The rows, as the later part of longer columns."""
    before = rows(seed=1)[:3]
    whole = pa.Table.from_pylist(
        [*before, *rows()], to_arrow_schema(planner().bind("SELECT * FROM t").schema)
    )
    (batch,) = whole.combine_chunks().to_batches()
    return batch.slice(len(before))


@pytest.mark.parametrize("family", FAMILIES)
def test_functions_have_their_values(family: str, golden: Callable[[Path, str], None]) -> None:
    lines = []
    for function in FAMILIES[family]:
        if function.name in BY_CHANCE:
            continue
        lines.append(f"\n## {function.name}")
        for example in (*EXAMPLES[function.name], *MORE.get(function.name, ())):
            lines.append(f"\n{example}")
            lines += filled(labelled_values(example))
    golden(Path(__file__).parent / "functions" / f"{family}.out", "\n".join(lines).lstrip())


def labelled_values(example: str) -> list[str]:
    """`arguments → value` for each distinct row of the columns that the example reads."""
    node: RelationalNode = planner().bind(f"SELECT {example} AS v FROM t")
    while not isinstance(node, Project):
        (node,) = node.inputs
    schema, expression = node.input.schema, node.expressions[0]
    context = EvaluationContext(lambda: NOW_MS, ZONE, np.random.default_rng(1))
    try:
        function = compile_expression(expression, schema, context)
    except UserError as error:
        return [f"error[{error.code}]: {error.message}"]
    batch = table().select(schema.names)
    indexes = dict.fromkeys(n.index for n in walk(expression) if isinstance(n, InputRef))
    read = [batch.column(i).to_pylist() for i in indexes]
    given = [", ".join(map(text_of, row)) for row in zip(*read, strict=True)] or [""] * batch.num_rows
    found = list(computed(function, batch))
    if not read and len(set(found)) == 1:
        return found[:1]
    return list(dict.fromkeys(f"{label} → {value}" for label, value in zip(given, found, strict=True)))


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


def filled(texts: list[str]) -> Iterator[str]:
    """The texts in lines of up to 120 characters."""
    line = " "
    for text in texts:
        if line.strip() and len(line) + len(text) > 118:
            yield line
            line = " "
        line += f" {text};"
    yield line.removesuffix(";")
