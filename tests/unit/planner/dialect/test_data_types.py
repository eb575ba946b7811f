"""Types: every spelling of Flink, and its bounds."""

from __future__ import annotations

import pytest

from sqlstream.errors import UserError
from sqlstream.planner.dialect.parser import cast_type, parse_expression, parse_type


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("int", "INT"),
        ("INTEGER NOT NULL", "INT NOT NULL"),
        ("STRING NULL", "STRING"),
        ("VARCHAR", "STRING"),
        ("VARCHAR(20)", "VARCHAR(20)"),
        ("CHARACTER VARYING(3)", "VARCHAR(3)"),
        ("CHAR", "CHAR(1)"),
        ("VARCHAR(2147483647)", "STRING"),
        ("BINARY(4)", "BINARY(4)"),
        ("VARBINARY(4)", "VARBINARY(4)"),
        ("BYTES", "BYTES"),
        ("DECIMAL", "DECIMAL(10, 0)"),
        ("DEC(5)", "DECIMAL(5, 0)"),
        ("DECIMAL(1)", "DECIMAL(1, 0)"),
        ("DECIMAL(5, 0)", "DECIMAL(5, 0)"),
        ("DECIMAL(5, 5)", "DECIMAL(5, 5)"),
        ("DECIMAL(38)", "DECIMAL(38, 0)"),
        ("CHAR(1)", "CHAR(1)"),
        ("BINARY", "BINARY(1)"),
        ("BINARY VARYING", "BYTES"),
        ("TIME(0)", "TIME(0)"),
        ("TIME(9)", "TIME(9)"),
        ("TIMESTAMP(0)", "TIMESTAMP(0)"),
        ("TIMESTAMP_LTZ", "TIMESTAMP_LTZ(6)"),
        ("INTERVAL DAY", "INTERVAL DAY TO SECOND(3)"),
        ("INTERVAL HOUR(9) TO SECOND", "INTERVAL DAY TO SECOND(3)"),
        ("NUMERIC(38, 18)", "DECIMAL(38, 18)"),
        ("DOUBLE PRECISION", "DOUBLE"),
        ("REAL", "FLOAT"),
        ("TIME", "TIME(0)"),
        ("TIME(3) WITHOUT TIME ZONE", "TIME(3)"),
        ("TIMESTAMP", "TIMESTAMP(6)"),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", "TIMESTAMP(3)"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ(3)"),
        ("TIMESTAMP_LTZ(9) NOT NULL", "TIMESTAMP_LTZ(9) NOT NULL"),
        ("INTERVAL DAY(2) TO SECOND(3)", "INTERVAL DAY TO SECOND(3)"),
        ("INTERVAL YEAR TO MONTH", "INTERVAL YEAR TO MONTH"),
        ("INTERVAL MONTH", "INTERVAL YEAR TO MONTH"),
        ("ARRAY<ARRAY<INT>>", "ARRAY<ARRAY<INT>>"),
        ("INT NOT NULL ARRAY NOT NULL", "ARRAY<INT NOT NULL> NOT NULL"),
        ("INT MULTISET ARRAY", "ARRAY<MULTISET<INT>>"),
        ("MULTISET<STRING>", "MULTISET<STRING>"),
        ("MAP<STRING NOT NULL, ROW<a INT>>", "MAP<STRING NOT NULL, ROW<`a` INT>>"),
        ("ROW(a INT, `b c` STRING 'text')", "ROW<`a` INT, `b c` STRING>"),
        ("ROW<a INT NOT NULL COMMENT 'x', b STRING>", "ROW<`a` INT NOT NULL, `b` STRING>"),
        ("ROW<>", "ROW<>"),
    ],
)
def test_a_type_is_read_as_flink_reads_it(written: str, printed: str) -> None:
    assert str(parse_type(written)) == printed


@pytest.mark.parametrize(
    "written",
    [
        "FOO",
        "CHAR(0)",
        "DECIMAL(0)",
        "DECIMAL(39)",
        "VARCHAR(2147483648)",
        "TIME(10)",
        "TIME(0) WITH TIME ZONE",
        "INTERVAL DAY TO MONTH",
        "INTERVAL HOUR(10)",
        "DECIMAL(5, 6)",
        "TIMESTAMP(10)",
        "MAP<INT>",
        "ARRAY",
        "INTERVAL YEAR TO DAY",
        "ROW<a INT, a INT>",
        "ROW<INT>",
        "INT INT",
        "TIMESTAMP(3) WITH TIME ZONE",
        "ARRAY<" * 90 + "INT" + ">" * 90,
    ],
)
def test_what_is_no_type_is_refused_with_a_position(written: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_type(written)
    assert raised.value.span is not None


def test_a_cast_knows_its_type() -> None:
    assert str(cast_type(parse_expression("TRY_CAST(a AS DECIMAL(4, 2))"))) == "DECIMAL(4, 2)"
