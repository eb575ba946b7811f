"""The differences of a canary: counted by cause, and shown by key, from the changelog of the comparison."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

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


def cause(row: tuple[Any, ...], names: tuple[str, ...]) -> str:
    """In what one row of the comparison of a table with a key differs."""
    old, new = row[: len(names) + 1], row[len(names) + 1 :]
    if old[0] == new[0]:
        pairs = zip(names, old[1:], new[1:], strict=True)
        return f"other values of {', '.join(n for n, a, b in pairs if repr(a) != repr(b))}"
    if None in (old[0], new[0]):
        side, op = ("new", new[0]) if old[0] is None else ("old", old[0])
        return f"{'written' if op == 'I' else 'deleted'} by the {side} statement alone"
    return f"deleted by the {'old' if old[0] == 'D' else 'new'} statement, written by the other"


@pytest.mark.parametrize("seed", range(20))
def test_any_changes_in_any_batches_count_as_row_at_a_time(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fate = random.Random(seed)
    monkeypatch.setattr(canary, "WAITING_ROWS_MAX", fate.choice([1, 10, 10_000]))
    monkeypatch.setattr(canary, "KEYS_HELD_MAX", fate.choice([3, 10_000]))
    schema = Schema.of(
        ("k", sql.BIGINT), ("x", sql.DOUBLE), ("s", sql.STRING), ("a", sql.array(sql.INT))
    )  # fmt: skip
    types = [pa.string(), pa.int64(), pa.float64(), pa.string(), pa.list_(pa.int32())] * 2
    found = Differences(SinkSpec("t", "blackhole", {}, schema, primary_key=(0,)), "UTC")
    there: dict[int, tuple[Any, ...]] = {}

    def side(key: int) -> tuple[Any, ...]:
        if fate.random() < 0.2:
            return (None,) * 5
        x = fate.choice([0.5, float("nan"), None])
        return (
            fate.choice("ID"),
            key,
            x,
            fate.choice(["a", "b", None]),
            fate.choice([[1], [1, None], None]),
        )

    for _ in range(fate.randint(1, 30)):
        changed: list[tuple[int, tuple[Any, ...]]] = []
        for key in [fate.randrange(12) for _ in range(fate.randint(1, 8))]:
            if key in there:
                changed.append((3, there.pop(key)))
            old, new = side(key), side(key)
            if repr(old) != repr(new) and fate.random() < 0.8:
                there[key] = (*old, *new)
                changed.append((0, there[key]))
        if changed:
            columns = [
                pa.array(c, t) for c, t in zip(zip(*(r for _, r in changed), strict=True), types, strict=True)
            ]
            kinds = pa.array([kind for kind, _ in changed], pa.int8())
            names = [*(f"x{place}" for place in range(len(columns))), ROW_KIND_COLUMN]
            found.add(pa.RecordBatch.from_arrays([*columns, kinds], names=names))
    expected = Counter(cause(row, schema.names) for row in there.values())
    assert found.causes == expected
    shown = [(int(str(each.key["k"])), each.cause) for each in found.shown(100)]
    truth = {key: cause(row, schema.names) for key, row in there.items()}
    assert all(truth[key] == said for key, said in shown)
    if len(truth) < canary.KEYS_HELD_MAX:
        assert len(shown) == len(truth)
