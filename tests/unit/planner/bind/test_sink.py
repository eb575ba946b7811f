"""INSERT INTO, and where the rows of a SELECT go."""

from __future__ import annotations

import pytest
from planner_harness import Planner

from sqlstream.errors import UserError
from sqlstream.planner.bind.sink import bind_select_sink
from sqlstream.planner.dialect.parser import parse_query
from sqlstream.planner.relational.node import explain_relation


def test_an_insert_casts_to_the_columns_of_its_table(planner: Planner) -> None:
    assert planner.plan("INSERT INTO sink SELECT 1, a, 'x' FROM t").splitlines()[:2] == [
        "Sink(table=[`sink`], columns=[a, b, s])",
        "+- Project(a=[$0], b=[CAST($1 AS BIGINT)], s=[CAST($2 AS STRING)])",
    ]


def test_columns_that_are_not_listed_are_null(planner: Planner) -> None:
    assert "+- Project(a=[NULL], b=[$0], s=[NULL])" in planner.plan("INSERT INTO sink (b) SELECT b FROM t")


def test_listed_columns_may_come_in_any_order(planner: Planner) -> None:
    assert "+- Project(a=[$2], b=[$1], s=[$0])" in planner.plan(
        "INSERT INTO sink (s, b, a) SELECT s, b, a FROM t"
    )


def test_a_static_partition_fills_its_column(planner: Planner) -> None:
    planner.run("""CREATE TABLE p (a INT, day_name STRING) PARTITIONED BY (day_name)
                   WITH ('connector' = 'files', 'path' = 'x', 'format' = 'csv')""")
    assert "+- Project(a=[$0], day_name=['mon'])" in planner.plan(
        "INSERT INTO p PARTITION (day_name = 'mon') SELECT a FROM t"
    )


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        ("DATE", "2020-01-02", "DATE '2020-01-02'"),
        ("TIMESTAMP(3)", "2020-01-02 00:00:00", "TIMESTAMP '2020-01-02 00:00:00'"),
        ("TIME", "10:00:00", "TIME '10:00:00'"),
    ],
)
def test_days_and_times_of_a_static_partition_may_be_texts(
    planner: Planner, type: str, text: str, value: str
) -> None:
    planner.run(f"""CREATE TABLE p (a INT, at {type}) PARTITIONED BY (at)
                    WITH ('connector' = 'files', 'path' = 'x', 'format' = 'csv')""")
    as_text = planner.plan(f"INSERT INTO p PARTITION (at = '{text}') SELECT a FROM t")
    assert as_text == planner.plan(f"INSERT INTO p PARTITION (at = {value}) SELECT a FROM t")
    with pytest.raises(UserError, match="illegal") as refused:
        planner.plan("INSERT INTO p PARTITION (at = '2020-13-02 x') SELECT a FROM t")
    assert refused.value.span is not None


def test_a_hint_overrides_the_options_of_the_sink(planner: Planner) -> None:
    planner.run("CREATE TABLE f (a INT) WITH ('connector' = 'files', 'path' = 'x', 'format' = 'csv')")
    node = planner.bind("INSERT INTO f /*+ OPTIONS('path' = 'y') */ SELECT a FROM t")
    assert dict(getattr(node, "options", ()))["path"] == "y"


def test_a_select_goes_to_the_client_with_unique_names(planner: Planner) -> None:
    sink = bind_select_sink(parse_query("SELECT a, a, rt AS a1 FROM t, e"), planner.context)
    assert str(sink.schema) == "a INT, a0 INT, a1 TIMESTAMP(3)"
    assert sink.options == (("connector", "collect"),)
    assert explain_relation(sink).startswith("Sink(table=[")
