"""What becomes of many small queries: the plan after the rules, the physical plan, and the operators with the digests of their
specs; or the error that refuses them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from plan_harness import compile_script

from sqlstream.errors import UserError, render_error
from sqlstream.planner.explain import explain_physical, explain_stream_graph
from sqlstream.planner.relational.node import explain_relation

OPERATORS = Path(__file__).parent / "operators"
SCRIPTS = sorted(p for p in OPERATORS.glob("*.sql") if p.stem != "tables")
TABLES = (OPERATORS / "tables.sql").read_text()
SETTINGS = {"parallelism.default": "2", "table.exec.state.ttl": "1 h"}


def printed(query: str) -> str:
    try:
        (plan,) = compile_script(TABLES + query, SETTINGS)
    except UserError as error:
        return f"{query}\n\n{render_error(error, TABLES + query)}"
    optimised = "\n".join(explain_relation(node) for node in plan.optimised)
    stages = (optimised, explain_physical(plan.physical), explain_stream_graph(plan.stream_graph))
    return "\n\n".join((query, *stages)).replace("`default_catalog`.`default_database`.", "")


@pytest.mark.parametrize("script", SCRIPTS, ids=[s.stem for s in SCRIPTS])
def test_queries_have_the_operators_in_their_golden_file(
    script: Path, golden: Callable[[Path, str], None]
) -> None:
    queries = [query.strip() for query in script.read_text().split(";\n") if query.strip()]
    golden(script.with_suffix(".out"), "\n\n----\n\n".join(map(printed, queries)))
