"""Scripts, statement by statement: what each answers, the plan that a query is bound to, or the error that refuses it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from planner_harness import TABLES, Planner

from sqlstream.errors import UserError, render_error
from sqlstream.planner.relational.node import explain_relation
from sqlstream.planner.relational.nodes import RelationalNode
from sqlstream.planner.statements.result import DdlResult

SCRIPTS = sorted((Path(__file__).parent / "statements").glob("*.sql"))


def printed(answer: RelationalNode | DdlResult) -> str:
    if isinstance(answer, RelationalNode):
        plan = explain_relation(answer).replace("`default_catalog`.`default_database`.", "")
        return f"{plan}\n{answer.schema}"
    lines = [
        str(answer.schema),
        *("\n".join(map(str, row)) if len(row) == 1 else str(row) for row in answer.rows),
    ]
    return "\n".join([*lines, *([f"({answer.done})"] if answer.done else [])])


def answered(planner: Planner, statement: str) -> str:
    try:
        return "\n".join(printed(answer) for answer in planner.run(statement))
    except UserError as error:
        return render_error(error, statement)


@pytest.mark.parametrize("script", SCRIPTS, ids=[s.stem for s in SCRIPTS])
def test_a_script_has_the_answers_in_its_golden_file(
    script: Path, golden: Callable[[Path, str], None]
) -> None:
    planner = Planner()
    planner.run(TABLES)
    statements = [text.strip() for text in script.read_text().split(";\n") if text.strip()]
    golden(script.with_suffix(".out"), "\n\n".join(f"> {s}\n{answered(planner, s)}" for s in statements))
