"""A cast that is called injective keeps different values different, and keys behind it."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from plan_harness import compile_script

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.planner.bind.expressions.casts import can_cast
from sqlstream.planner.expression_facts import is_injective
from sqlstream.runtime.evaluate.cast import cast_kernel
from sqlstream.types import LogicalType


def numbers(t: LogicalType, least: float, most: float) -> tuple[LogicalType, list[Any]]:
    return t, [least, least + 1, -1, 0, 1, 2, 99, 100, most - 1, most]


DAYS = ["0001-01-01", "1969-12-31", "1970-01-01", "2024-02-29", "9999-12-31"]
SECONDS = ["0001-01-01 00:00:00", "1970-01-01 00:00:00", "2024-10-27 02:30:00", "2024-10-27 03:30:00"]
SAMPLES: list[tuple[LogicalType, list[Any]]] = [
    *(numbers(t, -(2**bits), 2**bits - 1) for t, bits in ((sql.TINYINT, 7), (sql.SMALLINT, 15))),
    *(numbers(t, -(2**bits), 2**bits - 1) for t, bits in ((sql.INT, 31), (sql.BIGINT, 63))),
    (sql.FLOAT, [-1.5, 0.0, 0.1, 1.0000001, 1.0, 3.4e38, float("inf")]),
    (sql.DOUBLE, [-1.5, 0.0, 0.1, 0.10000000149011612, 1e308, float("inf")]),
    *((sql.decimal(p, s), [f"{'9' * (p - s)}.{'9' * s}", "0.1", "-0.1", "0"]) for p, s in ((3, 1), (10, 2))),
    *((sql.decimal(p, s), ["-1", "0", "9" * min(p - s, 5)]) for p, s in ((10, 0), (20, 0), (38, 18))),
    *((t, ["", "a", "a ", "a  ", "b", "abc"]) for t in (sql.char(3), sql.varchar(3), sql.STRING)),
    *((t, ["a", "a ", "a    ", "abcde"]) for t in (sql.char(5), sql.varchar(5))),
    *((t, [b"", b"a", b"a\0", b"abc"]) for t in (sql.binary(3), sql.varbinary(5), sql.BYTES)),
    (sql.BOOLEAN, [True, False]),
    (sql.DATE, DAYS),
    *((sql.time(p), ["00:00:00", "23:59:59", "12:00:00" + ".9" * (p > 0)]) for p in (0, 3)),
    *((t(p), [*SECONDS, *([f"2024-10-27 02:30:00.{'0' * (p - 1)}1"] if p else [])]) for p in (0, 3, 6)
      for t in (sql.timestamp, sql.timestamp_ltz)),
    (sql.timestamp(9), ["1970-01-01 00:00:00", "2024-10-27 02:30:00.000000001"]),
]  # fmt: skip


def column(t: LogicalType, values: list[Any]) -> pa.Array:
    """The values as rows of a table have them."""
    if isinstance(values[0], str) and not sql.is_string(t):
        return cast_kernel(sql.STRING, t, "UTC", is_try=False)(pa.array(values))
    return pa.array(values, to_arrow_type(t))


def distinct(values: pa.Array) -> int:
    return len(values.cast(pa.string()).unique() if pa.types.is_floating(values.type) else values.unique())


def test_an_injective_cast_keeps_different_values_different() -> None:
    found = []
    for (source, values), (target, _) in itertools.product(SAMPLES, SAMPLES):
        if not (can_cast(source, target) and is_injective(source, target)):
            continue
        given = column(source, values)
        try:
            cast = cast_kernel(source, target, "Europe/Berlin", is_try=False)(given)
        except UserError:
            # Nanoseconds do not reach the years 1 and 9999: the job fails, and no row is lost.
            assert target.precision > 6
            continue
        assert (distinct(cast), cast.null_count) == (distinct(given), 0), f"{source} to {target}"
        found.append((source, target))
    assert len(found) > 100


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (sql.varchar(3), sql.char(5)),
        (sql.char(3), sql.char(5)),
        (sql.varchar(5), sql.varchar(3)),
        (sql.BIGINT, sql.INT),
        (sql.BIGINT, sql.DOUBLE),
        (sql.BIGINT, sql.varchar(19)),
        (sql.INT, sql.FLOAT),
        (sql.DOUBLE, sql.STRING),
        (sql.decimal(10, 2), sql.decimal(11, 1)),
        (sql.decimal(10, 2), sql.decimal(10, 3)),
        (sql.timestamp(6), sql.timestamp(3)),
        (sql.timestamp(3), sql.DATE),
        (sql.timestamp(3), sql.timestamp_ltz(3)),
        (sql.timestamp_ltz(3), sql.STRING),
        (sql.DATE, sql.timestamp_ltz(3)),
        (sql.STRING, sql.INT),
        (sql.binary(3), sql.binary(5)),
    ],
)
def test_other_casts_may_make_values_equal(source: LogicalType, target: LogicalType) -> None:
    assert not is_injective(source, target)


DDL = """
CREATE TABLE s (c CHAR(3), i INT, d DATE, t TIMESTAMP(3)) WITH ('connector' = 'stream');
CREATE TABLE texts (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'upsert');
CREATE TABLE padded (k CHAR(5), n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'upsert');
CREATE TABLE longs (k BIGINT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'upsert');
CREATE TABLE times (k TIMESTAMP(6), n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'upsert');
"""


def test_a_key_goes_through_injective_casts_to_the_primary_key() -> None:
    for table, key in {"texts": "c", "longs": "i", "times": "t"}.items():
        compile_script(f"{DDL} INSERT INTO {table} SELECT {key}, COUNT(*) FROM s GROUP BY {key}")
    compile_script(f"{DDL} INSERT INTO times SELECT CAST(d AS TIMESTAMP(6)), COUNT(*) FROM s GROUP BY d")
    compile_script(
        f"{DDL} INSERT INTO texts SELECT CAST(CAST(i AS BIGINT) AS STRING), COUNT(*) FROM s GROUP BY i"
    )
    counts = "(SELECT i, COUNT(*) AS n FROM s GROUP BY i)"
    names = "(SELECT CAST(i AS BIGINT) AS k, MAX(d) AS d FROM s GROUP BY i)"
    # The join compares BIGINT values, of which either side has each once.
    compile_script(
        f"{DDL} INSERT INTO longs SELECT a.i, a.n FROM {counts} AS a JOIN {names} AS b ON a.i = b.k"
    )
    for wrong in (
        "padded SELECT c, COUNT(*) FROM s GROUP BY c",
        "longs SELECT TRY_CAST(i AS BIGINT), COUNT(*) FROM s GROUP BY i",
        "texts SELECT CAST(c AS CHAR(2)), COUNT(*) FROM s GROUP BY c",
    ):
        with pytest.raises(UserError, match=r"differs from the primary key|\(none\)") as refused:
            compile_script(f"{DDL} INSERT INTO {wrong}")
        assert refused.value.code == "SS3016"
