"""Parallelism, exchanges, chaining and stable ids."""

from __future__ import annotations

import msgspec
import pytest
from plan_harness import compile_script

from sqlstream.errors import InternalError, UserError
from sqlstream.graph.job_graph import decode_job_graph, encode_job_graph
from sqlstream.graph.parallelism import rescaled_job_graph
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.planner.compile import CompiledPlan, explain
from sqlstream.runtime.jobmanager.resources.slot_pool import slots_needed

DDL = """
CREATE TABLE s (k BIGINT, v BIGINT) WITH ('connector' = 'stream');
CREATE TABLE three (k BIGINT, v BIGINT) WITH ('connector' = 'stream', 'scan.parallelism' = '3');
CREATE TABLE console (k BIGINT, c BIGINT) WITH ('connector' = 'print');
CREATE TABLE single (k BIGINT, c BIGINT) WITH ('connector' = 'print', 'sink.parallelism' = '1');
"""
COUNTS = "SELECT k, count(*) FROM s GROUP BY k"


def compiled(sql: str, parallelism: int = 2, **config: str) -> CompiledPlan:
    settings = {"parallelism.default": str(parallelism)}
    settings |= {k.replace("__", ".").replace("_", "-"): v for k, v in config.items()}
    (plan,) = compile_script(DDL + sql, settings)
    return plan


def test_an_exchange_by_key_splits_vertices_and_forward_edges_chain() -> None:
    graph = compiled(f"INSERT INTO console {COUNTS}").job_graph
    assert [len(v.operators) for v in graph.vertices] == [2, 2]
    (edge,) = graph.edges
    assert (edge.exchange.kind, edge.exchange.keys) == (ExchangeKind.HASH, (0,))


def test_at_parallelism_one_everything_is_one_task() -> None:
    assert len(compiled(f"INSERT INTO console {COUNTS}", 1).job_graph.vertices) == 1


def test_without_chaining_every_operator_is_a_vertex() -> None:
    plan = compiled(f"INSERT INTO console {COUNTS}", pipeline__operator_chaining__enabled="false")
    assert len(plan.job_graph.vertices) == len(plan.stream_graph.nodes)


def test_a_source_that_feeds_two_sinks_is_one_vertex_with_a_tree() -> None:
    sql = """EXECUTE STATEMENT SET BEGIN
        INSERT INTO console SELECT k, v FROM s WHERE v > 1;
        INSERT INTO console SELECT k, v FROM s WHERE v < 1; END"""
    (vertex,) = compiled(sql).job_graph.vertices
    assert vertex.name == "Source: s[1] -> (Calc[2] -> Sink: console[3], Calc[4] -> Sink: console[5])"


def test_other_parallelism_needs_a_rebalance() -> None:
    plan = compiled("INSERT INTO single SELECT k, v FROM three")
    assert [n.parallelism for n in plan.stream_graph.nodes] == [3, 1]
    assert plan.stream_graph.nodes[1].inputs[0].exchange.kind is ExchangeKind.REBALANCE


def test_a_union_is_several_edges_into_one_input() -> None:
    plan = compiled("INSERT INTO console SELECT k, v FROM s UNION ALL SELECT k, v FROM three")
    sink = plan.stream_graph.nodes[-1]
    assert [e.ordinal for e in sink.inputs] == [0, 0]
    head = plan.job_graph.vertices[-1].operators[0]
    assert len(head.input_schemas) == 1


def test_ids_stay_the_same_when_only_names_change() -> None:
    one = compiled("INSERT INTO console SELECT k AS a, count(*) AS b FROM s GROUP BY k")
    two = compiled("INSERT INTO console SELECT k AS c, count(*) AS d FROM s GROUP BY k")
    assert [v.id for v in one.job_graph.vertices] == [v.id for v in two.job_graph.vertices]


def test_ids_are_unique_when_one_insert_stands_twice() -> None:
    sql = f"EXECUTE STATEMENT SET BEGIN INSERT INTO console {COUNTS}; INSERT INTO console {COUNTS}; END"
    uids = [n.uid for n in compiled(sql).stream_graph.nodes]
    assert len(set(uids)) == len(uids)


def test_a_job_graph_survives_the_wire() -> None:
    graph = compiled(f"INSERT INTO console {COUNTS}").job_graph
    assert decode_job_graph(encode_job_graph(graph)) == graph


