"""Types of columns between SQLAlchemy and SQL, and statements as text."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import types
from sqlalchemy.schema import CreateTable

from sqlstream import types as sql
from sqlstream.client.sqlalchemy_dialect.column_types import SqlType, column_type, type_text
from sqlstream.client.sqlalchemy_dialect.dialect import SqlStreamDialect
from sqlstream.types import LogicalType

DIALECT = SqlStreamDialect()


@pytest.mark.parametrize(
    ("type_", "made"),
    [
        *((sql.BOOLEAN, "Boolean()"), (sql.TINYINT, "SmallInteger()"), (sql.INT, "Integer()"), (sql.BIGINT, "BigInteger()")),
        *((sql.FLOAT, "Float()"), (sql.DOUBLE, "Double()"), (sql.DATE, "Date()"), (sql.time(3), "Time()")),
        (sql.NULL, "NullType()"),
        *((sql.INTERVAL_YEAR_MONTH, "Integer()"), (sql.char(3), "CHAR(length=3)"), (sql.varchar(9), "String(length=9)")),
        *((sql.STRING, "String()"), (sql.binary(2), "LargeBinary(length=2)"), (sql.BYTES, "LargeBinary()")),
        *((sql.decimal(9, 2), "Numeric(precision=9, scale=2)"), (sql.timestamp(3), "DateTime()")),
        *((sql.timestamp_ltz(3), "DateTime(timezone=True)"), (sql.array(sql.INT), "ARRAY(Integer())")),
    ],
)  # fmt: skip
def test_a_column_has_sqlalchemys_type(type_: LogicalType, made: str) -> None:
    assert repr(column_type(type_)) == made
    assert repr(column_type(type_.not_null())) == made


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (sql.array(sql.array(sql.INT)), "ARRAY<ARRAY<INT>>"),
        (sql.map_of(sql.STRING, sql.INT).not_null(), "MAP<STRING, INT>"),
        (sql.row(("a", sql.INT)), "ROW<`a` INT>"),
        (sql.multiset(sql.INT), "MULTISET<INT>"),
        (sql.INTERVAL_DAY_TIME, "INTERVAL DAY TO SECOND(3)"),
    ],
)
def test_a_type_without_a_class_keeps_its_text(type_: LogicalType, text: str) -> None:
    made = column_type(type_)
    assert isinstance(made, SqlType)
    assert type_text(made, DIALECT) == text


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        *((types.String(), "STRING"), (types.String(5), "VARCHAR(5)"), (types.Text(), "STRING")),
        (types.VARCHAR(3), "VARCHAR(3)"),
        *((types.Enum("a", "b"), "STRING"), (types.JSON(), "STRING"), (types.Uuid(), "STRING"), (types.Integer(), "INT")),
        *((types.Float(24), "FLOAT"), (types.Float(25), "DOUBLE"), (types.Float(), "DOUBLE"), (types.REAL(), "DOUBLE")),
        *((types.Double(), "DOUBLE"), (types.Numeric(), "DECIMAL(38, 18)"), (types.Numeric(9), "DECIMAL(9, 0)")),
        *((types.Numeric(9, 2), "DECIMAL(9, 2)"), (types.DateTime(), "TIMESTAMP(6)"), (types.DateTime(True), "TIMESTAMP_LTZ(6)")),
        *((types.Time(), "TIME(3)"), (types.LargeBinary(), "BYTES"), (types.LargeBinary(7), "VARBINARY(7)")),
        *((types.ARRAY(types.Integer()), "ARRAY<INT>"), (types.ARRAY(types.String(), dimensions=2), "ARRAY<ARRAY<STRING>>")),
        *((types.BigInteger(), "BIGINT"), (types.SmallInteger(), "SMALLINT"), (types.Boolean(), "BOOLEAN")),
        (types.Date(), "DATE"),
    ],
)  # fmt: skip
def test_a_type_of_sqlalchemy_is_written_in_sql(type_: types.TypeEngine[Any], text: str) -> None:
    assert type_text(type_, DIALECT) == text


TABLE = sa.Table(
    "t", sa.MetaData(), sa.Column("a", sa.Integer), sa.Column("Order", sa.String), sa.Column("x%", sa.Integer)
)


def written(statement: Any) -> str:
    return " ".join(str(statement.compile(dialect=DIALECT, compile_kwargs={"literal_binds": True})).split())


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        (sa.select(TABLE.c.a).limit(3), "SELECT t.a FROM t LIMIT 3"),
        (sa.select(TABLE.c.a).offset(2), "SELECT t.a FROM t OFFSET 2"),
        (sa.select(TABLE.c.a).limit(3).offset(2), "SELECT t.a FROM t LIMIT 3 OFFSET 2"),
        (sa.select(TABLE.c.a % 2), "SELECT MOD(t.a, 2) AS anon_1 FROM t"),
        (sa.select(TABLE.c.a.is_distinct_from(1)), "SELECT t.a IS DISTINCT FROM 1 AS anon_1 FROM t"),
        (sa.select(TABLE.c.a.is_not_distinct_from(1)), "SELECT t.a IS NOT DISTINCT FROM 1 AS anon_1 FROM t"),
        (sa.select(sa.func.now()), "SELECT CURRENT_TIMESTAMP AS now_1"),
        (sa.select(TABLE.c["x%"], TABLE.c.Order), "SELECT t.`x%`, t.`Order` FROM t"),
    ],
)
def test_a_query_is_written_in_flinks_sql(statement: Any, text: str) -> None:
    assert written(statement) == text


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (sa.select(TABLE.c.a).with_for_update(), "there are no locks"),
        (sa.insert(TABLE).values(a=1).returning(TABLE.c.a), "INSERT returns no rows"),
        (sa.update(TABLE).values(a=1), "the dialect compiles no UPDATE"),
        (sa.delete(TABLE), "the dialect compiles no DELETE"),
        (CreateTable(TABLE), 'table "t" names no connector'),
    ],
)
def test_what_tables_cannot_do_is_refused(statement: Any, words: str) -> None:
    with pytest.raises(sa.exc.CompileError, match=words):
        written(statement)


def created(*columns: Any, **options: Any) -> str:
    table = sa.Table("t", sa.MetaData(), *columns, sqlstream_with={"connector": "it's", "n": 5}, **options)
    return " ".join(str(CreateTable(table).compile(dialect=DIALECT)).split())


def test_a_table_is_created_with_its_options_and_its_key() -> None:
    columns = (
        sa.Column("k", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("s", sa.String, nullable=True, comment="it's a text"),
        sa.Column("n", sa.Integer, nullable=False),
    )
    assert created(*columns) == (
        "CREATE TABLE t ( k BIGINT NOT NULL, s STRING COMMENT 'it''s a text', n INT NOT NULL, PRIMARY KEY (k) NOT ENFORCED )"
        " WITH ( 'connector' = 'it''s', 'n' = '5' )"
    )
    assert (
        created(sa.Column("s", sa.String))
        == "CREATE TABLE t ( s STRING ) WITH ( 'connector' = 'it''s', 'n' = '5' )"
    )


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (sa.Column("k", sa.Integer, server_default="1"), 'column "k" has a server_default'),
        (sa.Column("k", sa.Integer, unique=True), "no UNIQUE constraints"),
        (sa.CheckConstraint("k > 1"), "no CHECK constraints"),
    ],
)
def test_what_no_table_has_is_refused(part: Any, words: str) -> None:
    with pytest.raises(sa.exc.CompileError, match=words):
        created(sa.Column("a", sa.Integer), part)
