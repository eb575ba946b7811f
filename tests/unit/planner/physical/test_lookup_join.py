"""When a join is a lookup join, what its operator is told, and which ones are refused."""

from __future__ import annotations

import pytest
from plan_harness import compile_script, plan_batch_script

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import read_tables
from sqlstream.graph.stream_graph import ExchangeKind, StreamNode
from sqlstream.specs import JoinKind, LookupJoinSpec, RetryOnMiss

DDL = """
CREATE TABLE o (id BIGINT, k INT, s STRING, price DOUBLE, ts TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR ts AS ts)
WITH ('connector' = 'stream');
CREATE TABLE dim (k INT, s STRING, f DOUBLE, active BOOLEAN, up AS UPPER(s), PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'keyed');
CREATE TABLE once (k INT, s STRING) WITH ('connector' = 'keyed', 'lookup.cache' = 'FULL');
CREATE TABLE timed (k INT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'keyed');
CREATE TABLE plain (k INT) WITH ('connector' = 'table');
CREATE VIEW active AS SELECT k, s AS name FROM dim WHERE active;
CREATE VIEW counted AS SELECT k, COUNT(*) AS n FROM dim GROUP BY k;
"""
HINT = (
    "'retry-predicate'='lookup_miss', 'retry-strategy'='fixed_delay', 'fixed-delay'='1s', 'max-attempts'='3'"
)
UPDATING = "(SELECT k, COUNT(*) AS c, PROCTIME() AS p FROM o GROUP BY k)"


def nodes(query: str, **config: str) -> list[StreamNode]:
    (plan,) = compile_script(DDL + query, config)
    return list(plan.stream_graph.nodes)


def lookup(query: str) -> LookupJoinSpec:
    (spec,) = [n.spec for n in nodes(query) if isinstance(n.spec, LookupJoinSpec)]
    return spec


def refused(query: str) -> UserError:
    with pytest.raises(UserError) as raised:
        compile_script(DDL + query)
    return raised.value


def joined(condition: str, table: str = "dim", join: str = "JOIN", left: str = "o", hint: str = "") -> str:
    hint = f"/*+ {hint} */" if hint else ""
    return f"SELECT {hint} o.k, d.s FROM {left} AS o {join} {table} FOR SYSTEM_TIME AS OF o.p AS d ON {condition}"


def test_equal_columns_are_the_key_and_the_rest_is_a_condition() -> None:
    spec = lookup(joined("o.k = d.k AND d.s = o.s AND o.price > d.f", join="LEFT JOIN"))
    assert spec.kind is JoinKind.LEFT
    assert [spec.source.columns[k] for k in spec.source_keys] == ["k", "s"]
    assert spec.condition is not None
    assert "price" not in spec.source.columns


def test_the_key_may_be_an_expression_over_the_left_side() -> None:
    spec = lookup(joined("MOD(o.k, 10) = d.k"))
    assert [spec.source.columns[k] for k in spec.source_keys] == ["k"]


def test_a_text_of_another_length_is_a_key() -> None:
    left = "(SELECT k, CAST(s AS VARCHAR(3)) AS s, p FROM o)"
    spec = lookup(joined("o.s = d.s", left=left))
    assert [spec.source.columns[k] for k in spec.source_keys] == ["s"]


def test_a_condition_that_is_never_true_looks_nothing_up() -> None:
    for join in ("JOIN", "LEFT JOIN"):
        assert not [
            n for n in nodes(joined("o.k = d.k AND FALSE", join=join)) if isinstance(n.spec, LookupJoinSpec)
        ]


def test_conditions_on_the_table_alone_are_its_own_filter() -> None:
    spec = lookup(joined("o.k = d.k AND d.active AND d.s <> ''"))
    assert spec.condition is None
    assert spec.source_condition is not None
    assert len(spec.source.filters) == 2


def test_a_column_of_the_table_that_is_compared_with_two_is_looked_up_by_one() -> None:
    spec = lookup(joined("o.k = d.k AND CHAR_LENGTH(o.s) = d.k"))
    assert len(spec.source_keys) == 1
    assert spec.condition is not None


def test_computed_columns_of_the_table_and_views_that_filter_it_are_computed_over_its_rows() -> None:
    spec = lookup("SELECT o.id, d.up FROM o JOIN dim FOR SYSTEM_TIME AS OF o.p AS d ON o.k = d.k")
    assert any(str(p).startswith("UPPER") for p in spec.projections)
    view = lookup("SELECT o.id, d.name FROM o JOIN active FOR SYSTEM_TIME AS OF o.p AS d ON o.k = d.k")
    assert view.source.table == "dim"
    assert str(view.source_condition) == "$2"


