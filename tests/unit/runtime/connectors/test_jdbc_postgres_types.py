"""Which columns of Postgres are read and written as which types, and what it is asked for keys; no server is needed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sqlstream.runtime.connectors.jdbc.database import TableName
from sqlstream.runtime.connectors.jdbc.postgres import Postgres
from sqlstream.runtime.connectors.jdbc.postgres_types import can_write
from sqlstream.runtime.connectors.jdbc.stored_table import StoredColumn, StoredTable
from sqlstream.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    array,
    binary,
    char,
    decimal,
    map_of,
    time,
    timestamp,
    timestamp_ltz,
)

DECLARED = [
    *(BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE),
    *(
        decimal(4, 0),
        decimal(5, 0),
        decimal(10, 2),
        decimal(9, 2),
        decimal(12, 3),
        decimal(10, 0),
        decimal(19, 0),
    ),
    *(
        char(3),
        STRING,
        DATE,
        time(0),
        time(3),
        timestamp(3),
        timestamp(6),
        timestamp_ltz(3),
        binary(2),
        BYTES,
    ),
    *(array(INT), array(BIGINT), array(SMALLINT), array(STRING), map_of(INT, INT)),
]
DECIMALS = "DECIMAL(4,0) DECIMAL(5,0) DECIMAL(10,2) DECIMAL(9,2) DECIMAL(12,3) DECIMAL(10,0) DECIMAL(19,0)"


def column(base: str, modifier: int = -1, kind: str = "b", element: str = "") -> StoredColumn:
    return StoredColumn("c", base, base, modifier, kind, element)


@pytest.mark.parametrize(
    ("stored", "read", "written"),
    [
        (column("bool"), "BOOLEAN", "BOOLEAN"),
        (
            column("int2"),
            "TINYINT SMALLINT INT BIGINT DECIMAL(5,0) DECIMAL(10,2) DECIMAL(9,2) DECIMAL(12,3) DECIMAL(10,0) DECIMAL(19,0)",
            "TINYINT SMALLINT",
        ),
        (column("int4"), "INT BIGINT DECIMAL(10,0) DECIMAL(19,0)", "TINYINT SMALLINT INT"),
        (column("int8"), "BIGINT DECIMAL(19,0)", "TINYINT SMALLINT INT BIGINT"),
        (column("float4"), "FLOAT DOUBLE", "FLOAT"),
        (column("float8"), "DOUBLE", "FLOAT DOUBLE"),
        (column("numeric"), DECIMALS, DECIMALS),
        (
            column("numeric", (10 << 16 | 2) + 4),
            "DECIMAL(10,2) DECIMAL(12,3)",
            "DECIMAL(4,0) DECIMAL(5,0) DECIMAL(10,2) DECIMAL(9,2)",
        ),
        (column("text"), "CHAR(3) STRING", "CHAR(3) STRING"),
        (column("varchar"), "CHAR(3) STRING", "CHAR(3) STRING"),
        (column("bpchar"), "CHAR(3) STRING", "CHAR(3) STRING"),
        (column("name"), "CHAR(3) STRING", ""),
        (column("uuid"), "CHAR(3) STRING", "CHAR(3) STRING"),
        (column("jsonb"), "CHAR(3) STRING", "CHAR(3) STRING"),
        (column("mood", kind="e"), "CHAR(3) STRING", "CHAR(3) STRING"),
        (column("date"), "DATE", "DATE"),
        (column("time"), "TIME(0) TIME(3)", "TIME(0) TIME(3)"),
        (column("time", 0), "TIME(0) TIME(3)", "TIME(0)"),
        (column("timestamp"), "TIMESTAMP(3) TIMESTAMP(6)", "TIMESTAMP(3) TIMESTAMP(6)"),
        (column("timestamp", 3), "TIMESTAMP(3) TIMESTAMP(6)", "TIMESTAMP(3)"),
        (column("timestamptz"), "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(3)"),
        (column("bytea"), "BINARY(2) BYTES", "BINARY(2) BYTES"),
        (column("_int4", element="int4"), "ARRAY<INT> ARRAY<BIGINT>", "ARRAY<INT> ARRAY<SMALLINT>"),
        (column("_uuid", element="uuid"), "ARRAY<STRING>", ""),
        (column("interval"), "", ""),
    ],
    ids=lambda value: value.type if isinstance(value, StoredColumn) else "",
)
def test_a_column_has_the_types_that_hold_all_its_values(
    stored: StoredColumn, read: str, written: str
) -> None:
    def names(fits: object) -> str:
        return " ".join(str(declared).replace(" ", "") for declared in DECLARED if fits(declared))  # type: ignore[operator]

    assert names(lambda declared: Postgres().can_read(stored, declared)) == read
    assert names(lambda declared: can_write(stored, declared)) == written


TABLE = StoredTable(
    TableName("", "t"),
    "public",
    '"public"."t"',
    {
        "i": StoredColumn("i", "smallint", "int2"),
        "n": StoredColumn("n", "numeric", "numeric"),
        "s": StoredColumn("s", "text", "text"),
        "u": StoredColumn("u", "uuid", "uuid"),
        "b": StoredColumn("b", "bytea", "bytea"),
        "c": StoredColumn("c", "char(3)", "bpchar"),
        "d": StoredColumn("d", "text", "text", is_deterministic=False),
    },
    is_view=False,
)


def matching(**keys: pa.Array) -> str:
    return Postgres().matching(None, TABLE, pa.RecordBatch.from_pydict(keys))  # type: ignore[arg-type]


def test_keys_that_the_column_cannot_hold_are_not_asked_for() -> None:
    asked = matching(i=pa.array([-32769, -32768, -1, 0, 32767, 32768], pa.int64()))
    assert asked == """"public"."t" WHERE "i" = ANY('{"-32768","-1","0","32767"}'::int2[])"""
    asked = matching(s=pa.array(['a"b', "c\\d", "it's", "n\0"]))
    assert asked == """"public"."t" WHERE "s" = ANY('{"a\\"b","c\\\\d","it''s"}'::text[])"""
    assert matching(i=pa.array([5], pa.int16())).endswith("""ANY('{"5"}'::int2[])""")
    assert matching(n=pa.array([1 << 40])).endswith("""ANY('{"1099511627776"}'::numeric[])""")
    assert matching(b=pa.array([b"\x00\xff"])).endswith("""ANY('{"\\\\x00ff"}'::bytea[])""")


def test_keys_of_several_columns_are_joined_and_a_row_is_left_out_as_a_whole() -> None:
    assert matching(i=pa.array([1, 70000, 2]), u=pa.array(["a", "b", "c"]), c=pa.array(["x", "y", "z"])) == (
        """unnest('{"1","2"}'::int2[], '{"a","c"}'::text[], '{"x","z"}'::bpchar[]) AS keys("$k0", "$k1", "$k2")"""
        """ JOIN "public"."t" AS t ON "i" = "$k0" AND "u"::text = "$k1" AND "c" = "$k2" WHERE TRUE"""
    )


def test_conditions_are_on_columns_whose_comparisons_are_ours() -> None:
    columns = [(name, STRING) for name in TABLE.columns]
    assert Postgres().filtered(TABLE, columns) == [
        '"i"', '"n"', '"s"', '("u"::text)', '"b"', None, '("d" COLLATE "C")'
    ]  # fmt: skip
    assert [Postgres().is_number(stored) for stored in TABLE.columns.values()] == [True, True, *[False] * 5]
    assert Postgres().day(3) == "(DATE '1970-01-01' + 3)"


def test_columns_that_the_driver_does_not_know_are_read_as_text() -> None:
    stored = {
        name: StoredColumn(name, base, base, element=element)
        for name, base, element in (
            ("u", "uuid", ""),
            ("i", "int4", ""),
            ("a", "_uuid", "uuid"),
            ("t", "_text", "text"),
            ("n", "_int4", "int4"),
            ("x", "_numeric", "numeric"),
        )
    }
    table = StoredTable(TableName("", "t"), "p", "p.t", stored, is_view=False)
    columns = [
        ("u", STRING), ("i", INT), ("a", array(STRING)), ("t", array(STRING)), ("n", array(INT)), ("x", array(decimal(4, 0)))
    ]  # fmt: skip
    found = Postgres().selection(table, columns, "p.t")
    assert found.expressions == ('"u"::text', '"i"', '"a"::text[]', '"t"', '"n"', '"x"::text[]')
    assert [(check.place, check.is_wrong) for check in found.checks] == [
        (place, f'array_ndims("{name}") > 1') for place, name in ((2, "a"), (3, "t"), (4, "n"), (5, "x"))
    ]
    assert found.checks[0].shown == 'left("a"::text, 100)'
