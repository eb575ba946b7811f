"""The operator of docs/adding/operator.md: three files and a line, laid over the tree, are planned, run and moved."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs/adding/operator.md").read_text()
FILES = ("sqlstream/specs/keep_first.py", "planner/physical/keep_first.py", "runtime/operators/keep_first.py")
PACKAGES = ("sqlstream", "planner", "runtime", "client")
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


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOC, re.DOTALL)


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """The tree, by links, with the files and the line of the document."""
    *sources, entry, _ = blocks("python")
    (line,) = re.findall(r"^    OperatorEntry.*\n", entry, re.MULTILINE)
    for package in PACKAGES:
        _link(ROOT / package, tmp_path / package, {Path(f).parent for f in FILES})
    for file, source in zip(FILES, sources, strict=True):
        (tmp_path / file).write_text(source)
    registry = tmp_path / "sqlstream/operators.py"
    text = registry.read_text()
    registry.unlink()
    registry.write_text(text.replace("\n]\n", f"\n{line}]\n", 1))
    return tmp_path


def _link(source: Path, target: Path, real: set[Path]) -> None:
    """Link a directory's entries; those that lead to one of `real` are directories of their own."""
    target.mkdir()
    for entry in source.iterdir():
        relative = entry.relative_to(ROOT)
        if entry.is_symlink():
            (target / entry.name).symlink_to(entry.readlink())
        elif any(path == relative or relative in path.parents for path in real):
            _link(entry, target / entry.name, real)
        elif entry.name != "__pycache__":
            (target / entry.name).symlink_to(entry)


def run_in(overlay: Path, *arguments: str, text: str = "") -> str:
    path = os.pathsep.join(str(p) for p in (overlay, ROOT / "tests"))
    done = subprocess.run(
        [sys.executable, *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=100,
        cwd=overlay,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(300)
def test_the_operator_of_the_document_is_planned_run_tested_and_moved_to_other_parallelisms(
    overlay: Path,
) -> None:
    command, _, table = blocks("text")[0].partition("\n")
    statement = command.split('"')[1]
    cli = ("-c", "from sqlstream.client.start import command; command()")
    plan = run_in(overlay, *cli, "explain", "-", text=statement)
    assert "-> KeepFirst[2] ->" in plan
    assert "state=[each distinct row; dropped: never]" in plan
    assert run_in(overlay, *cli, "run", "-", text=statement).startswith(table.rstrip().rpartition("\n")[0])
    (overlay / "test_keep_first.py").write_text(blocks("python")[-1])
    (overlay / "test_moves.py").write_text(MOVES)
    passed = run_in(
        overlay, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_keep_first.py", "test_moves.py"
    )
    assert "3 passed" in passed


def test_the_tree_has_no_such_operator() -> None:
    assert not any((ROOT / file).exists() for file in FILES)
