"""Statements that run no job: what they answer and what they change."""

from __future__ import annotations

import msgspec
import pytest
from planner_harness import Planner

from sqlstream.catalog import CatalogTable, ObjectPath, PutObject, RemoveObject
from sqlstream.errors import UserError
from sqlstream.planner.statements.result import ResetConfig, SetConfig


def table(planner: Planner, name: str) -> CatalogTable:
    found = planner.catalog.get(ObjectPath("default_catalog", "default_database", name))
    assert isinstance(found, CatalogTable)
    return found


def test_create_table_resolves_every_kind_of_column(bare: Planner) -> None:
    bare.run("""
        CREATE TABLE x (
          k INT PRIMARY KEY NOT ENFORCED, ts TIMESTAMP(3), path STRING METADATA FROM 'file.path' VIRTUAL,
          twice AS k * 2, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
        ) WITH ('connector' = 'files', 'path' = 'p', 'format' = 'csv', 'csv.field-delimiter' = ';')""")
    made = table(bare, "x")
    assert str(made.schema) == "k INT NOT NULL, ts TIMESTAMP(3) *ROWTIME*, path STRING, twice INT"
    assert made.primary_key == ("k",)
    assert made.watermark is not None
    assert made.watermark.expression == "ts - INTERVAL '1' SECOND"
    assert made.columns[3].expression == "k * 2"


def test_a_connector_with_fixed_columns_brings_them(bare: Planner) -> None:
    bare.run("CREATE TABLE x (WATERMARK FOR ts AS ts) WITH ('connector' = 'auctions', 'table' = 'bid')")
    assert str(table(bare, "x").schema) == "auction BIGINT, price BIGINT, ts TIMESTAMP(3) *ROWTIME*"


def test_fixed_columns_may_be_declared_in_part_and_any_order(bare: Planner) -> None:
    bare.run(
        "CREATE TABLE x (ts TIMESTAMP(3), auction BIGINT) WITH ('connector' = 'auctions', 'table' = 'bid')"
    )
    assert table(bare, "x").schema.names == ("ts", "auction")


def test_metadata_is_read_after_the_physical_columns_and_cast(bare: Planner) -> None:
    bare.run("""CREATE TABLE x (size INT METADATA FROM 'file.size' VIRTUAL, a INT)
                WITH ('connector' = 'files', 'path' = 'p', 'format' = 'csv')""")
    assert bare.plan("SELECT size FROM x") == (
        "Project(size=[$0])\n"
        "+- Project(size=[CAST($1 AS INT)], a=[$0])\n"
        "   +- TableScan(table=[`x`], columns=[a], metadata=[file.size])"
    )


def test_if_not_exists_changes_nothing(planner: Planner) -> None:
    assert planner.ddl("CREATE TABLE IF NOT EXISTS t (z INT) WITH ('connector' = 'datagen')").changes == ()


def test_a_temporary_table_hides_a_permanent_one(planner: Planner) -> None:
    planner.run("CREATE TEMPORARY TABLE t (z INT) WITH ('connector' = 'datagen')")
    assert planner.schema("SELECT * FROM t") == "z INT"
    with pytest.raises(UserError, match="temporary"):
        planner.run("DROP TABLE t")
    planner.run("DROP TEMPORARY TABLE t")
    assert planner.bind("SELECT * FROM t").schema.names == ("a", "b", "s", "d")


def test_drop_answers_ok_and_names_what_goes(planner: Planner) -> None:
    view = planner.catalog.get(ObjectPath("default_catalog", "default_database", "v"))
    assert view is not None
    result = planner.ddl("DROP VIEW v")
    assert result.rows == (("OK",),)
    assert result.changes == (RemoveObject(view),)
    assert planner.ddl("DROP VIEW IF EXISTS v").changes == ()


def test_set_and_reset_are_changes_for_the_session(planner: Planner) -> None:
    assert planner.ddl("SET 'parallelism.default' = '4'").changes == (SetConfig("parallelism.default", "4"),)
    assert planner.ddl("RESET 'parallelism.default'").changes == (ResetConfig("parallelism.default"),)
    assert planner.ddl("RESET").changes == (ResetConfig(None),)
    planner.set("parallelism.default", "4")
    assert planner.ddl("SET").rows == (("parallelism.default", "4"),)


