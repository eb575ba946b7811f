"""Every script in tests/golden/plans, and every Nexmark query, against its printed plans."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_harness import ROOT, TIMEOUT_S, environment
from plan_harness import compile_script

from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.parallelism import rescaled_job_graph
from sqlstream.planner.compile import explain
from sqlstream.runtime.connectors.duckdb.connector import DuckDb
from sqlstream.runtime.connectors.files.filesystem import Filesystem
from sqlstream.runtime.connectors.generators.nexmark import Nexmark
from sqlstream.runtime.formats.csv import Csv

PLANS = Path(__file__).parent / "plans"
NEXMARK = ROOT / "queries" / "nexmark"
SCRIPTS = sorted(PLANS.glob("*.sql"))
CONNECTORS = {made.descriptor.identifier: made.descriptor for made in (Nexmark, DuckDb, Filesystem)}
FORMATS = {"csv": Csv.descriptor}
QUERIES = sorted(NEXMARK.glob("*.sql"))


@pytest.mark.parametrize("script", SCRIPTS, ids=[s.stem for s in SCRIPTS])
def test_a_script_has_the_plans_in_its_golden_file(script: Path, golden: Callable[[Path, str], None]) -> None:
    golden(script.with_suffix(".out"), explained(script))


def explained(script: Path) -> str:
    plans = compile_script(script.read_text(), None, CONNECTORS, FORMATS)
    return "\n\n".join(explain(p) for p in plans)


@pytest.mark.parametrize("query", QUERIES, ids=[q.stem for q in QUERIES])
def test_a_nexmark_query_has_the_plan_in_its_golden_file(
    query: Path, golden: Callable[[Path, str], None]
) -> None:
    plans = compile_script(query.read_text(), {"parallelism.default": "2"}, CONNECTORS, FORMATS)
    golden(PLANS / f"nexmark_{query.stem}.out", "\n\n".join(explain(p) for p in plans))


PRINT_PLANS = """
from golden.test_plans import SCRIPTS, explained

print(hash("a"))
for script in SCRIPTS:
    print(script.name, explained(script))
"""


def test_plans_do_not_depend_on_the_order_of_hashes() -> None:
    """A process has one seed of its hashes."""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", PRINT_PLANS],
            cwd=ROOT / "tests",
            env=environment(PYTHONHASHSEED=seed),
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    (one_hash, one), (other_hash, other) = (
        child.communicate(timeout=TIMEOUT_S)[0].split("\n", 1) for child in children
    )
    assert [child.returncode for child in children] == [0, 0]
    assert one_hash != other_hash
    assert one == other
    assert one.count("== Job Graph ==") >= len(SCRIPTS)


@pytest.mark.parametrize("query", QUERIES, ids=lambda path: path.stem)
def test_a_nexmark_query_has_the_same_operators_and_state_at_every_parallelism(query: Path) -> None:
    """The uids, by which state is found, are among what is compared."""

    def planned(parallelism: int) -> list[JobGraph]:
        settings = {"parallelism.default": str(parallelism)}
        return [plan.job_graph for plan in compile_script(query.read_text(), settings, CONNECTORS, FORMATS)]

    for one, four in zip(planned(1), planned(4), strict=True):
        assert rescaled_job_graph(one, 4) == four
        assert rescaled_job_graph(four, 1) == one
