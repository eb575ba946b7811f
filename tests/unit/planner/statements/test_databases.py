"""Statements about catalogs and databases, and names that are qualified with them."""

from __future__ import annotations

import pytest
from planner_harness import Planner

from sqlstream.catalog import CatalogView, ObjectPath
from sqlstream.errors import UserError
from sqlstream.planner.statements.show_create import qualified

TABLE = "(x INT) WITH ('connector' = 'datagen')"


def column(planner: Planner, text: str) -> list[object]:
    return [row[0] for row in planner.ddl(text).rows]


def test_use_makes_a_database_the_current_one_for_every_statement(planner: Planner) -> None:
    planner.run(f"CREATE DATABASE d; USE d; CREATE TABLE t {TABLE}")
    assert planner.schema("SELECT * FROM t") == "x INT"
    assert planner.schema("SELECT a FROM default_database.t") == "a INT"
    assert column(planner, "SHOW CURRENT DATABASE") == ["d"]
    assert column(planner, "SHOW TABLES") == ["t"]
    assert column(planner, "DESCRIBE t") == ["x"]
    planner.run("USE default_catalog.default_database")
    assert column(planner, "SHOW TABLES") == ["e", "sink", "t", "u", "v"]


def test_use_catalog_makes_its_default_database_the_current_one(planner: Planner) -> None:
    planner.run("CREATE CATALOG c WITH ('type' = 'generic_in_memory', 'default-database' = 'main')")
    planner.run(f"USE CATALOG c; CREATE TABLE t {TABLE}")
    assert column(planner, "SHOW CURRENT CATALOG") == ["c"]
    assert column(planner, "SHOW CURRENT DATABASE") == ["main"]
    assert planner.schema("SELECT c.main.t.x FROM c.main.t") == "x INT"
    assert column(planner, "SHOW CATALOGS") == ["c", "default_catalog"]


def test_a_qualified_name_works_in_every_statement(planner: Planner) -> None:
    planner.run("CREATE CATALOG c WITH ('type' = 'generic_in_memory', 'default-database' = 'd')")
    planner.run(f"CREATE TABLE c.d.t {TABLE}; CREATE VIEW c.d.w AS SELECT x AS y FROM c.d.t")
    planner.run("CREATE TABLE c.d.s (x INT) WITH ('connector' = 'blackhole')")
    assert planner.schema("SELECT * FROM c.d.w JOIN c.d.t ON w.y = t.x") == "y INT, x INT"
    assert "`c`.`d`.`s`" in planner.plan("INSERT INTO c.d.s SELECT x FROM c.d.t")
    assert column(planner, "DESCRIBE c.d.t") == ["x"]
    assert column(planner, "SHOW COLUMNS FROM c.d.w") == ["y"]
    assert str(planner.ddl("SHOW CREATE TABLE c.d.t").rows[0][0]).startswith("CREATE TABLE `c`.`d`.`t` (")
    planner.run("ALTER TABLE c.d.t RENAME TO c.d.u; DROP VIEW c.d.w; DROP TABLE c.d.u")
    assert column(planner, "SHOW TABLES IN c.d") == ["s"]


def test_show_lists_the_named_namespace_and_filters(planner: Planner) -> None:
    planner.run("CREATE CATALOG c WITH ('type' = 'generic_in_memory'); CREATE DATABASE c.reports")
    planner.run(f"CREATE TABLE c.reports.day {TABLE}; CREATE VIEW c.reports.night AS SELECT 1 AS x")
    assert column(planner, "SHOW DATABASES") == ["default_database"]
    assert column(planner, "SHOW DATABASES FROM c") == ["default", "reports"]
    assert column(planner, "SHOW DATABASES IN c NOT LIKE 'r%'") == ["default"]
    assert column(planner, "SHOW TABLES FROM c.reports ILIKE 'D%'") == ["day"]
    assert column(planner, "SHOW VIEWS FROM c.reports") == ["night"]
    planner.run("USE CATALOG c")
    assert column(planner, "SHOW TABLES FROM reports") == ["day", "night"]


