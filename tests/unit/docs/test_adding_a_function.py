"""The function of docs/adding/function.md: three edits, laid over the tree, and it runs in three engines."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from document_overlay import Overlay, blocks, each_engine

SIGNATURES, BUILDERS = "sqlstream/functions/string.py", "runtime/evaluate/text/string.py"
GOLDEN = (
    "tests/golden/*.py",
    "tests/golden/functions/*",
    "tests/golden/signatures.out",
    "docs/sql/functions.md",
)
FUNCTIONS = (
    "tests/unit/sqlstream/functions",
    "tests/unit/planner/statements/test_describe_extension.py",
    "tests/unit/planner/lower/test_completeness.py::test_each_scalar_function_has_examples_that_are_compared_with_the_engines",
    "tests/differential/test_functions.py::test_a_function_has_the_values_of_the_stream[LEVENSHTEIN]",
    "tests/property/test_expressions.py::test_all_functions_are_among_those_that_are_tried",
)
"""Tests that take every function that is there."""


@pytest.fixture
def overlay(tmp_path: Path) -> Overlay:
    made = Overlay(tmp_path, (SIGNATURES, BUILDERS, *GOLDEN))
    signature, implementation = blocks("function.md", "python")
    made.insert(SIGNATURES, textwrap.indent(signature.rstrip(), "    ") + ",", "\n)\n")
    made.insert(BUILDERS, implementation, "\n")
    return made


@pytest.mark.timeout(600)
def test_the_function_of_the_page_takes_three_edits(overlay: Overlay) -> None:
    command = re.search(r"\$ pytest (.*)", blocks("function.md", "text")[0])
    assert command is not None
    overlay.pytest(*command[1].split())
    overlay.pytest(*command[1].replace("--rewrite", "").split(), *FUNCTIONS)
    page = (overlay.path / "docs/sql/functions.md").read_text()
    assert "`LEVENSHTEIN('kitten', 'sitting')` → `3`" in page
    values = (overlay.path / "tests/golden/functions/text.out").read_text()
    assert "NULL → NULL" in values[values.index("## LEVENSHTEIN") :]


@pytest.mark.timeout(600)
@each_engine
def test_the_function_of_the_page_runs_in_every_engine(overlay: Overlay, engine: str) -> None:
    line, _, shown = blocks("function.md", "text")[1].partition("\n")
    table = shown.rstrip().rpartition("\n")[0] + "\n"
    statement = line.split('"')[1]
    of_column = "SELECT LEVENSHTEIN(a, b) AS l FROM (VALUES ('kitten', 'sitting')) AS t (a, b) WHERE a <> b;"
    assert overlay.run(statement + of_column, engine).count(table) == 2