def test_a_job_graph_that_no_message_can_carry_fails_by_itself() -> None:
    graph = compiled(f"INSERT INTO console {COUNTS}").job_graph
    vertex = msgspec.structs.replace(graph.vertices[0], max_parallelism=2**70)
    with pytest.raises(InternalError, match="the plan cannot be sent"):
        encode_job_graph(msgspec.structs.replace(graph, vertices=(vertex,)))


def test_key_groups_cannot_be_fewer_than_subtasks() -> None:
    assert compiled(COUNTS).job_graph.vertices[0].max_parallelism == 128
    assert compiled(COUNTS, 200).job_graph.vertices[0].max_parallelism == 512
    with pytest.raises(UserError, match="below the parallelism"):
        compiled(COUNTS, pipeline__max_parallelism="1")


def test_a_job_is_named_after_its_targets() -> None:
    assert compiled(f"INSERT INTO console {COUNTS}").job_graph.name == (
        "insert-into_default_catalog.default_database.console"
    )
    assert compiled(COUNTS).job_graph.name == "collect"
    assert compiled(COUNTS, pipeline__name="mine").job_graph.name == "mine"


def test_ids_stay_the_same_when_a_query_moves_in_its_script() -> None:
    sql = "INSERT INTO console SELECT k, CAST(k AS BIGINT) + 1 FROM s WHERE 10 / k > 1"
    one, two = compiled(sql), compiled(f"\n\n  {sql}")
    assert [v.id for v in one.job_graph.vertices] == [v.id for v in two.job_graph.vertices]


def test_equal_calls_at_different_places_are_one_operator() -> None:
    insert = "INSERT INTO console SELECT k + 1, COUNT(*) FROM s GROUP BY k + 1"
    alone, both = compiled(insert), compiled(f"EXECUTE STATEMENT SET BEGIN {insert}; {insert}; END")
    # All but the second sink is shared.
    assert len(both.stream_graph.nodes) == len(alone.stream_graph.nodes) + 1


def test_a_literal_of_the_year_9999_crosses_the_wire() -> None:
    end = "TIMESTAMP '9999-12-31 23:59:59'"
    ddl = "CREATE TABLE e (k BIGINT, ts TIMESTAMP(3)) WITH ('connector' = 'stream');"
    for sql in (f"SELECT k FROM e WHERE ts < {end}", f"SELECT * FROM (VALUES (1, {end}))"):
        graph = compile_script(f"{ddl} {sql}")[0].job_graph
        assert decode_job_graph(encode_job_graph(graph)) == graph


def groups(sql: str, parallelism: int = 2) -> dict[str, str]:
    graph = compiled(sql, parallelism).job_graph
    return {v.name: v.slot_sharing_group for v in graph.vertices}


def test_a_group_of_a_table_is_that_of_all_behind_it_that_reads_nothing_else() -> None:
    hinted = "s /*+ OPTIONS('slot-sharing-group' = 'slow') */"
    assert set(groups(f"INSERT INTO console SELECT k, count(*) FROM {hinted} GROUP BY k").values()) == {
        "slow"
    }
    joined = groups(f"INSERT INTO console SELECT a.k, b.v FROM {hinted} AS a JOIN three AS b ON a.k = b.k")
    assert sorted(joined.values()) == ["default", "default", "slow"]


def test_operators_of_two_groups_are_two_vertices() -> None:
    sink = "console /*+ OPTIONS('slot-sharing-group' = 'out') */"
    plan = compiled(f"INSERT INTO {sink} SELECT k, v FROM s WHERE v > 1")
    assert [v.slot_sharing_group for v in plan.job_graph.vertices] == ["default", "out"]
    assert slots_needed(plan.job_graph) == 4
    assert "(parallelism 2, key groups 128, slot sharing group out)" in explain(plan)
    rescaled = rescaled_job_graph(plan.job_graph, 3)
    assert [v.slot_sharing_group for v in rescaled.vertices] == ["default", "out"]
    assert slots_needed(rescaled) == 6


def test_a_group_has_a_name() -> None:
    with pytest.raises(UserError, match='option "slot-sharing-group" is empty') as caught:
        compiled("INSERT INTO console SELECT k, v FROM s /*+ OPTIONS('slot-sharing-group' = ' ') */")
    assert (caught.value.code, caught.value.span is not None) == ("SS4002", True)
