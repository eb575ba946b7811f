"""The differences of a canary: counted by cause, and shown by key, from the changelog of the comparison."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from sqlstream import types as sql
from sqlstream.changelog import ROW_KIND_COLUMN
from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.sessions.session import Session
from sqlstream.client.statements.canary import CanaryOptions, _common_sink, canary_options
from sqlstream.client.verification import canary
from sqlstream.client.verification.canary import Differences, comparing_query, differences_text
from sqlstream.errors import Span, UserError
from sqlstream.planner.dialect.parser import parse_statements
from sqlstream.planner.dialect.statements import Canary, Option
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec

SCHEMA = Schema.of(("k", sql.BIGINT), ("n", sql.BIGINT), ("s", sql.STRING))
KEYED = SinkSpec("t", "blackhole", {}, SCHEMA, primary_key=(0,))
PLAIN = SinkSpec("t", "blackhole", {}, SCHEMA)
NONE = (None, None, None, None)


def changes(*rows: tuple[int, tuple[object, ...]]) -> pa.RecordBatch:
    columns = list(zip(*(row for _, row in rows), strict=True))
    kinds = pa.array([kind for kind, _ in rows], pa.int8())
    names = [f"x{place}" for place in range(len(columns))]
    return pa.RecordBatch.from_arrays([*map(pa.array, columns), kinds], names=[*names, ROW_KIND_COLUMN])


def test_what_came_and_went_is_no_difference() -> None:
    found = Differences(KEYED, "UTC")
    row = ("I", 1, 5, "a", "I", 1, 6, "a")
    found.add(changes((0, row), (3, row), (0, row), (1, row), (2, ("I", 1, 7, "a", "I", 1, 8, "b"))))
    assert dict(found.causes) == {"other values of n, s": 1}
    found.add(changes((3, ("I", 1, 7, "a", "I", 1, 8, "b"))))
    assert differences_text(found, 10, "after 1 s") == ["equal: after 1 s"]


def test_causes_say_which_statement_did_what() -> None:
    found = Differences(KEYED, "UTC")
    found.add(
        changes(
            (0, ("I", 1, 5, "a", *NONE)),
            (0, (*NONE, "I", 2, 5, "a")),
            (0, ("D", 3, 5, "a", *NONE)),
            (0, (*NONE, "D", 4, 5, "a")),
            (0, ("D", 5, 5, "a", "I", 5, 6, "a")),
            (0, ("I", 6, 5, "a", "D", 6, 6, "a")),
            (0, ("I", 7, 5, None, "I", 7, 5, "a")),
        )
    )
    text = differences_text(found, 2, "after 1 s")
    assert text[:8] == [
        "different: 7 keys, after 1 s",
        "  1 deleted by the new statement alone",
        "  1 deleted by the new statement, written by the other",
        "  1 deleted by the old statement alone",
        "  1 deleted by the old statement, written by the other",
        "  1 other values of s",
        "  1 written by the new statement alone",
        "  1 written by the old statement alone",
    ]
    shown = {each.key["k"]: (each.old, each.new) for each in found.shown(10)}
    assert shown["7"] == ({"k": "7", "n": "5", "s": None}, {"k": "7", "n": "5", "s": "a"})
    assert shown["1"] == ({"k": "1", "n": "5", "s": "a"}, None)
    assert shown["5"] == (None, {"k": "5", "n": "6", "s": "a"})
    assert shown["4"] == (None, None)
    assert sum(line.startswith("difference ") for line in text) == 2


def test_rows_without_a_key_count_as_often_as_one_side_has_them_more() -> None:
    found = Differences(PLAIN, "UTC")
    found.add(changes((0, (3, 1, 7, 5, "a")), (0, (0, 1, 8, 5, None))))
    assert found.count == 3
    assert dict(found.causes) == {
        "written by the old statement alone": 2,
        "written by the new statement alone": 1,
    }
    assert "difference 2: written by the old statement alone (2 times)" in differences_text(found, 5, "")


def test_keys_that_both_have_deleted_are_equal_whatever_was_in_their_rows() -> None:
    with duckdb.connect() as database:
        for table, rows in (
            (
                "old_rows",
                "('I', 1, 5, 'a', 1), ('D', 1, 5, 'a', 2), ('I', 2, 5, NULL, 1), ('I', 3, 5, 'a', 1)",
            ),
            (
                "new_rows",
                "('I', 1, 6, 'a', 1), ('D', 1, 6, 'a', 2), ('I', 2, 5, NULL, 1), ('I', 3, 5, 'b', 1)",
            ),
        ):
            database.sql(f"CREATE TABLE {table} AS SELECT * FROM (VALUES {rows}) AS t (op, c0, c1, c2, t)")
        assert database.sql(comparing_query(KEYED)).fetchall() == [("I", 3, 5, "a", "I", 3, 5, "b")]


def test_nan_is_one_value() -> None:
    nan = float("nan")
    schema = Schema.of(("k", sql.BIGINT), ("x", sql.DOUBLE), ("s", sql.STRING))
    found = Differences(SinkSpec("t", "blackhole", {}, schema, primary_key=(0,)), "UTC")
    row = ("I", 1, nan, "a", "I", 1, nan, "b")
    found.add(changes((0, row)))
    assert dict(found.causes) == {"other values of s": 1}
    found.add(changes((3, row)))
    assert list(found.shown(10)) == []


def test_of_more_keys_than_are_held_those_that_are_shown_still_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(canary, "KEYS_HELD_MAX", 1)
    found = Differences(KEYED, "UTC")
    first, second = (("I", key, 5, "a", "I", key, 6, "a") for key in (1, 2))
    found.add(changes((0, first), (0, second), (3, first), (3, second), (0, second)))
    assert (found.count, [each.key["k"] for each in found.shown(10)]) == (1, ["2"])


def option(key: str, value: str) -> Option:
    return Option(key, value, Span(0, 1), Span(2, 3))


def test_options_have_bounds() -> None:
    assert canary_options(()) == CanaryOptions()
    given = [("duration", "10 min"), ("promote", "if-equal"), ("max-differences", "3"), ("shown", "0")]
    assert canary_options(tuple(option(*each) for each in given)) == CanaryOptions(600_000, "if-equal", 3, 0)
    for key, value in (
        ("duration", "8 d"),
        ("duration", "0 s"),
        ("duration", "soon"),
        ("promote", "maybe"),
        ("max-differences", "-1"),
        ("shown", "1001"),
        ("shown", "many"),
        ("slots", "1"),
    ):
        with pytest.raises(UserError) as refused:
            canary_options((option(key, value),))
        assert refused.value.code == "SS5454"


def test_a_table_that_can_be_read_once_alone_stays_with_its_job() -> None:
    session = Session(LocalClusterClient())
    for statement in parse_statements(
        "CREATE TABLE lines (line STRING) WITH ('connector' = 'socket', 'hostname' = 'here', 'port' = '9', 'format' = 'csv');"
        "CREATE TABLE kept (line STRING) WITH ('connector' = 'blackhole')"
    ):
        session.execute(statement)
    (statement,) = parse_statements("CANARY JOB 'a' AS INSERT INTO kept SELECT line FROM lines")
    assert isinstance(statement, Canary)
    plan = session.compile(statement.target)
    with pytest.raises(UserError) as refused:
        _common_sink(plan.job_graph, plan.job_graph, statement)
    assert (refused.value.code, refused.value.message) == (
        "SS5452",
        'rows of table "lines" can be read once alone',
    )
