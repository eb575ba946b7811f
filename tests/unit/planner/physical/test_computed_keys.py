"""Each equality of a join with one side per input is a key, whatever its form and the kind of join."""

from __future__ import annotations

import re

import pytest
from plan_harness import compile_script

from sqlstream.planner.physical.node import PhysicalNode

COLUMNS = """k INT, big BIGINT, small SMALLINT, d DOUBLE, f FLOAT, dec DECIMAL(10, 2), dec2 DECIMAL(12, 4), s STRING, c CHAR(3),
    ts TIMESTAMP(3), ts6 TIMESTAMP(6), l TIMESTAMP_LTZ(3), dt DATE, tm TIME(0), bo BOOLEAN, bin BYTES,
    ar ARRAY<INT>, r ROW<x INT>"""
TABLES = "".join(f"CREATE TABLE {name} ({COLUMNS}) WITH ('connector' = 'table');" for name in ("a", "b"))


def descriptions(sql: str) -> list[str]:
    """Those of the joins of a query."""
    (plan,) = compile_script(sql)
    found: dict[str, str] = {}

    def look(node: PhysicalNode) -> None:
        if "Join" in node.name:
            found[node.uid] = node.description
        for each in node.inputs:
            look(each.node)

    for sink in plan.physical:
        look(sink)
    return list(found.values())


def joins(sql: str) -> list[str]:
    """`keys | condition` of each join."""
    shown = []
    for description in descriptions(f"{TABLES} {sql}"):
        keys = re.search(r"where=\[([^\]]*)\]", description)
        condition = re.search(r"condition=\[(.*?)\], select", description)
        shown.append(f"{keys.group(1) if keys else ''} | {condition.group(1) if condition else ''}".strip())
    return shown


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a.ts = b.ts + INTERVAL '1' MINUTE", "ts = $key0 |"),
        ("a.ts - INTERVAL '1' DAY = b.ts + INTERVAL '1' MONTH", "$key0 = $key0 |"),
        ("a.ts = b.ts6", "$key0 = ts6 |"),
        ("a.l = b.l + INTERVAL '1' SECOND", "l = $key0 |"),
        ("a.k = b.k AND a.ts = b.ts + INTERVAL '1' MINUTE", "k = k, ts = $key0 |"),
        ("a.k + 1 = b.big", "$key0 = big |"),
        ("a.dec = b.dec2 AND a.f = b.d", "$key0 = dec2, $key1 = d |"),
        ("a.k IS NOT DISTINCT FROM b.k", "$key0 = $key0, $key1 = $key1 |"),
        ("a.ts6 IS NOT DISTINCT FROM b.ts", "$key0 = $key0, $key1 = $key1 |"),
        (
            "a.d IS NOT DISTINCT FROM b.f",
            "$key0 = $key0, $key1 = $key1 | IS NOT DISTINCT FROM(d, CAST(f AS DOUBLE))",
        ),
        ("UPPER(a.s) = b.s OR (UPPER(a.s) IS NULL AND b.s IS NULL)", "$key0 = $key0, $key1 = $key1 |"),
        *(
            (f"a.{c} IS NOT DISTINCT FROM b.{c}", "$key0 = $key0, $key1 = $key1 |")
            for c in ("dec", "c", "l", "dt", "tm", "bo", "bin")
        ),
        ("a.ar IS NOT DISTINCT FROM b.ar AND a.r = b.r", "$key0 = $key0, $key1 = $key1 |"),
        ("(a.k = b.k AND a.s > b.s) OR (a.s < b.s AND a.k = b.k)", "k = k | ((s > s) OR (s < s))"),
        ("(a.k = b.k AND a.s > b.s) OR a.k = b.k", "k = k |"),
        ("(a.k = b.k) IS TRUE AND (a.s = b.s) = TRUE AND a.big IN (b.big)", "k = k, s = s, big = big |"),
        ("a.k - b.k = 1", "k = $key0 |"),
        ("a.k + b.small = a.k - b.k - a.small", "$key0 = $key0 |"),
        ("1 - a.k = b.k", "$key0 = k |"),
        # Not equal for one side per input: a draw per pair, a sum that rounds, a value of both sides.
        ("a.k = b.k + RAND_INTEGER(3)", "| (k = (k + RAND_INTEGER(3)))"),
        ("a.d - b.d = 1", "| ((d - d) = "),
        ("a.k + b.k = a.big", "| (CAST((k + k) AS BIGINT) = big)"),
        ("a.k * b.k = 1", "| ((k * k) = 1)"),
        ("a.k = b.k OR a.s IS NULL", "| ((k = k) OR s IS NULL)"),
        ("a.k = b.k OR (a.k IS NULL AND b.s IS NULL)", "| ((k = k) OR (k IS NULL AND s IS NULL))"),
    ],
)
def test_what_is_a_key(condition: str, expected: str) -> None:
    for kind in ("JOIN", "FULL JOIN", "LEFT SEMI JOIN", "ANTI JOIN"):
        (found,) = joins(f"SELECT a.k FROM a {kind} b ON {condition}")
        assert found.startswith(expected), (kind, found)