def test_show_lists_in_flinks_columns(planner: Planner) -> None:
    tables = planner.ddl("SHOW TABLES")
    assert tables.schema.names == ("table name",)
    assert tables.rows == (("e",), ("sink",), ("t",), ("u",), ("v",))
    assert planner.ddl("SHOW TABLES LIKE 's%'").rows == (("sink",),)
    assert planner.ddl("SHOW TABLES NOT LIKE '_'").rows == (("sink",),)
    assert planner.ddl("SHOW VIEWS").rows == (("v",),)
    assert ("count",) in planner.ddl("SHOW FUNCTIONS").rows
    assert planner.ddl("SHOW CURRENT DATABASE").rows == (("default_database",),)


def test_describe_shows_keys_extras_and_watermark(planner: Planner) -> None:
    described = planner.ddl("DESCRIBE e")
    assert described.schema.names == ("name", "type", "null", "key", "extras", "watermark")
    assert described.rows[5:] == (
        ("ts", "TIMESTAMP_LTZ(3)", True, None, "AS TO_TIMESTAMP_LTZ(millis, 3)", None),
        ("p", "TIMESTAMP_LTZ(3) *PROCTIME*", False, None, "AS PROCTIME()", None),
        ("rt", "TIMESTAMP(3) *ROWTIME*", True, None, None, "rt - INTERVAL '5' SECOND"),
    )


def test_show_create_table_creates_the_same_table_again(planner: Planner) -> None:
    planner.run("""CREATE TABLE x (k INT COMMENT 'it''s', ts TIMESTAMP(3), p AS PROCTIME(),
                   f STRING METADATA FROM 'file.path' VIRTUAL,
                   WATERMARK FOR ts AS ts, PRIMARY KEY (k) NOT ENFORCED) COMMENT 'c' PARTITIONED BY (k)
                   WITH ('connector' = 'files', 'path' = 'p', 'format' = 'csv')""")
    before = table(planner, "x")
    text = str(planner.ddl("SHOW CREATE TABLE x").rows[0][0])
    assert (
        text
        == """CREATE TABLE `default_catalog`.`default_database`.`x` (
  `k` INT NOT NULL COMMENT 'it''s',
  `ts` TIMESTAMP(3),
  `p` AS PROCTIME(),
  `f` STRING METADATA FROM 'file.path' VIRTUAL,
  WATERMARK FOR `ts` AS ts,
  CONSTRAINT `PK_k` PRIMARY KEY (`k`) NOT ENFORCED
)
COMMENT 'c'
PARTITIONED BY (`k`)
WITH (
  'connector' = 'files',
  'format' = 'csv',
  'path' = 'p'
)
"""
    )
    planner.run(f"DROP TABLE x; {text}")
    assert table(planner, "x") == before


def test_show_create_view_prints_its_query(planner: Planner) -> None:
    assert planner.ddl("SHOW CREATE VIEW v").rows == (
        (
            "CREATE VIEW `default_catalog`.`default_database`.`v`\n"
            "AS SELECT a, b * 2 AS twice FROM t WHERE a > 0\n",
        ),
    )


def test_create_view_stores_the_text_and_the_schema(planner: Planner) -> None:
    change = planner.ddl("CREATE TEMPORARY VIEW w (x) AS SELECT a FROM t").changes[0]
    assert isinstance(change, PutObject)
    assert str(change.entry.schema) == "x INT"
    assert change.entry.is_temporary


def test_values_of_secrets_are_masked_where_they_are_listed(bare: Planner) -> None:
    bare.run("CREATE TABLE x (k INT) WITH ('connector' = 'files', 'path' = 'p', 'format' = 'csv')")
    made = table(bare, "x")
    bare.catalog.put(msgspec.structs.replace(made, options={**made.options, "files.Password": "hunter2"}))
    assert "'files.Password' = '******'" in str(bare.ddl("SHOW CREATE TABLE x").rows[0][0])
    bare.set("my.secret-key", "hunter2")
    assert bare.ddl("SET").rows == (("my.secret-key", "******"),)