def test_names_in_a_view_are_those_of_where_it_was_created(planner: Planner) -> None:
    planner.run("CREATE DATABASE d; CREATE VIEW d.w AS SELECT a FROM t; USE d")
    assert planner.schema("SELECT * FROM w") == "a INT"
    planner.run("CREATE DATABASE e; CREATE VIEW own AS SELECT * FROM w; USE e")
    assert planner.schema("SELECT * FROM d.own") == "a INT"
    planner.run("ALTER VIEW d.own AS SELECT 1 AS one")
    altered = planner.catalog.get(ObjectPath("default_catalog", "d", "own"))
    assert isinstance(altered, CatalogView)
    assert (altered.query_catalog, altered.query_database, altered.query) == ("", "e", "SELECT 1 AS one")


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("SELECT a FROM t", "SELECT a FROM `c`.`d`.`t`"),
        ("SELECT t.a FROM e.t AS t, c.d.u x", "SELECT t.a FROM `c`.`e`.`t` AS t, c.d.u x"),
        (
            "WITH a AS (SELECT * FROM a) SELECT * FROM a",
            "WITH a AS (SELECT * FROM `c`.`d`.`a`) SELECT * FROM a",
        ),
        (
            "WITH a AS (SELECT 1 AS x), b AS (SELECT * FROM a, b) SELECT * FROM a, b, z WHERE x IN (SELECT y FROM b)",
            "WITH a AS (SELECT 1 AS x), b AS (SELECT * FROM a, `c`.`d`.`b`) SELECT * FROM a, b, `c`.`d`.`z`"
            " WHERE x IN (SELECT y FROM b)",
        ),
        (
            "SELECT * FROM TABLE(TUMBLE(TABLE `t`, DESCRIPTOR(r), INTERVAL '1' DAY)) UNION ALL SELECT * FROM t",
            "SELECT * FROM TABLE(TUMBLE(TABLE `c`.`d`.`t`, DESCRIPTOR(r), INTERVAL '1' DAY))"
            " UNION ALL SELECT * FROM `c`.`d`.`t`",
        ),
        (
            "SELECT * FROM (WITH t AS (SELECT 1 AS a) SELECT * FROM t) AS s, t",
            "SELECT * FROM (WITH t AS (SELECT 1 AS a) SELECT * FROM t) AS s, `c`.`d`.`t`",
        ),
    ],
)
def test_a_query_is_qualified_but_for_its_with_queries(query: str, shown: str) -> None:
    assert qualified(query, "c", "d") == shown


def test_show_create_view_creates_the_same_view_from_anywhere(planner: Planner) -> None:
    planner.run("CREATE DATABASE d; CREATE VIEW d.w AS SELECT a FROM t; USE d")
    text = str(planner.ddl("SHOW CREATE VIEW w").rows[0][0])
    assert text.endswith("AS SELECT a FROM `default_catalog`.`default_database`.`t`\n")
    planner.run(f"DROP VIEW w; {text}")
    assert planner.schema("SELECT * FROM w") == "a INT"


def test_if_exists_and_if_not_exists_change_nothing(planner: Planner) -> None:
    planner.run("CREATE DATABASE d; CREATE CATALOG c WITH ('type' = 'generic_in_memory')")
    for text in (
        "CREATE DATABASE IF NOT EXISTS d",
        "CREATE CATALOG IF NOT EXISTS c WITH ('type' = 'generic_in_memory')",
        "DROP DATABASE IF EXISTS absent",
        "DROP CATALOG IF EXISTS absent",
        "ALTER TABLE IF EXISTS absent RENAME TO other",
        "ALTER TABLE IF EXISTS absent SET ('a' = 'b')",
    ):
        assert planner.ddl(text).changes == ()


def test_a_database_drops_when_it_is_empty_or_with_cascade(planner: Planner) -> None:
    planner.run(f"CREATE DATABASE d; CREATE TABLE d.t {TABLE}")
    with pytest.raises(UserError, match="not empty"):
        planner.run("DROP DATABASE d")
    planner.run("DROP DATABASE d CASCADE; CREATE DATABASE d; DROP DATABASE d")
    assert column(planner, "SHOW DATABASES") == ["default_database"]


def test_a_dropped_current_catalog_of_another_session_is_an_error_at_its_name(planner: Planner) -> None:
    planner.run("CREATE DATABASE d; USE d")
    other = Planner()
    other.catalog.manager = planner.catalog.manager
    other.run("DROP DATABASE d")
    for text in ("SHOW TABLES", f"CREATE TABLE t {TABLE}", "SELECT * FROM t", "DROP TABLE t"):
        with pytest.raises(UserError, match=r'database "default_catalog\.d" does not exist'):
            planner.run(text)
    planner.run("USE default_database")