@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        (
            "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.ts + INTERVAL '1' DAY = a.ts)",
            ["ts = $key0 |"],
        ),
        ("SELECT k FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.ts6 = a.ts)", ["$key0 = ts6 |"]),
        ("SELECT k, (SELECT MAX(k) FROM b WHERE b.ts = a.ts6) FROM a", ["ts6 = $key2 |"]),
    ],
)
def test_a_correlated_subquery_is_joined_by_its_equality(sql: str, keys: list[str]) -> None:
    assert joins(sql) == keys


@pytest.mark.parametrize("column", ["ts", "d", "dec", "k"])
def test_the_values_that_a_subquery_is_computed_for_are_joined_by_key(column: str) -> None:
    found = joins(f"SELECT k, (SELECT COUNT(*) FROM b WHERE b.{column} > a.{column}) FROM a")
    assert [f.split(" |")[0] for f in found].count("$key0 = $key0, $key1 = $key1") == 2


def test_an_interval_join_has_the_moved_time_as_key_where_it_has_no_other() -> None:
    times = "k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
    tables = "".join(f"CREATE TABLE {n} ({times}) WITH ('connector' = 'table');" for n in ("x", "y"))
    for more, keys in (("", "ts = $key0"), (" AND x.k = y.k", "k = k")):
        (text,) = descriptions(
            f"{tables} SELECT x.k FROM x JOIN y ON x.ts = y.ts + INTERVAL '1' MINUTE{more}"
        )
        assert f"where=[{keys}]" in text
        assert "60000 ms <= ts - ts <= 60000 ms" in text


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT a.k, x.d FROM a, b, a AS x WHERE a.k = x.k AND b.s = x.s", ["s = s |", "k = k |"]),
        ("SELECT a.k, x.d FROM a, b, a AS x WHERE b.k = x.k + 1", ["|", "k = $key0 |"]),
        (
            "SELECT a.k FROM a, b, a AS x, b AS y WHERE a.k = x.k AND b.s = y.s AND x.d = y.d",
            ["s = s |", "d = d |", "k = k |"],
        ),
        # Neither is all pairs of two, nor are the rows of an outer join chosen by what comes later.
        ("SELECT a.k FROM a JOIN b ON a.d < b.d JOIN a AS x ON a.k = x.k", ["k = k |", "| (d < d)"]),
        ("SELECT a.k FROM (a CROSS JOIN b) LEFT JOIN a AS x ON a.k = x.k", ["k = k |", "|"]),
        ("SELECT a.k FROM a, b, a AS x WHERE a.k + b.k = x.k", ["$key0 = k |", "|"]),
    ],
)
def test_tables_that_are_equated_are_joined_first(sql: str, expected: list[str]) -> None:
    assert joins(sql) == expected


def test_moved_times_are_keys_of_lookups_and_of_versions() -> None:
    tables = """
        CREATE TABLE o (day TIMESTAMP(6), ts TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR ts AS ts) WITH ('connector' = 'table');
        CREATE TABLE d (day TIMESTAMP(6), x INT) WITH ('connector' = 'keyed');
        CREATE TABLE v (day TIMESTAMP(6), ts TIMESTAMP(3), x INT, PRIMARY KEY (day) NOT ENFORCED, WATERMARK FOR ts AS ts)
          WITH ('connector' = 'table');
        """
    moved = "= o.day + INTERVAL '1' DAY"
    (looked_up,) = descriptions(
        f"{tables} SELECT x FROM o JOIN d FOR SYSTEM_TIME AS OF o.p AS d ON d.day {moved}"
    )
    assert "lookup=[day=$key0]" in looked_up
    (valid,) = descriptions(f"{tables} SELECT x FROM o JOIN v FOR SYSTEM_TIME AS OF o.ts ON v.day {moved}")
    assert "where=[$key0 = day]" in valid
