"""VERIFY finds no difference between streams over two processes and batch on Spark. A share runs in `make test`; golden scripts,
Nexmark queries over a million events and 200 random queries run in `make test-all`."""

from __future__ import annotations

from pathlib import Path

import pytest
from differential.test_verify import (
    EVENTS,
    MANY_EVENTS,
    QUERIES,
    SEEDS_A_TEST,
    check_nexmark,
    check_script,
    check_seed,
    verifier,
)
from golden.test_results import SCRIPTS
from spark_harness.engine import SMALL
from verify_harness import TOLERANCE, Verifier

__all__ = ["verifier"]


@pytest.mark.timeout(600)
def test_a_share_of_all_has_the_same_rows_on_spark(verifier: Verifier) -> None:
    settings = {**TOLERANCE, **SMALL}
    check_nexmark(verifier, "q5", EVENTS, "spark", settings)
    check_seed(verifier, 5000, "spark", settings)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(6000, 6200, SEEDS_A_TEST))
def test_random_queries_have_the_same_rows_on_spark(first: int, verifier: Verifier) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        check_seed(verifier, seed, "spark")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("query", QUERIES)
def test_a_nexmark_query_has_the_same_rows_on_spark(query: str, verifier: Verifier) -> None:
    check_nexmark(verifier, query, MANY_EVENTS, "spark")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("script", SCRIPTS, ids=[s.stem for s in SCRIPTS])
def test_a_golden_script_has_the_same_rows_on_spark(script: Path, verifier: Verifier) -> None:
    check_script(verifier, script, "spark")