def test_using_names_the_key() -> None:
    assert lookup("SELECT k FROM o JOIN once FOR SYSTEM_TIME AS OF o.p USING (k)").left_keys == (0,)


def test_the_time_of_the_left_side_goes_on() -> None:
    query = """WITH e AS (SELECT o.ts, d.s FROM o JOIN timed FOR SYSTEM_TIME AS OF o.p AS d ON o.k = d.k)
        SELECT s, COUNT(*) FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY s, window_start, window_end"""
    names = [n.name.split("[")[0] for n in nodes(query)]
    assert "GlobalWindowAggregate" in names
    assert lookup(query)


def test_the_time_of_the_table_does_not() -> None:
    query = """WITH e AS (SELECT d.ts, d.s FROM o JOIN timed FOR SYSTEM_TIME AS OF o.p AS d ON o.k = d.k)
        SELECT s, COUNT(*) FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY s, window_start, window_end"""
    assert "time attribute" in refused(query).message


def test_rows_stay_where_they_are_unless_the_hint_shuffles_them() -> None:
    def exchanges(hint: str) -> list[ExchangeKind]:
        found = nodes(joined("o.k = d.k", hint=hint), **{"parallelism.default": "2"})
        return [e.exchange.kind for n in found if isinstance(n.spec, LookupJoinSpec) for e in n.inputs]

    assert exchanges("") == [ExchangeKind.FORWARD]
    assert exchanges("LOOKUP('table'='d', 'shuffle'='true')") == [ExchangeKind.HASH]


def test_a_hint_by_alias_or_name_sets_the_retry() -> None:
    retry = RetryOnMiss(attempts_max=3, delay_ms=1_000)
    assert lookup(joined("o.k = d.k", hint=f"LOOKUP('table'='d', {HINT})")).retry == retry
    assert lookup(joined("o.k = d.k", hint=f"LOOKUP('table'='dim', {HINT})")).retry == retry
    assert (
        lookup(joined("o.k = d.k", hint="LOOKUP('table'='d', 'async'='true', 'output-mode'='ordered')")).retry
        is None
    )


def test_the_tables_that_a_job_reads_are_also_those_that_it_looks_up() -> None:
    (plan,) = compile_script(DDL + joined("o.k = d.k"))
    assert sorted(spec.table for _, spec in read_tables(plan.job_graph)) == ["dim", "o"]


