"""Which of several operators with the same meaning goes on with which state."""

from __future__ import annotations

from msgspec.structs import replace
from plan_harness import compile_script

from runtime.jobmanager.checkpoints.state_claims import begun_empty, claims_of, left_out
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.checkpoint import SavedOperator, StateSegment, SubtaskState, TableState
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.manifest import CheckpointManifest, OperatorIdentity, VertexState

DDL = """
CREATE TABLE s (k BIGINT, v BIGINT) WITH ('connector' = 'stream');
CREATE TABLE a (k BIGINT, c BIGINT) WITH ('connector' = 'print');
CREATE TABLE b (k BIGINT, c BIGINT) WITH ('connector' = 'print');
CREATE TABLE c (k BIGINT, c BIGINT) WITH ('connector' = 'print');
SET 'table.optimizer.reuse-sub-plan-enabled' = 'false';
"""
COUNTS = "SELECT k, COUNT(*) FROM s GROUP BY k"


def job(*inserts: str) -> JobGraph:
    """Its operators are shared by no two inserts."""
    text = " ".join(f"INSERT INTO {insert};" for insert in inserts)
    (plan,) = compile_script(f"{DDL} EXECUTE STATEMENT SET BEGIN {text} END;", {"parallelism.default": "2"})
    return plan.job_graph


def saved(graph: JobGraph, *, with_meaning: bool = True) -> CheckpointManifest:
    """Every operator that can has state. Ids of operators are 100 more than the job's."""
    segment = StateSegment("shared/x.arrow", 0, 8, 1, 1, 0, 127)
    vertices = tuple(
        VertexState(
            f"old{v.id}",
            v.name,
            1,
            128,
            tuple(
                OperatorIdentity(o.id + 100, o.uid, o.name, "", o.state if with_meaning else None)
                for o in v.operators
            ),
            (
                SubtaskState(
                    tuple(
                        SavedOperator(o.id + 100, (TableState("t", True, (segment,)),))
                        for o in v.operators
                        if o.state is not None
                    )
                ),
            ),
            (False,),
        )
        for v in graph.vertices
    )
    return CheckpointManifest("old", "old", 7, CheckpointKind.SAVEPOINT, 1, 2, vertices, {}, ())


def kept(old: JobGraph, new: JobGraph) -> dict[str, str]:
    """The title that each operator with a state of its own goes on with, by its title."""
    operators = {o.id: o for v in new.vertices for o in v.operators}
    found = {}
    for id, claim in claims_of(saved(old), new).items():
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
