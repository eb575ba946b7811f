"""The SQL of both batch engines for expressions of every function and for queries; that its answers are the stream's is a
differential test."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from function_examples import COLUMNS, EXAMPLES
from planner_harness import Planner

from sqlstream.errors import UserError
from sqlstream.expressions import Expression
from sqlstream.functions import (
    arithmetic,
    collection,
    comparison,
    conditional,
    conversion,
    hash,
    logical,
    string,
    temporal,
)
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.duckdb.dialect import DuckDbDialect
from sqlstream.planner.lower.engine import EngineDialect
from sqlstream.planner.lower.expression import lower_expression
from sqlstream.planner.lower.relation import lower, to_sql
from sqlstream.planner.lower.spark.dialect import SparkDialect
from sqlstream.planner.relational.nodes import Project, RelationalNode
from sqlstream.planner.rules import apply_rules

LOWERED = Path(__file__).parent / "lowered"
QUERIES = sorted(LOWERED.glob("*.sql"))
ENGINES: dict[str, Callable[[str], EngineDialect]] = {"duckdb": DuckDbDialect, "spark": SparkDialect}
ZONES = ("Europe/Berlin", "GMT-03:30")
"""Beside UTC, for local time: one with changes of its clock, and one without."""
FAMILIES = {
    "comparison": (*comparison.FUNCTIONS, *logical.FUNCTIONS, *conditional.FUNCTIONS, *collection.FUNCTIONS),
    "arithmetic": (*arithmetic.FUNCTIONS, *hash.FUNCTIONS),
    "string": string.FUNCTIONS,
    "temporal": temporal.FUNCTIONS,
    "conversion": conversion.FUNCTIONS,
}
ALIKE = {"<>", "<=", ">", ">=", "CEILING", "MOD", "IS NOT DISTINCT FROM", "CHARACTER_LENGTH", "SUBSTR"}
"""Functions that are lowered as another one is."""

EXAMPLES_MAX = {"temporal": 8}
"""By family: examples of each function, spread over all of them; else all."""


@functools.cache
def planner_in(zone: str) -> Planner:
    made = Planner()
    made.set("table.local-time-zone", zone)
    made.run(f"CREATE TABLE t ({COLUMNS}) WITH ('connector' = 'datagen')")
    return made


@functools.cache
def bound(zone: str, example: str) -> Expression:
    project = planner_in(zone).bind(f"SELECT {example} AS v FROM t")
    assert isinstance(project, Project)
    return project.expressions[0]


def lowered(engine: EngineDialect, zone: str, example: str) -> str:
    try:
        found = lower_expression(bound(zone, example), engine, tree.input_column)
    except UserError as error:
        return f"{error.code}: {error.message}; {error.hint}"
    return found.sql(dialect=engine.sqlglot_name, normalize_functions=False)


def printed(engine: str, zone: str, examples: Iterable[str]) -> str:
    dialect = ENGINES[engine](zone)
    return "\n\n".join(f"{example}\n{lowered(dialect, zone, example)}" for example in examples)


def query_sql(node: RelationalNode, engine: EngineDialect) -> str:
    try:
        return to_sql(lower(node, engine, lambda scan: scan.table.path.name), engine)
    except UserError as error:
        return f"{error.code}: {error.message}; {error.hint}"


def some(examples: Sequence[str], count: int) -> Sequence[str]:
    return examples[:: max(1, -(-len(examples) // count))]


def of_local_time() -> Iterator[str]:
    """Two examples of each function."""
    for examples in EXAMPLES.values():
        yield from [e for e in examples if re.search(r"\blt\b|LTZ", e)][-2:]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("family", FAMILIES)
def test_expressions_have_the_sql_in_their_golden_file(
    family: str, engine: str, golden: Callable[[Path, str], None]
) -> None:
    names = [f.name for f in FAMILIES[family] if f.name not in ALIKE]
    examples = dict.fromkeys(
        e for name in names for e in some(EXAMPLES[name], EXAMPLES_MAX.get(family, 1000))
    )
    golden(LOWERED / f"{family}.{engine}.out", printed(engine, "UTC", examples))


@pytest.mark.parametrize("engine", ENGINES)
def test_more_expressions_have_the_sql_in_their_golden_file(
    engine: str, golden: Callable[[Path, str], None]
) -> None:
    examples = (LOWERED / "more_expressions.txt").read_text().splitlines()
    golden(LOWERED / f"more_expressions.{engine}.out", printed(engine, "UTC", examples))


@pytest.mark.parametrize("engine", ENGINES)
def test_local_time_has_the_sql_in_its_golden_file(engine: str, golden: Callable[[Path, str], None]) -> None:
    found = [f"-- {zone}\n\n" + printed(engine, zone, of_local_time()) for zone in ZONES]
    golden(LOWERED / f"local_time.{engine}.out", "\n\n".join(found))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("script", QUERIES, ids=[s.stem for s in QUERIES])
def test_a_query_has_the_sql_in_its_golden_file(
    script: Path, engine: str, golden: Callable[[Path, str], None]
) -> None:
    planner, dialect = Planner(), ENGINES[engine]("Europe/Berlin")
    planner.set("table.local-time-zone", "Europe/Berlin")
    found = []
    for statement in script.read_text().split(";\n"):
        for node in planner.run(statement):
            if isinstance(node, RelationalNode):
                plans = dict.fromkeys((node, apply_rules(node)))
                found.append("\n".join((statement, *(query_sql(plan, dialect) for plan in plans))))
    golden(script.with_suffix(f".{engine}.out"), "\n\n".join(found))