def test_updating_rows_may_look_up_a_table_that_is_loaded_once() -> None:
    found = nodes(joined("o.k = d.k", table="once", left=UPDATING))
    (node,) = [n for n in found if isinstance(n.spec, LookupJoinSpec)]
    assert node.output_mode is ChangelogMode.RETRACT


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        (joined("o.k > d.k"), "SS3030", 'needs an equality with a column of table "dim"'),
        (joined("o.k = 5 AND d.s = 'x'"), "SS3030", "needs an equality"),
        (joined("o.id = d.k"), "SS3030", "has type INT, and cannot be looked up by a value of type BIGINT"),
        (joined("o.price = d.f"), "SS3030", "cannot be looked up by: its type is DOUBLE"),
        (joined("o.k = d.k", table="plain").replace("d.s", "d.k"), "SS3031", 'connector "table" does not read by key'),
        (joined("o.k = d.k", table="counted").replace("d.s", "d.n"), "SS3031", "is one table, and this one needs its Aggregate"),
        (joined("o.k = d.k", left=UPDATING), "SS3032", "may have changed between a row and its retraction"),
        (
            joined("o.k = d.k", table="once", left=UPDATING, hint="LOOKUP('table'='d', 'shuffle'='true')"),
            "SS3032", "whose order a shuffle",
        ),
        (
            joined("o.k = d.k", table="dim /*+ OPTIONS('lookup.full-cache.max-rows'='5') */"),
            "SS4003", "has no use with 'lookup.cache' = 'NONE'",
        ),
        (joined("o.k = d.k", join="RIGHT JOIN"), "SS3001", "a RIGHT JOIN with FOR SYSTEM_TIME AS OF"),
        ("SELECT 1 FROM o FULL JOIN dim FOR SYSTEM_TIME AS OF o.p USING (k)", "SS3001", "a FULL JOIN with FOR SYSTEM_TIME"),
        (joined("o.k = d.k", join="FULL JOIN"), "SS3001", "a FULL JOIN with FOR SYSTEM_TIME AS OF"),
        (joined("o.k = d.k").replace("o.p", "o.ts"), "SS3411", "\"dim\" has no versions"),
        (joined("o.k = d.k").replace("o.p", "o.id"), "SS2010", "takes a time attribute of the left table, not BIGINT"),
        ("SELECT * FROM dim FOR SYSTEM_TIME AS OF PROCTIME()", "SS3001", "needs a table on its left"),
        ("SELECT * FROM o CROSS JOIN dim FOR SYSTEM_TIME AS OF o.p AS d", "SS3030", "needs an equality"),
        (joined("o.k = d.k", hint="LOOKUP('table'='x')"), "SS4003", 'names "x"'),
        # A table or column that does not exist is named before a hint that finds none.
        (joined("o.k = d.k", table="nowhere", hint="LOOKUP('table'='x')"), "SS2001", '"nowhere"'),
        (joined("o.k = d.none", hint="LOOKUP('table'='x')"), "SS2003", '"none"'),
        (joined("o.k = d.k", hint="LOOKUP('async'='true')"), "SS4005", 'needs the option "table"'),
        (joined("o.k = d.k", hint="LOOKUP('table'='d', 'async'='maybe')"), "SS4002", "takes true or false"),
        (joined("o.k = d.k", hint="LOOKUP('table'='d', 'timeout'='1s')"), "SS4003", '"timeout" of the hint LOOKUP'),
        (joined("o.k = d.k", hint="LOOKUP('table'='d', 'retries'='1')"), "SS4003", 'has no option "retries"'),
        (joined("o.k = d.k", hint="LOOKUP('table'='d', 'max-attempts'='3')"), "SS4005", '"retry-predicate"'),
        (joined("o.k = d.k", hint=f"LOOKUP('table'='d', {HINT})".replace("1s", "soon")), "SS4002", "takes a duration"),
        (joined("o.k = d.k", hint=f"LOOKUP('table'='d', {HINT})".replace("1s", f"{2**64} s")), "SS4002", "at most 92233"),
        (joined("o.k = d.k", hint=f"LOOKUP('table'='d', {HINT})".replace("'3'", f"'{2**64}'")), "SS4002", "at most 92233"),
        (joined("o.k = d.k", table="once", hint=f"LOOKUP('table'='d', {HINT})"), "SS4003", "has no use"),
        ("SELECT /*+ LOOKUP('table'='d') */ 1", "SS4003", 'names "d"'),
    ],
)  # fmt: skip
def test_what_cannot_be_looked_up_is_refused_where_it_stands(query: str, code: str, words: str) -> None:
    error = refused(query)
    assert (error.code, error.span is not None) == (code, True)
    assert words in error.message
    if code == "SS3032":
        # A batch retracts nothing.
        assert plan_batch_script(DDL.replace("'stream'", "'table'") + query)
        return
    with pytest.raises(UserError) as in_batch:
        plan_batch_script(DDL + query)
    assert (in_batch.value.message, in_batch.value.span) == (error.message, error.span)


def test_a_batch_plans_what_can_be_looked_up() -> None:
    (plan,) = plan_batch_script(DDL.replace("'stream'", "'table'") + joined("o.k = d.k"))
    assert sorted(source.table for found in plan.sources for source in found) == ["dim", "o"]


@pytest.mark.parametrize(
    ("condition", "select", "keys"),
    [
        # A row has one match at most where the whole primary key is looked up.
        ("o.k = d.k", "o.k, o.c, d.s", {(0,)}),
        # Else a key of the table tells the matches apart.
        ("o.s = d.s", "o.k, o.c, d.s, d.k", {(0, 3)}),
        ("o.s = d.s", "o.k, o.c, d.s", set()),
    ],
)
def test_a_key_of_the_left_side_holds_where_a_row_has_one_match(
    condition: str, select: str, keys: set[tuple[int, ...]]
) -> None:
    ddl = """CREATE TABLE keyed (k INT, s STRING, PRIMARY KEY (k) NOT ENFORCED)
        WITH ('connector' = 'keyed', 'lookup.cache' = 'FULL');"""
    left = "(SELECT k, MAX(s) AS s, COUNT(*) AS c, PROCTIME() AS p FROM o GROUP BY k)"
    query = f"SELECT {select} FROM {left} AS o JOIN keyed FOR SYSTEM_TIME AS OF o.p AS d ON {condition}"
    (plan,) = compile_script(DDL + ddl + query)
    found = plan.physical[0].inputs[0].node.traits.keys
    assert {tuple(sorted(key)) for key in found} == keys
