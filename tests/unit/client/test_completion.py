"""Completion: the cursor is `|`, and the candidates are compared with literal words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest
from work_harness import calls_of

from sqlstream.client.completion import CandidateKind, Name, OptionName, complete
from sqlstream.client.completion.cursor import TEXT_CHARACTERS_MAX
from sqlstream.client.completion.phrases import parse_phrase
from sqlstream.client.completion.session_vocabulary import SessionVocabulary
from sqlstream.client.sessions.session import Session

TABLES = {
    ("orders",): [
        Name("id", "INT"),
        Name("user_id", "BIGINT"),
        Name("order", "STRING"),
        Name("ts", "TIMESTAMP(3)"),
    ],
    ("users",): [Name("id", "BIGINT"), Name("name", "STRING")],
    ("churn$weights",): [Name("feature", "STRING")],
    ("orders$late",): [Name("id", "INT"), Name("$watermark", "TIMESTAMP(3)")],
}


class Words:
    """A vocabulary of two tables."""

    def catalogs(self) -> list[str]:
        return ["default_catalog", "kept"]

    def databases(self, catalog: str) -> list[str]:
        return ["archive"] if catalog == "kept" else ["default_database"]

    def tables(self, catalog: str, database: str) -> list[Name]:
        if (catalog, database) == ("kept", "archive"):
            return [Name("old_orders", "table")]
        return (
            [Name("orders", "table"), Name("users", "table"), Name("user_view", "view")]
            if not database
            else []
        )

    def columns(self, path: tuple[str, ...]) -> list[Name]:
        return TABLES.get(path, [])

    def files(self, prefix: str) -> list[Name]:
        paths = [Name("data/", "directory"), Name("data/clicks.csv", "csv"), Name("it's.json", "json")]
        return [path for path in paths if path.text.startswith(prefix)]

    def functions(self) -> list[Name]:
        return [Name("UPPER", "UPPER(text)"), Name("UUID", "UUID()"), Name("COUNT", "COUNT(*)")]

    def settings(self) -> list[OptionName]:
        return [
            OptionName("parallelism.default", "Parallelism"),
            OptionName("table.dml-sync", "Wait", ("true", "false")),
        ]

    def connectors(self) -> list[str]:
        return ["datagen", "filesystem"]

    def models(self) -> list[str]:
        return ["churn"]

    def formats(self) -> list[str]:
        return ["csv", "json"]

    def table_options(self, given: Mapping[str, str]) -> list[OptionName]:
        found = [OptionName("connector", "required"), OptionName("format", "", ("csv", "json"))]
        if given.get("connector") == "datagen":
            found.append(OptionName("fields.#.kind", "", ("random", "sequence")))
        if given.get("format") == "csv":
            found.append(OptionName("csv.field-delimiter"))
        return found

    def jobs(self) -> list[Name]:
        return [Name("0a1b", "RUNNING")]


def candidates(text: str) -> list[str]:
    position = text.index("|")
    return [c.text for c in complete(text.replace("|", "", 1), position, Words())]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SEL|", ["SELECT"]),
        ("sel|", ["select"]),
        ("SELECT 1; SHO|", ["SHOW"]),
        ("SHOW CREATE |", ["CATALOG", "FUNCTION", "MODEL", "TABLE", "VIEW"]),
        ("SHOW CREATE MODEL |", ["churn"]),
        ("CREATE MODEL m |", ["COMMENT", "INPUT", "WITH"]),
        ("CREATE MODEL m WITH ('algorithm' = 'k-means') AS SELECT id FROM ord|", ["orders"]),
        ("CREATE MODEL m INPUT (x INT) OUTPUT (y INT) WITH ('prov|", ["'provider'"]),
        (
            "CREATE MODEL m INPUT (x STRING) OUTPUT (y STRING) WITH ('provider' = 'openai', 'error-handling-strategy' = '|",
            ["'RETRY'", "'FAILOVER'", "'IGNORE'"],
        ),
        ("ALTER MODEL churn SET ('retry-n|", ["'retry-num'"]),
        ("ALTER MODEL churn |", ["RENAME", "RESET", "SET"]),
        ("SELECT * FROM ML_PREDICT(TABLE t, |", ["MODEL", "DESCRIPTOR"]),
        ("SELECT * FROM ML_P|", ["ML_PREDICT"]),
        ("SELECT * FROM orders, LATERAL TABLE(VEC|", ["VECTOR_SEARCH"]),
        ("SELECT * FROM orders, LATERAL TABLE(VECTOR_SEARCH(T|", ["TABLE"]),
        ("SELECT * FROM orders, LATERAL TABLE(VECTOR_SEARCH(TABLE users, DESC|", ["DESCRIPTOR"]),
        ("DROP TABLE |", ["orders", "users", "default_database", "default_catalog", "kept", "IF"]),
        ("DROP VIEW us|", ["user_view"]),
        ("SELECT * FROM orders$|", ["orders$late"]),
        ("SELECT * FROM churn$|", ["churn$weights"]),
        ("DESCRIBE ord|", ["orders"]),
        ("SELECT i| FROM orders$late", ["id", "interval"]),
        ("SELECT `$| FROM orders$late", ["`$watermark`"]),
        ("SELECT * FROM orders UNP|", ["UNPIVOT"]),
        ("SELECT * FROM users UNPIVOT (|", []),
        ("SELECT * FROM users UNPIVOT (v |", ["FOR"]),
        ("SELECT * FROM users UNPIVOT (v FOR n |", ["IN"]),
        ("SELECT * FROM users UNPIVOT (v FOR n IN (|", ["id", "name", "users"]),
        ("SELECT * FROM users UNPIVOT (v FOR n IN (id, n|", ["name"]),
        ("SELECT * FROM users PIVOT (COUNT(*) F|", ["FILTER", "FOR"]),
        ("SELECT * FROM users PIVOT (COUNT(*) FOR na|", ["name"]),
        ("SELECT * FROM users PIVOT (COUNT(*) FOR name |", ["IN"]),
        ("SELECT * E|", ["EXCEPT", "EXCLUDE"]),
        ("SELECT users.* EXCL| FROM users", ["EXCLUDE"]),
        ("SELECT * EXCEPT (na| FROM users", ["name"]),
        ("SELECT 2 * e| FROM users", ["exists"]),
        ("SELECT id FROM orders GROUP BY AL|", ["ALL"]),
        ("SELECT id FROM orders WHERE id IL|", ["ILIKE"]),
        ("DROP TABLE IF |", ["EXISTS"]),
        ("DESCRIBE FUNCTION up|", ["UPPER"]),
        ("STOP JOB |", ["'0a1b'"]),
        ("STOP JOB '0a1b' WITH SAVEPOINT |", ["WITH"]),
        ("SHOW CHECKPOINTS FOR JOB |", ["'0a1b'"]),
        ("EXPLAIN CHANGELOG_MODE SEL|", ["SELECT"]),
        ("EXECUTE STATEMENT SET BEGIN INS|", ["INSERT"]),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO users SELECT 1, 'a'; E|", ["END"]),
        ("BEGIN STATEMENT SET; I|", ["INSERT"]),
        ("INSERT INTO users (|", ["id", "name"]),
        ("INSERT OV|", ["OVERWRITE"]),
        ("CALL trigger_s|", ["trigger_savepoint"]),
        ("SHOW PART|", ["PARTITIONS"]),
        ("ANALYZE TABLE us|", ["users"]),
        ("COMPILE AND |", ["EXECUTE"]),
        ("TRUNC|", ["TRUNCATE"]),
        ("DELETE FROM us|", ["users"]),
        ("UPDATE users SET |", ["id", "name"]),
        ("UPDATE users AS u SET id = 1, na|", ["name"]),
        ("DELETE FROM users WHERE na|", ["name"]),
        ("INSERT INTO users S|", ["SELECT"]),
        ("WITH |", ["RECURSIVE", "MUTUALLY RECURSIVE"]),
        ("WITH MUTUALLY |", ["RECURSIVE"]),
        ("WITH MUTUALLY RECURSIVE |", []),
        ("WITH MUTUALLY RECURSIVE w (n INT) |", ["AS"]),
        ("WITH RECURSIVE |", []),
        ("WITH RECURSIVE w |", ["AS"]),
        ("WITH w |", ["AS"]),
        ("WITH w AS (SELECT 1) |", ["SELECT"]),
        ("USE CATALOG k|", ["kept"]),
    ],
)
def test_statements_are_completed_by_their_grammar(text: str, expected: list[str]) -> None:
    assert candidates(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT u| FROM orders", ["user_id", "upper", "uuid"]),
        ("SELECT U| FROM orders", ["user_id", "UPPER", "UUID"]),
        ("SELECT id, | FROM users WHERE id > 3", ["id", "name", "users"]),
        ("SELECT o.us| FROM orders AS o JOIN users u ON o.id = u.id", ["user_id"]),
        ("SELECT u.| FROM orders AS o JOIN users u ON o.id = u.id", ["id", "name"]),
        ("SELECT * FROM orders WHERE ts|", ["ts"]),
        ("SELECT `or| FROM orders", ["`order`", "`orders`"]),
        ("SELECT orde| FROM orders", ["`order`", "orders"]),
        ("SELECT x.| FROM (SELECT id AS n, name, UPPER(name) FROM users) AS x", ["n", "name"]),
        ("SELECT x.| FROM (SELECT * FROM users) x", ["id", "name"]),
        ("WITH w AS (SELECT user_id u FROM orders) SELECT w.| FROM w", ["u"]),
        ("WITH RECURSIVE w AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM w) SELECT w.| FROM w", ["n"]),
        ("WITH RECURSIVE w AS (SELECT * FROM w) SELECT w.| FROM w", []),
        ("SELECT (SELECT MAX(i|) FROM users) FROM orders", ["id", "user_id"]),
        ("SELECT 1 FROM orders UNION ALL SELECT na| FROM users", ["name"]),
        ("SELECT win| FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))",
         ["window_start", "window_end", "window_time"]),
        ("SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(t|", ["ts"]),
        ("SELECT * FROM TABLE(TUMBLE(TABLE us|", ["users", "user_view"]),
        ("SELECT COUNT(*) OVER (PARTITION BY user| FROM orders", ["user_id"]),
    ],
)  # fmt: skip
def test_columns_are_those_of_the_tables_in_from(text: str, expected: list[str]) -> None:
    operands = ("CASE", "CAST", "NOT", "EXISTS", "NULL", "TRUE", "FALSE", "INTERVAL", "ARRAY", "MAP", "ROW")
    assert [c for c in candidates(text) if c.upper() not in operands] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT id FROM us|", ["users", "user_view"]),
        ("SELECT id FROM kept.|", ["archive"]),
        ("SELECT id FROM kept.archive.|", ["old_orders"]),
        ("WITH w AS (SELECT 1) SELECT * FROM w|", ["w"]),
        ("SELECT 1 FROM orders JOIN user|", ["users", "user_view"]),
        ("SELECT 1 FROM orders, user|", ["users", "user_view"]),
    ],
)
def test_from_is_completed_with_tables_and_queries_of_with(text: str, expected: list[str]) -> None:
    assert candidates(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT id F| ", ["FROM"]),
        ("SELECT id FROM users W|", ["WHERE"]),
        ("SELECT id FROM users GROUP |", ["BY"]),
        ("SELECT id FROM users ORDER BY id D|", ["DESC"]),
        ("SELECT id FROM users LEFT |", ["JOIN", "OUTER JOIN"]),
        ("SELECT id FROM users JOIN orders O|", ["ON"]),
        ("SELECT id FROM users WHERE id IS |",
         ["NULL", "NOT NULL", "TRUE", "FALSE", "DISTINCT FROM", "NOT DISTINCT FROM"]),
        ("SELECT CAST(id A|", ["AS", "AND"]),
        ("SELECT CAST(id AS BIG|", ["BIGINT"]),
        ("SELECT INTERVAL '1' MIN|", ["MINUTE"]),
        ("SELECT COUNT(*) OVER (|", ["PARTITION BY", "ORDER BY"]),
        ("SELECT CASE W|", ["WHEN"]),
        ("SELECT a -- comment |", []),
        ("SELECT a /* comment |", []),
        ("SELECT 12|", []),
    ],
)  # fmt: skip
def test_keywords_follow_the_clause(text: str, expected: list[str]) -> None:
    assert candidates(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE TABLE t (a IN|", ["INT", "INTERVAL"]),
        ("CREATE TABLE t (a INT, W|", ["WATERMARK FOR"]),
        ("CREATE TABLE t (a INT METADATA |", ["FROM", "VIRTUAL"]),
        ("CREATE TABLE t (a INT METADATA FROM 'b' |", ["VIRTUAL", "COMMENT"]),
        ("CREATE TABLE t (a INT NOT |", ["NULL", "ENFORCED"]),
        ("CREATE TABLE t (a INT PRIMARY |", ["KEY NOT ENFORCED"]),
        ("CREATE TABLE t (a INT, b TIMESTAMP(3), WATERMARK FOR |", ["a", "b"]),
        ("CREATE TABLE t (a INT, b INT, PRIMARY KEY (|", ["a", "b"]),
        ("CREATE TABLE t (a INT, b INT, PRIMARY KEY (a, |) NOT ENFORCED)", ["a", "b"]),
        ("CREATE TABLE t (a INT) WITH ('|", ["'connector'", "'format'"]),
        ("CREATE TABLE t (a INT) WITH (|)", ["'connector'", "'format'"]),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'f|'", ["'filesystem"]),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'fields.|", ["'fields.a.kind'"]),
        ("CREATE TABLE t (a INT) WITH ('|', 'format' = 'csv')", ["'connector", "'csv.field-delimiter"]),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'fields.a.kind' = '|", ["'random'", "'sequence'"]),
        ("SELECT * FROM users /*+ OPTIONS('f|", ["'format'"]),
        ("SET 'par|", ["'parallelism.default'"]),
        ("SET 'default|", ["'parallelism.default'"]),
        ("SET 'table.dml-sync' = '|", ["'true'", "'false'"]),
        ("RESET |", ["'parallelism.default'", "'table.dml-sync'"]),
    ],
)  # fmt: skip
def test_definitions_and_options_are_completed(text: str, expected: list[str]) -> None:
    assert candidates(text) == expected


def test_a_candidate_says_what_it_replaces_and_what_it_is() -> None:
    (found,) = complete("SELECT o.us FROM orders o", 11, Words())
    assert (found.text, found.kind, found.detail, found.start) == (
        "user_id",
        CandidateKind.COLUMN,
        "BIGINT",
        9,
    )


@pytest.mark.parametrize(
    "text", ['SELECT "', "SELECT @ ` ' {", "))))((((", "SELECT * FROM (((", "\x00", "WITH a AS (", ";;;"]
)
def test_any_text_is_read_at_any_position(text: str) -> None:
    for position in range(-1, len(text) + 2):
        complete(text, position, Words())


@pytest.mark.parametrize(
    ("part", "count"), [("(", 5_000), ("SELECT (", 1_250), ("a.", 5_000), ('"', 5_000), ("WITH a AS (", 750)]
)
def test_deep_text_is_read_by_work_that_grows_with_its_length(part: str, count: int) -> None:
    def work(count: int) -> int:
        text = part * count
        return calls_of(lambda: complete(text, len(text), Words()))

    # Work that grew with the square would be sixteen times as much.
    assert work(4 * count) < 6 * work(count)


def test_a_query_that_names_itself_ends() -> None:
    assert "n" in candidates("WITH w AS (SELECT n, w.* FROM w) SELECT | FROM w")


def test_a_text_that_is_too_long_is_not_read() -> None:
    assert complete(" " * TEXT_CHARACTERS_MAX + "SEL", TEXT_CHARACTERS_MAX + 3, Words()) == ()


def test_a_wrong_phrase_is_refused() -> None:
    with pytest.raises(ValueError, match="unexpected"):
        parse_phrase("SHOW ] TABLES")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("'connector' = 'kafka', 'value.|", ["'value.fields-include'", "'value.format'"]),
        ("'connector' = 'kafka', 'value.format' = 'ra|", ["'raw'"]),
        ("'connector' = 'kafka', 'key.format' = 'ra|", ["'raw'"]),
        (
            "'connector' = 'kafka', 'value.format' = 'json', 'value.json.ig|",
            ["'value.json.ignore-parse-errors'"],
        ),
        (
            "'connector' = 'kafka', 'value.json.ig|', 'value.format' = 'json'",
            ["'value.json.ignore-parse-errors"],
        ),
        ("'key.format' = 'avro-confluent', 'key.avro-confluent.u|", ["'key.avro-confluent.url'"]),
        ("'key.format' = 'json', 'key.json.ignore-parse-errors' = '|", ["'true'", "'false'"]),
        ("'connector' = 'kafka', 'format' = 'json', 'value.fo|", []),
        ("'connector' = 'kafka', 'format' = 'can|", ["'canal-json'"]),
        ("'connector' = 'kafka', 'key.format' = 'can|", []),
        ("'connector' = 'upsert-kafka', 'value.format' = 'can|", []),
        ("'connector' = 'http', 'key.|", []),
        ("'connector' = 'filesystem', 'format' = 'or|", ["'orc'"]),
        ("'connector' = 'kafka', 'format' = 'or|", []),
    ],
)
def test_formats_of_values_and_keys_and_their_options_are_completed(
    options: str, expected: list[str]
) -> None:
    text = f"CREATE TABLE t (a INT) WITH ({options}"
    vocabulary = SessionVocabulary(Session(cast("Any", None)))
    found = complete(text.replace("|", "", 1), text.index("|"), vocabulary)
    assert [c.text for c in found] == expected