def test_describe_shows_comment_and_with_extended_the_rest(planner: Planner) -> None:
    planner.run("CREATE DATABASE d COMMENT 'daily' WITH ('owner' = 'me', 'api-token' = 'abcd')")
    planner.run("ALTER DATABASE d SET ('owner' = 'you', 'more' = '1')")
    assert planner.ddl("DESCRIBE DATABASE d").rows == (
        ("name", "d"),
        ("catalog", "default_catalog"),
        ("comment", "daily"),
    )
    assert planner.ddl("DESC DATABASE EXTENDED default_catalog.d").rows[3:] == (
        ("property:api-token", "******"),
        ("property:more", "1"),
        ("property:owner", "you"),
    )
    planner.run("CREATE CATALOG c COMMENT 'it''s' WITH ('type' = 'generic_in_memory')")
    described = planner.ddl("DESCRIBE CATALOG c")
    assert described.schema.names == ("info name", "info value")
    assert described.rows == (("name", "c"), ("type", "generic_in_memory"), ("comment", "it's"))
    assert planner.ddl("DESCRIBE CATALOG EXTENDED default_catalog").rows == (
        ("name", "default_catalog"),
        ("type", "generic_in_memory"),
        ("comment", None),
        ("option:default-database", "default_database"),
    )


def test_show_create_catalog_creates_the_same_catalog_again(planner: Planner) -> None:
    planner.run(
        "CREATE CATALOG c COMMENT 'it''s' WITH ('type' = 'generic_in_memory', 'default-database' = 'x')"
    )
    before = planner.catalog.definition("c")
    text = str(planner.ddl("SHOW CREATE CATALOG c").rows[0][0])
    assert text == (
        "CREATE CATALOG `c`\nCOMMENT 'it''s'\nWITH (\n"
        "  'default-database' = 'x',\n  'type' = 'generic_in_memory'\n)\n"
    )
    planner.run(f"DROP CATALOG c; {text}")
    assert planner.catalog.definition("c") == before


def test_alter_table_sets_resets_and_renames(planner: Planner) -> None:
    planner.run("ALTER TABLE t SET ('number-of-rows' = '4'); ALTER TABLE t RENAME TO renamed")
    assert "'number-of-rows' = '4'" in str(planner.ddl("SHOW CREATE TABLE renamed").rows[0][0])
    planner.run("ALTER TABLE renamed RESET ('number-of-rows'); ALTER VIEW v AS SELECT a FROM renamed")
    assert "number-of-rows" not in str(planner.ddl("SHOW CREATE TABLE renamed").rows[0][0])
    assert planner.schema("SELECT * FROM v") == "a INT"
    planner.run("ALTER VIEW v RENAME TO w")
    assert column(planner, "SHOW TABLES") == ["e", "renamed", "sink", "u", "w"]


def test_alter_changes_the_visible_object_and_not_the_one_that_it_hides(planner: Planner) -> None:
    planner.run(f"CREATE TEMPORARY TABLE t {TABLE}; ALTER TABLE t RENAME TO other")
    assert planner.schema("SELECT * FROM other") == "x INT"
    assert planner.bind("SELECT * FROM t").schema.names == ("a", "b", "s", "d")
    with pytest.raises(UserError, match="exists already"):
        planner.run(f"CREATE TEMPORARY TABLE t {TABLE}; ALTER TABLE t RENAME TO other")


def test_a_view_that_hides_what_it_reads_is_refused(planner: Planner) -> None:
    with pytest.raises(UserError, match='view "v" reads itself') as refused:
        planner.run("CREATE TEMPORARY VIEW v AS SELECT * FROM v")
    assert refused.value.span is not None


def test_a_view_that_reads_itself_through_another_is_refused(planner: Planner) -> None:
    planner.run("CREATE VIEW w AS SELECT * FROM v")
    with pytest.raises(UserError, match='view "v" reads itself'):
        planner.run("ALTER VIEW v AS SELECT * FROM w")


def test_a_qualified_target_of_rename_names_the_same_database(planner: Planner) -> None:
    planner.run("ALTER TABLE t RENAME TO default_catalog.default_database.s")
    assert "s" in column(planner, "SHOW TABLES")
