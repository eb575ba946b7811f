"""FROM: tables, aliases, joins, hints and window functions."""

from __future__ import annotations

import pytest
from sqlglot import exp

from sqlstream.planner.dialect.nodes import IntervalLiteral, WindowTvf
from sqlstream.planner.dialect.parser import interval_value, parse_query, table_options


def relation(text: str) -> exp.Expr:
    found: exp.Expr = parse_query(f"SELECT * FROM {text}").args["from_"].this
    return found


def joins(text: str) -> list[tuple[str | None, str | None, str | None]]:
    node = parse_query(f"SELECT * FROM {text}")
    return [(j.args.get("method"), j.args.get("side"), j.args.get("kind")) for j in node.args["joins"]]


def window(text: str) -> WindowTvf:
    node = relation(text)
    assert isinstance(node, WindowTvf)
    return node


def millis(node: WindowTvf, key: str) -> int:
    literal = node.args[key]
    assert isinstance(literal, IntervalLiteral)
    return interval_value(literal)[1]


def test_a_table_keeps_its_qualifiers_and_alias() -> None:
    node = relation("c.`my db`.t AS x (a, b)")
    assert isinstance(node, exp.Table)
    assert (node.catalog, node.db, node.name, node.alias) == ("c", "my db", "t", "x")
    assert [c.name for c in node.args["alias"].columns] == ["a", "b"]


def test_an_options_hint_is_kept_on_its_table() -> None:
    node = relation("t /*+ OPTIONS('k' = 'v', 'l'='w') */ AS x")
    assert [(o.key, o.value) for o in table_options(node)] == [("k", "v"), ("l", "w")]
    assert node.alias == "x"


def test_a_table_without_a_hint_has_no_options() -> None:
    assert table_options(relation("t")) == ()


def test_values_can_be_a_table() -> None:
    node = relation("(VALUES (1, 2)) AS t (a, b)")
    assert isinstance(node, exp.Subquery)
    assert isinstance(node.this, exp.Values)
    assert node.alias == "t"


def test_joins_keep_side_kind_and_order() -> None:
    text = "a, b JOIN c ON a.x = c.x LEFT OUTER JOIN d USING (x, y) CROSS JOIN e NATURAL FULL JOIN f"
    # A RIGHT or FULL join after a comma is of the tables behind the comma.
    assert joins(text) == [(None, None, "CROSS")]
    assert joins(text.replace("a, b", "a CROSS JOIN b")) == [
        (None, None, "CROSS"),
        (None, None, None),
        (None, "LEFT", None),
        (None, None, "CROSS"),
        ("NATURAL", "FULL", None),
    ]


def test_a_comma_is_a_cross_join() -> None:
    assert joins("a, b") == [(None, None, "CROSS")]


@pytest.mark.parametrize(
    "text",
    [
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES, INTERVAL '1' MINUTE)) AS w",
        "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES, INTERVAL '1' MINUTE) w",
        "TABLE(TUMBLE(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' MINUTE, "
        "OFFSET => INTERVAL '1' MINUTE)) w",
        "table(tumble(offset => INTERVAL '1' MINUTE, size => INTERVAL '10' MINUTE, "
        "timecol => descriptor(ts), data => (SELECT * FROM t))) w",
    ],
)
def test_every_way_to_write_a_tumbling_window_is_one_node(text: str) -> None:
    node = window(text)
    assert (node.args["kind"], node.args["time_column"].name, node.alias) == ("TUMBLE", "ts", "w")
    assert (millis(node, "size"), millis(node, "offset")) == (600_000, 60_000)
    assert isinstance(node.this, exp.Table | exp.Subquery)


def test_hop_has_its_slide_before_its_size() -> None:
    node = window("TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))")
    assert (millis(node, "slide"), millis(node, "size"), node.args.get("offset")) == (2_000, 10_000, None)


def test_cumulate_has_its_step_before_its_size() -> None:
    node = window("TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))")
    assert (millis(node, "step"), millis(node, "size")) == (2_000, 10_000)


@pytest.mark.parametrize("keys", ["a, t.b", "(a, t.b)"])
def test_a_session_keeps_its_keys(keys: str) -> None:
    node = window(f"TABLE(SESSION(TABLE t PARTITION BY {keys}, DESCRIPTOR(ts), INTERVAL '5' MINUTE))")
    assert [k.name for k in node.args["partition_by"]] == ["a", "b"]
    assert millis(node, "gap") == 300_000


def test_a_named_session_keeps_its_keys() -> None:
    text = "SESSION(DATA => TABLE t PARTITION BY a, b, TIMECOL => DESCRIPTOR(ts), GAP => INTERVAL '1' SECOND)"
    assert len(window(text).args["partition_by"]) == 2


def test_a_window_can_be_joined() -> None:
    left, right = (f"TUMBLE(TABLE {t}, DESCRIPTOR(ts), INTERVAL '1' HOUR) {t}" for t in ("a", "b"))
    node = parse_query(f"SELECT * FROM {left} JOIN {right} ON a.x = b.x")
    assert isinstance(node.args["joins"][0].this, WindowTvf)


def test_unnest_and_lateral_are_kept_for_the_binder_to_judge() -> None:
    node = parse_query(
        "SELECT * FROM t CROSS JOIN UNNEST(a) WITH ORDINALITY AS u (x, i), LATERAL TABLE(f(b)) AS l"
    )
    unnest, lateral = (j.this for j in node.args["joins"])
    assert (type(unnest), unnest.args["offset"], unnest.alias) == (exp.Unnest, True, "u")
    assert (type(lateral), lateral.this.this) == (exp.Lateral, "F")
