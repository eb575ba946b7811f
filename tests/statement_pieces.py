# ruff: noqa: E501
"""Valid statements, and pieces to put into them: see tests/property/test_statement_fuzz.py."""

from __future__ import annotations

DDL = """
CREATE TABLE e (id BIGINT, s STRING, d DECIMAL(10, 2), f DOUBLE, b BOOLEAN, dt DATE, tm TIME, ts TIMESTAMP(3),
  lz TIMESTAMP_LTZ(3), r ROW<x INT, y ROW<z STRING>>, l ARRAY<INT>, m MAP<STRING, INT>, v VARBINARY(5), c CHAR(3),
  p AS PROCTIME(), n AS id + 1, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'datagen', 'rows-per-second' = '10');
CREATE TABLE o (id BIGINT, s STRING, d DECIMAL(10, 2), ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'print');
CREATE VIEW w AS SELECT id, s, COUNT(*) AS k FROM e GROUP BY id, s;
"""
STATEMENTS = (
    "SELECT id, s || 'x', CASE WHEN b THEN 1 ELSE 2 END FROM e WHERE d > 1.5 AND s LIKE 'a%' ESCAPE '!' ORDER BY id LIMIT 3;",
    "SELECT s, COUNT(*), SUM(d) FILTER (WHERE b), AVG(f), LISTAGG(DISTINCT s, ',') FROM e GROUP BY s HAVING COUNT(*) > 1;",
    "SELECT window_start, window_end, MAX(id) FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
    "GROUP BY window_start, window_end;",
    "SELECT * FROM TABLE(HOP(DATA => TABLE e, TIMECOL => DESCRIPTOR(ts), SLIDE => INTERVAL '1' MINUTE, SIZE => INTERVAL '5' MINUTE));",
    "SELECT s, SUM(d) FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(p), INTERVAL '1' MINUTE, INTERVAL '1' HOUR)) GROUP BY s, window_start, window_end;",
    "SELECT s, COUNT(*) FROM TABLE(SESSION(TABLE e PARTITION BY s, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) GROUP BY s, window_start, window_end;",
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY s ORDER BY ts DESC) AS rn FROM e) WHERE rn <= 3;",
    "SELECT a.id, z.k FROM e AS a LEFT JOIN w AS z ON a.id = z.id AND a.s = z.s WHERE z.k IS NOT NULL;",
    "SELECT a.id FROM e a JOIN e z ON a.id = z.id AND a.ts BETWEEN z.ts - INTERVAL '1' HOUR AND z.ts + INTERVAL '5' MINUTE;",
    "WITH q AS (SELECT id, r.y.z AS z, l[1] AS i, m['k'] AS j FROM e), q2 (a, b) AS (SELECT id, z FROM q) "
    "SELECT q.id, q2.b FROM q JOIN q2 ON q.id = q2.a UNION ALL SELECT id, s FROM e;",
    "SELECT CAST(id AS STRING), TRY_CAST(s AS DECIMAL(38, 18)), CAST(ts AS DATE), EXTRACT(YEAR FROM ts), "
    "TIMESTAMPADD(DAY, 1, dt), FLOOR(ts TO HOUR), CEIL(f), POSITION('a' IN s), SUBSTRING(s FROM 1 FOR 2), TRIM(BOTH 'x' FROM s) FROM e;",
    "SELECT id IN (1, 2, NULL), s NOT IN ('a'), b IS NOT UNKNOWN, d BETWEEN 1 AND 2, s SIMILAR TO 'a+', ROW(1, 'a').EXPR$0 FROM e;",
    "SELECT ARRAY[1, 2][1], MAP['a', 1]['a'], CARDINALITY(l), DATE '2020-01-01' + INTERVAL '1-2' YEAR TO MONTH, "
    "TIMESTAMP '2020-01-01 00:00:00' - INTERVAL '1 02:03:04' DAY TO SECOND, TO_TIMESTAMP_LTZ(id, 3), DATE_FORMAT(ts, 'yyyy-MM') FROM e;",
    "INSERT INTO o SELECT id, s, d, ts FROM e;",
    "INSERT INTO o (id, s) VALUES (1, 'a'), (2, CAST(NULL AS STRING));",
    "EXECUTE STATEMENT SET BEGIN INSERT INTO o SELECT id, s, d, ts FROM e; INSERT INTO o SELECT id, s, d, ts FROM e WHERE b; END;",
    "EXPLAIN CHANGELOG_MODE SELECT s, COUNT(*) FROM e /*+ OPTIONS('rows-per-second' = '5') */ GROUP BY s;",
    "SELECT DISTINCT s, dt FROM e ORDER BY dt DESC NULLS LAST, s OFFSET 1 ROW FETCH NEXT 2 ROWS ONLY;",
    "SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS x(i, t);",
    "SET 'table.local-time-zone' = 'Europe/Berlin'; SELECT CAST(lz AS STRING), CURRENT_TIMESTAMP FROM e; RESET;",
    "SHOW TABLES; DESCRIBE e; SHOW CREATE TABLE e; SHOW VIEWS; SHOW FUNCTIONS; DROP VIEW IF EXISTS w; DROP TABLE o;",
    "CREATE TABLE x (a INT, f STRING METADATA FROM 'file.path', k INT) PARTITIONED BY (k) "
    "WITH ('connector' = 'filesystem', 'path' = '/nowhere', 'format' = 'csv', 'csv.field-delimiter' = ';'); SELECT * FROM x;",
    "CREATE TEMPORARY VIEW y (a, b) AS SELECT id, s FROM e; SELECT a FROM y; CREATE DATABASE IF NOT EXISTS q; USE q;",
    "CREATE CATALOG c COMMENT 'x' WITH ('type' = 'generic_in_memory'); USE CATALOG c; CREATE DATABASE c.d WITH ('a' = 'b'); "
    "CREATE VIEW d.v AS SELECT id FROM default_catalog.default_database.e; ALTER DATABASE d SET ('a' = 'c'); USE d; SELECT * FROM v; "
    "SHOW CREATE VIEW v; SHOW TABLES FROM c.d NOT LIKE 'x%'; SHOW DATABASES IN c; DESCRIBE CATALOG EXTENDED c; "
    "USE default_catalog.default_database; DROP DATABASE IF EXISTS c.d CASCADE; DROP CATALOG c; SHOW CATALOGS;",
    "ALTER TABLE e RENAME TO f; ALTER TABLE f SET ('number-of-rows' = '5'); ALTER TABLE f RESET ('number-of-rows'); "
    "ALTER VIEW w AS SELECT 1 AS a; ALTER VIEW w RENAME TO w2; DESC DATABASE EXTENDED default_database; SHOW CREATE CATALOG default_catalog;",
)  # fmt: skip
TYPES = (
    "INT", "TINYINT", "BIGINT NOT NULL", "STRING", "VARCHAR(3)", "CHAR(1)", "CHAR(0)", "BOOLEAN", "BYTES", "BINARY(2)",
    "DECIMAL", "DECIMAL(38, 38)", "DECIMAL(1, 0)", "DECIMAL(39, 0)", "FLOAT", "DOUBLE PRECISION", "DATE", "TIME(3)", "TIMESTAMP(9)",
    "TIMESTAMP_LTZ(0)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "ARRAY<INT>", "MAP<STRING, ROW<a INT>>", "ROW<a INT, a INT>",
    "MULTISET<INT>", "INTERVAL DAY TO SECOND(3)", "INTERVAL YEAR", "NULL", "RAW", "ARRAY<ARRAY<MAP<INT, INT>>>", "ROW<>",
)  # fmt: skip
LITERALS = (
    "NULL", "0", "-1", "1e400", "1e-38", "9223372036854775807", "9223372036854775808", "99999999999999999999999999999999999999",
    "0.00000000000000000000000000000000000001", "''", "'a'", "'%'", "'('", "'Mars/Phobos'", "X''", "x'0'", "TRUE", "UNKNOWN",
    "DATE '9999-12-31'", "DATE '2021-02-30'", "TIMESTAMP '9999-12-31 23:59:59.999999999'", "TIME '24:00:00'",
    "TIMESTAMP '0001-01-01 00:00:00'", "INTERVAL '1' YEAR", "INTERVAL '999999999999' DAY", "INTERVAL '-1' SECOND",
    "INTERVAL '1' DECADE", "ARRAY[]", "ARRAY[NULL]", "MAP[]", "ROW()", "ROW(1)", "u&'\\0041'", "U&'\\00'", "N'x'", "'yyyy-QQQ'", "1.", ".5",
    "'2020-01-01'", "'\x00'", "'é😀'", "2147483648",
)  # fmt: skip
EXPRESSIONS = (
    "(SELECT MAX(id) FROM e)", "EXISTS (SELECT 1 FROM e)", "CASE id WHEN 1 THEN 'a' END", "CASE WHEN b THEN 1 END", "COUNT(*)",
    "SUM(id) OVER (PARTITION BY s ORDER BY ts)", "ROW_NUMBER() OVER (ORDER BY id)", "LAG(id) OVER (ORDER BY ts)", "CAST(r AS STRING)",
    "r.x", "r.nope", "r.y", "l[id]", "m[1]", "NOT NULL", "id IN (SELECT id FROM e)", "- s", "id / 0", "s AND b", "GROUPING(id)",
    "COALESCE()", "COALESCE(NULL)", "RAND()", "PROCTIME()", "CURRENT_WATERMARK(ts)", "TUMBLE(ts, INTERVAL '1' DAY)", "COUNT(DISTINCT id, s)",
    "TO_TIMESTAMP_LTZ(0, 7)", "TO_TIMESTAMP('x', '((')", "REGEXP_EXTRACT(s, '(')", "s LIKE s ESCAPE 'ab'", "JSON_VALUE(s, '$')", "e.*", "*",
    "id BETWEEN SYMMETRIC 2 AND 1", "CAST(NULL AS ROW<a INT>).a", "ROW(1, ROW(2)).EXPR$1", "TYPEOF(l)", "l % CAST(1e-38 AS DECIMAL(38,38))",
    "IF(b, 1, 'a')", "NULLIF(l, m)", "FLOOR(id TO DAY)", "EXTRACT(EPOCH FROM dt)", "TIMESTAMPDIFF(QUARTER, dt, tm)", "id = l", "r = ROW(1)",
)  # fmt: skip
RELATIONS = (
    "e", "w", "o", "nowhere", "e AS x(a)", "(SELECT * FROM e)", "(VALUES (1), (2, 3)) AS q", "LATERAL (SELECT 1)", "UNNEST(ARRAY[1])",
    "TABLE(TUMBLE(TABLE e, DESCRIPTOR(nope), INTERVAL '1' DAY))", "TABLE(TUMBLE(TABLE w, DESCRIPTOR(id), INTERVAL '0' DAY))", "TABLE(",
    "TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '7' DAY, INTERVAL '3' DAY))", "TABLE(nope(TABLE e))", "TABLE(TUMBLE())", "e.e.e.e",
    "TABLE(SESSION(TABLE e, DESCRIPTOR(ts), INTERVAL '1' YEAR))", "e FOR SYSTEM_TIME AS OF p", "e TABLESAMPLE BERNOULLI (3)", "(e)",
    "e CROSS JOIN w", "e NATURAL JOIN w", "e JOIN w USING (id)", "e FULL JOIN w ON TRUE", "TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts, ts), 1))",
)  # fmt: skip
CLAUSES = (
    "WHERE TRUE", "WHERE id", "GROUP BY 1", "GROUP BY CUBE (id, s)", "GROUP BY ()", "GROUP BY GROUPING SETS ((id), ())", "HAVING b", "ORDER BY 99",
    "ORDER BY ts", "LIMIT 0", "LIMIT -1", "LIMIT ALL", "OFFSET 1", "FETCH FIRST ROW ONLY", "UNION SELECT 1", "INTERSECT SELECT 1", "DISTINCT",
    "FOR UPDATE", "WINDOW x AS (ORDER BY id)", "QUALIFY TRUE", "AS t", "ON TRUE", "PARTITION BY id", "OVER ()", "FILTER (WHERE b)", "WITHIN GROUP (ORDER BY id)",
)  # fmt: skip
KEYWORDS = (
    *[
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP",
        "BY",
        "ORDER",
        "HAVING",
        "JOIN",
        "ON",
        "AS",
        "NULL",
        "NOT",
        "IN",
        "EXISTS",
        "UNION",
        "ALL",
        "DISTINCT",
        "TABLE",
        "WITH",
        "VALUES",
        "CASE",
        "END",
    ],
    *[
        "DESCRIPTOR",
        "INTERVAL",
        "CAST",
        "SET",
        "INSERT",
        "INTO",
        "VIEW",
        "CREATE",
        "TEMPORARY",
        "IF",
        "LIKE",
        "WATERMARK",
        "FOR",
        "PRIMARY",
        "KEY",
        "EXPLAIN",
    ],
    *[
        "(",
        ")",
        "[",
        "]",
        ",",
        ".",
        ";",
        "<",
        ">",
        "=",
        "=>",
        "::",
        "*",
        "+",
        "-",
        "/",
        "%",
        "||",
        "?",
        ":",
        "@",
        "#",
        "\\",
        '"',
        "`",
        "'",
        "/*",
        "--",
        "\x00",
        "\ufeff",
        "😀",
        "{{",
        "${x}",
        "1e",
        "0x1f",
        "!",
    ],
)
OPTION_VALUES = (
    "",
    "-1",
    "0",
    "abc",
    "1 h",
    "Mars/Phobos",
    "../UTC",
    "x\x00",
    "9" * 40,
    "TRUE",
    "ONE_PHASE",
    "AUTO",
    "1 mb",
    "é",
)
TABLE_OPTION_VALUES = (
    "''", "'-1'", "'abc'", "'1 h'", "'csv'", "'json'", "'parquet'", "'raw'", "'filesystem'", "'nexmark'", "'print'", "'collect'", "'a\x00b'",
    "'999999999999'",
)  # fmt: skip
