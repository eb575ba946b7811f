"""The measurement behind `main.py functions`: each scalar function alone, over one batch, on one core; also trivial ones of a
user, for what a call of Python costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from benches.function_cases import CASES, USER_CASES

from sqlstream import udf
from sqlstream.arrow import to_arrow_schema
from sqlstream.catalog import CatalogFunction, PutFunction, SessionCatalog, system_path
from sqlstream.functions import SCALAR_FAMILIES
from sqlstream.planner.bind.binder import bind_query
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.dialect.parser import parse_script
from sqlstream.planner.dialect.statements import Query
from sqlstream.planner.relational.nodes import Project
from sqlstream.planner.statements.functions import function_ref
from sqlstream.runtime.evaluate import EvaluationContext, compile_expression

BATCH_ROWS = 65_536
BAR = 1_000_000
"""Rows per second of one core that a function should reach."""
BARS = {"UDF_ARROW": 33_333_333}
"""Of those with a bar of their own: 30 ns a row."""

_WRITTEN = "the whole document, some 90 characters here, is read, put in order and written"
REASONS: dict[str, str] = {
    **dict.fromkeys(("JSON", "PARSE_JSON", "TRY_PARSE_JSON"), _WRITTEN),
    "REGEXP_EXTRACT_ALL": "the text is rewritten and split, and each match becomes an element of a list",
    "UDF_ASYNC": "a coroutine is made for each row, and waits under a time limit",
}
"""Why a function may stay below the bar on a slower core."""

_COLUMNS = {
    "n": "TINYINT", "i": "INT", "j": "INT", "l": "BIGINT", "d": "DECIMAL(10, 2)", "g": "DECIMAL(20, 6)", "x": "DOUBLE",
    "z": "DOUBLE", "p": "DOUBLE", "f": "FLOAT", "s": "STRING", "r": "STRING", "c": "CHAR(3)", "num": "STRING", "tt": "STRING",
    "dt": "STRING", "b64": "STRING", "hx": "STRING", "ip": "STRING", "url": "STRING", "enc": "STRING", "kv": "STRING",
    "jo": "STRING", "quoted": "STRING", "v": "VARIANT", "o": "BOOLEAN", "k": "BOOLEAN", "y": "DATE", "w": "DATE",
    "h": "TIME(3)", "ts": "TIMESTAMP(3)", "us": "TIMESTAMP(6)", "lt": "TIMESTAMP_LTZ(3)", "bs": "BYTES", "bb": "BYTES",
    "b": "BITMAP", "b2": "BITMAP", "a": "ARRAY<INT>", "t": "ARRAY<STRING>", "one": "ARRAY<INT>", "m": "MAP<STRING, INT>",
    "q": "ROW<u INT, v STRING>",
}  # fmt: skip


@udf(result_type="BIGINT", input_types=["BIGINT"], func_type="arrow")
def udf_arrow(n: pa.Array) -> pa.Array:
    return pc.add(n, 1)


@udf
def udf_row(n: int) -> int:
    return n + 1


@udf
def udf_text(text: str) -> str:
    return text[:2]


@udf
async def udf_async(n: int) -> int:
    return n + 1


USERS = (udf_arrow, udf_row, udf_text, udf_async)
USER_FAMILY = "Python"


@dataclass(frozen=True)
class FunctionFigure:
    """One function, the call that was measured, and its rows per second of CPU time."""

    family: str
    function: str
    call: str
    rows_per_cpu_s: int
    reason: str

    @property
    def is_within_bar(self) -> bool:
        return self.rows_per_cpu_s >= BARS.get(self.function, BAR)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def families() -> list[str]:
    return [*(title for title, _ in SCALAR_FAMILIES), USER_FAMILY]


def figures(family: str, only: list[str], seconds: float) -> Iterator[FunctionFigure]:
    """Each function of the family (all for an empty one) that is among `only` (all for none), for `seconds` of CPU time after a
    call that is not counted."""
    columns = _columns()
    named = [(title, [f.name for f in functions if f.name in CASES]) for title, functions in SCALAR_FAMILIES]
    cases = CASES | USER_CASES
    for title, names in [*named, (USER_FAMILY, list(USER_CASES))]:
        for name in names:
            if (not family or family == title) and (not only or name in only):
                rate = _measure(cases[name], columns, seconds)
                yield FunctionFigure(title, name, cases[name], rate, REASONS.get(name, ""))


def _measure(call: str, columns: dict[str, pa.Array], seconds: float) -> int:
    source = ", ".join(f"CAST(NULL AS {t}) AS `{name}`" for name, t in _COLUMNS.items())
    (statement,) = parse_script(f"SELECT {call} AS result FROM (SELECT {source}) AS t")
    assert isinstance(statement, Query)
    node = bind_query(statement.query, BindContext(_catalog()))
    assert isinstance(node, Project)
    schema = node.input.schema
    batch = pa.RecordBatch.from_arrays([columns[n] for n in schema.names], schema=to_arrow_schema(schema))
    function = compile_expression(node.expressions[0], schema, EvaluationContext(lambda: 1_711_846_799_123))
    function(batch)
    rows, start = 0, time.process_time()
    while (taken := time.process_time() - start) < seconds:
        function(batch)
        rows += batch.num_rows
    return round(rows / taken)


def _catalog() -> SessionCatalog:
    """One with the functions of a user."""
    catalog = SessionCatalog()
    for function in USERS:
        name = function.__name__
        ref = function_ref(name, __name__, name, function.declared)
        catalog.apply(
            PutFunction(CatalogFunction(system_path(name), f"{__name__}.{name}", ref, is_temporary=True))
        )
    return catalog


def _columns() -> dict[str, pa.Array]:
    """Random values without NULL, the same in every run."""
    from sqlstream.runtime.evaluate.bitmap import Bitmaps

    pick, rows = np.random.default_rng(1), BATCH_ROWS
    i, j = (pick.integers(1, 1000, rows).astype(np.int32) for _ in range(2))
    l = pick.integers(0, 2_000_000_000, rows)  # noqa: E741
    x, z = pick.random(rows) * 1000, pick.random(rows) * 10
    texts = [f"user {a} opened page {b}" for a, b in zip(i.tolist(), j.tolist(), strict=True)]
    numbers = [str(v) for v in j.tolist()]
    moments = pa.array(l * 1000).view(pa.timestamp("ms"))
    stamps = moments.cast(pa.timestamp("s")).cast(pa.string())
    json = [
        f'{{"id":{a},"user":{{"name":"u{b}","age":{b % 90}}},"tags":["x","y{b % 7}"],"price":{b / 4}}}'
        for a, b in zip(i.tolist(), j.tolist(), strict=True)
    ]
    lists = np.repeat(np.arange(rows), 4)
    values = pick.integers(0, 1000, rows * 4).astype(np.int32)
    bitmaps = Bitmaps.of_elements(lists, values, rows, None).column()
    offsets = pa.array(np.arange(0, rows * 4 + 1, 4, dtype=np.int32))
    pairs = pa.array([f"k{v}" for v in range(rows * 4)])
    found = {
        "n": pa.array((i % 100).astype(np.int8)), "i": pa.array(i), "j": pa.array(j), "l": pa.array(l),
        "d": pa.array(i).cast(pa.decimal128(10, 0)).cast(pa.decimal128(12, 2)).cast(pa.decimal128(10, 2)),
        "g": pa.array(i).cast(pa.decimal128(10, 0)).cast(pa.decimal128(20, 6)),
        "x": pa.array(x), "z": pa.array(z), "p": pa.array(z / 10), "f": pa.array(x.astype(np.float32)),
        "s": pa.array(texts), "r": pa.array(texts[::-1]), "c": pa.array(["abc"] * rows), "num": pa.array(numbers),
        "tt": stamps, "dt": moments.cast(pa.date32()).cast(pa.string()),
        "b64": pa.array(["dXNlciAxMiBvcGVuZWQgcGFnZQ=="] * rows), "hx": pa.array([t.encode().hex() for t in texts]),
        "ip": pa.array([f"10.0.{a % 256}.{b % 256}" for a, b in zip(i.tolist(), j.tolist(), strict=True)]),
        "url": pa.array([f"https://host{a}.org:80/path/{b}?k=v&n={a}#r" for a, b in zip(i.tolist(), j.tolist(), strict=True)]),
        "enc": pa.array([t.replace(" ", "%20") for t in texts]), "kv": pa.array([f"a={n},b={n}" for n in numbers]),
        "jo": pa.array(json), "quoted": pa.array([f'"{t}"' for t in texts]), "v": pa.array([f'"{t}"' for t in texts]),
        "o": pa.array(i % 2 == 0), "k": pa.array(j % 3 == 0), "y": moments.cast(pa.date32()), "w": moments.cast(pa.date32()),
        "h": pa.array((l % 86_400_000).astype(np.int32)).view(pa.time32("ms")), "ts": moments,
        "us": moments.cast(pa.timestamp("us")), "lt": pa.array(l * 1000).view(pa.timestamp("ms", tz="UTC")),
        "bs": pa.array([t.encode() for t in texts]), "bb": bitmaps, "b": bitmaps, "b2": bitmaps[::-1],
        "a": pa.ListArray.from_arrays(offsets, pa.array(values)),
        "t": pa.ListArray.from_arrays(offsets, pairs),
        "one": pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32)), pa.array(i)),
        "m": pa.MapArray.from_arrays(offsets, pairs, pa.array(values)),
        "q": pa.StructArray.from_arrays([pa.array(i), pa.array(texts)], ["u", "v"]),
    }  # fmt: skip
    schema = {name: _arrow_type(t) for name, t in _COLUMNS.items()}
    return {name: column.cast(schema[name]) for name, column in found.items()}


def _arrow_type(written: str) -> pa.DataType:
    (statement,) = parse_script(f"SELECT CAST(NULL AS {written}) AS c")
    assert isinstance(statement, Query)
    return to_arrow_schema(bind_query(statement.query, BindContext(SessionCatalog())).schema).field(0).type
