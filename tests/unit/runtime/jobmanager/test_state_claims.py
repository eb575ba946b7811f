"""Which of several operators with the same meaning goes on with which state."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from plan_harness import compile_script

from sqlstream.errors import UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.operator_inputs import operator_inputs
from sqlstream.messages.checkpoint import SavedOperator, StateSegment, SubtaskState, TableState
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.manifest import CheckpointManifest, OperatorIdentity, VertexState
from sqlstream.runtime.jobmanager.checkpoints.state_claims import begun_empty, claims_of, left_out

DDL = """
CREATE TABLE s (k BIGINT, v BIGINT) WITH ('connector' = 'stream');
CREATE TABLE a (k BIGINT, c BIGINT) WITH ('connector' = 'print');
CREATE TABLE b (k BIGINT, c BIGINT) WITH ('connector' = 'print');
CREATE TABLE c (k BIGINT, c BIGINT) WITH ('connector' = 'print');
SET 'table.optimizer.reuse-sub-plan-enabled' = 'false';
"""
COUNTS = "SELECT k, COUNT(*) FROM s GROUP BY k"


def job(*inserts: str, more: str = "") -> JobGraph:
    """Its operators are shared by no two inserts."""
    text = " ".join(f"INSERT INTO {insert};" for insert in inserts)
    (plan,) = compile_script(
        f"{DDL} {more} EXECUTE STATEMENT SET BEGIN {text} END;", {"parallelism.default": "2"}
    )
    return plan.job_graph


def saved(
    graph: JobGraph, *, with_meaning: bool = True, with_positions: bool = False, with_inputs: bool = True
) -> CheckpointManifest:
    """Every operator that can has state. Ids of operators are 100 more than the job's. A source has its id as its position."""
    inputs = {
        id: tuple(tuple(n + 100 for n in each) for each in read) if with_inputs else None
        for id, read in operator_inputs(graph).items()
    }
    segment = StateSegment("shared/x.arrow", 0, 8, 1, 1, 0, 127)
    vertices = tuple(
        VertexState(
            f"old{v.id}",
            v.name,
            1,
            128,
            tuple(
                OperatorIdentity(
                    o.id + 100, o.uid, o.name, "", o.state if with_meaning else None, inputs[o.id]
                )
                for o in v.operators
            ),
            (
                SubtaskState(
                    tuple(
                        SavedOperator(o.id + 100, (TableState("t", True, (segment,)),))
                        for o in v.operators
                        if o.state is not None
                    ),
                    splits=({"row": v.operators[0].id},)
                    if with_positions and not graph.inputs_of(v.id)
                    else None,
                ),
            ),
            (False,),
        )
        for v in graph.vertices
    )
    return CheckpointManifest("old", "old", 7, CheckpointKind.SAVEPOINT, 1, 2, vertices, {}, ())


def kept(old: JobGraph, new: JobGraph, **manifest: bool) -> dict[str, str]:
    """The title that each operator with a state of its own goes on with, by its title."""
    operators = {o.id: o for v in new.vertices for o in v.operators}
    found = {}
    for id, claim in claims_of(saved(old, **manifest), new).items():
        state = operators[id].state
        if state is not None:
            found[state.title] = claim.operator.title
    return found


def of(*tables: str) -> dict[str, str]:
    """Every operator of these tables goes on with its own."""
    titles = ("the position in table s", "GROUP BY k (COUNT(*))", "")
    return {
        f"{title or f'the rows of table {t}'} of INSERT INTO {t}": f"{title or f'the rows of table {t}'} of INSERT INTO {t}"
        for t in tables
        for title in titles
    }


def test_equal_operators_are_told_apart_by_the_tables_that_they_feed() -> None:
    old = job(f"a {COUNTS}", f"b {COUNTS}")
    assert kept(old, job(f"a {COUNTS}", f"b {COUNTS}")) == of("a", "b")
    assert kept(old, job(f"b {COUNTS}", f"a {COUNTS}")) == of("a", "b")
    new = job(f"c {COUNTS}", f"b {COUNTS}", f"a {COUNTS}")
    # The source that is there anew reads on with the others.
    assert kept(old, new) == {
        **of("a", "b"),
        "the position in table s of INSERT INTO c": "the position in table s of INSERT INTO a",
    }
    claims = claims_of(saved(old), new)
    assert begun_empty(new, claims) == ("GROUP BY k (COUNT(*)) of INSERT INTO c",)
    assert left_out(saved(old), claims) == ()


def test_one_operator_goes_on_whatever_it_feeds() -> None:
    found = kept(job(f"a {COUNTS}"), job(f"b {COUNTS}"))
    assert found["GROUP BY k (COUNT(*)) of INSERT INTO b"] == "GROUP BY k (COUNT(*)) of INSERT INTO a"


def test_what_is_gone_is_named() -> None:
    old, new = job(f"a {COUNTS}", "b SELECT k, SUM(v) FROM s GROUP BY k"), job(f"a {COUNTS}")
    assert left_out(saved(old), claims_of(saved(old), new)) == (
        "the position in table s of INSERT INTO b",
        "GROUP BY k (SUM(v)) of INSERT INTO b",
        "the rows of table b of INSERT INTO b",
    )


