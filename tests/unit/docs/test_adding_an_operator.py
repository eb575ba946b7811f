"""The operator of docs/adding/operator.md: three files and a line, laid over the tree, are planned, run and moved."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from document_overlay import ROOT, Overlay, blocks

FILES = (
    "sqlstream/specs/keep_first.py",
    "planner/relational/keep_first.py",
    "runtime/operators/keep_first.py",
)
REGISTRY = "sqlstream/operators.py"
MOVES = """
import pytest
from moved_jobs import plan_job, run_job
from operator_harness import final_table
from property.test_moved_state import PARALLELISMS, TABLES, scripts

def test_it_moves():
    graph = plan_job(TABLES + "SELECT DISTINCT k, g FROM bids;")
    for seed in range(3):
        stays = run_job(graph, scripts(seed), [1], seed)
        moves = run_job(graph, scripts(seed), PARALLELISMS, seed)
        assert final_table(moves) == final_table(stays)
        assert max(final_table(stays).values()) == 1
    specs = [o.spec for vertex in graph.vertices for o in vertex.operators]
    assert "KeepFirstSpec" in {type(spec).__name__ for spec in specs}
"""


@pytest.fixture
def overlay(tmp_path: Path) -> Overlay:
    made = Overlay(tmp_path, (REGISTRY, *(str(Path(file).parent) for file in FILES)))
    *sources, entry, _ = blocks("operator.md", "python")
    (line,) = re.findall(r"^    OperatorEntry.*\n", entry, re.MULTILINE)
    for file, source in zip(FILES, sources, strict=True):
        made.write(file, source)
    made.insert(REGISTRY, line, "\n]\n")
    return made


@pytest.mark.timeout(300)
def test_the_operator_of_the_document_is_planned_run_tested_and_moved_to_other_parallelisms(
    overlay: Overlay,
) -> None:
    command, _, table = blocks("operator.md", "text")[0].partition("\n")
    statement = command.split('"')[1]
    plan = overlay.sqlstream("explain", "-", text=statement)
    assert "-> KeepFirst[2] ->" in plan
    assert "state=[each distinct row; dropped: never]" in plan
    shown = overlay.sqlstream("run", "-", text=statement)
    assert shown.startswith(table.rstrip().rpartition("\n")[0])
    overlay.write("test_keep_first.py", blocks("operator.md", "python")[-1])
    overlay.write("test_moves.py", MOVES)
    assert "3 passed" in overlay.pytest("test_keep_first.py", "test_moves.py")


def test_the_tree_has_no_such_operator() -> None:
    assert not any((ROOT / file).exists() for file in FILES)