def test_state_under_a_condition_on_its_keys_is_kept_only_under_that_and_others() -> None:
    wide, narrow = f"a {COUNTS}", "a SELECT k, COUNT(*) FROM s WHERE k > 1 GROUP BY k"
    narrower = "a SELECT k, COUNT(*) FROM s WHERE k < 9 AND k > 1 GROUP BY k"
    title = "GROUP BY k (COUNT(*)) of INSERT INTO a"
    for old, new in ((wide, narrow), (wide, narrower), (narrow, narrower), (narrow, narrow)):
        assert title in kept(job(old), job(new))
    for old, new in ((narrow, wide), (narrower, narrow)):
        assert title not in kept(job(old), job(new))


def test_state_that_was_saved_without_its_meaning_belongs_to_the_same_plan() -> None:
    graph = job(f"a {COUNTS}")
    operators = [o for v in graph.vertices for o in v.operators]
    claims = claims_of(saved(graph, with_meaning=False), graph)
    assert {id: claim.operator.id for id, claim in claims.items()} == {o.id: o.id + 100 for o in operators}
    other = replace(
        graph,
        vertices=tuple(
            replace(v, operators=tuple(replace(o, uid=f"x{o.uid}") for o in v.operators))
            for v in graph.vertices
        ),
    )
    assert claims_of(saved(graph, with_meaning=False), other) == {}


SUMS = "SELECT k, SUM(v) FROM s GROUP BY k"
SHARED = "SET 'table.optimizer.reuse-sub-plan-enabled' = 'true';"
POSITION = "the position in table s of INSERT INTO"


@pytest.mark.parametrize("with_inputs", [True, False])
def test_a_source_goes_on_where_the_state_that_it_feeds_stands(with_inputs: bool) -> None:
    def found(old: JobGraph, new: JobGraph) -> dict[str, str]:
        pairs = kept(old, new, with_positions=True, with_inputs=with_inputs)
        return {title: of for title, of in pairs.items() if "position" in title}

    # Its insert has another table, and the one before it is gone.
    assert found(job(f"a {COUNTS}", f"b {SUMS}"), job(f"c {SUMS}")) == {f"{POSITION} c": f"{POSITION} b"}
    # Both inserts have the table of the other.
    swapped = found(job(f"a {COUNTS}", f"b {SUMS}"), job(f"a {SUMS}", f"b {COUNTS}"))
    assert swapped == {f"{POSITION} a": f"{POSITION} b", f"{POSITION} b": f"{POSITION} a"}


def test_sources_that_were_one_go_on_at_its_position() -> None:
    table = "CREATE TABLE f (k BIGINT, v BIGINT) WITH ('connector' = 'filtering');"
    inserts = ("c SELECT k, v FROM f WHERE v > 1", "a SELECT k, COUNT(*) FROM f GROUP BY k")
    other = "b SELECT k, SUM(v) FROM f GROUP BY k"
    # The connector filters, and so the first insert reads alone.
    old = job(*inserts, other, more=table + SHARED)
    found = kept(old, job(*inserts, other, more=table), with_positions=True)
    at = "the position in table f of INSERT INTO"
    assert {title: of for title, of in found.items() if at in title} == {
        f"{at} c": f"{at} c",
        f"{at} a": f"{at} a, b",
        f"{at} b": f"{at} a, b",
    }


def test_a_source_that_is_to_stand_at_two_positions_is_refused() -> None:
    old = job(f"a {COUNTS}", f"b {SUMS}")
    new = job(f"a {COUNTS}", f"b {SUMS}", more=SHARED)
    assert f"{POSITION} a, b" in kept(old, new)
    with pytest.raises(UserError, match=f"it is open where {POSITION} a, b goes on") as raised:
        claims_of(saved(old, with_positions=True), new)
    assert raised.value.code == "SS6204"


def test_sources_without_state_behind_them_are_told_apart_by_their_tables_alone() -> None:
    rows = "SELECT k, v FROM s"
    old = job(f"a {rows}", f"b {rows}")
    found = kept(old, job(f"b {rows}", f"c {rows}"), with_positions=True)
    assert (found[f"{POSITION} b"], found[f"{POSITION} c"]) == (f"{POSITION} b", f"{POSITION} a")
    with pytest.raises(UserError, match=f"it is open where {POSITION} c goes on"):
        claims_of(saved(old, with_positions=True), job(f"c {rows}"))


def test_sources_of_one_insert_are_told_apart_while_it_stays_as_it_is() -> None:
    table = "CREATE TABLE f (k BIGINT, v BIGINT) WITH ('connector' = 'filtering');"
    branches = ("SELECT k, v FROM f WHERE v > 1", "SELECT k, v FROM f WHERE v < 0")
    old = job(f"a {' UNION ALL '.join(branches)}", more=table)
    more = job(f"b {COUNTS}", f"a {' UNION ALL '.join(branches)}", more=table)
    claims = claims_of(saved(old, with_positions=True), more)
    operators = [o for v in more.vertices for o in v.operators if o.id in claims]
    assert len(operators) >= 3
    assert all(claims[o.id].operator.uid == o.uid for o in operators)
    other = job(f"a {' UNION ALL '.join(reversed(branches))}", more=table)
    with pytest.raises(UserError, match="it is open where the position in table f"):
        claims_of(saved(old, with_positions=True), other)
