"""Random well-typed calls of all functions over edge values: no exception but a UserError, and one answer however rows are
cut into batches and whatever is constant."""

from __future__ import annotations

import random

import pytest
from expression_fuzzer import FUNCTIONS, NOT_BOUND_BY_NAME, ExpressionFuzzer, check

from sqlstream.errors import UserError
from sqlstream.expressions import Call, Literal, walk
from sqlstream.functions import SCALAR_FUNCTIONS
from sqlstream.functions.checks import is_constant
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.program import builder_of


def _check(seed: int) -> None:
    fuzzer = ExpressionFuzzer(seed)
    expression = fuzzer.expression()
    try:
        check(expression, fuzzer.batch(), fuzzer.time_zone, random.Random(seed))
    except BaseException as error:
        error.add_note(f"seed {seed}, time zone {fuzzer.time_zone}: {expression} : {expression.type}")
        raise


@pytest.mark.timeout(300)
def test_expressions_give_values_or_user_errors() -> None:
    for seed in range(150):
        _check(seed)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("start", range(100_000, 120_000, 2_000))
def test_many_expressions_give_values_or_user_errors(start: int) -> None:
    for seed in range(start, start + 2_000):
        _check(seed)


def test_all_functions_are_among_those_that_are_tried() -> None:
    assert set(FUNCTIONS) | NOT_BOUND_BY_NAME == set(SCALAR_FUNCTIONS)


def test_what_the_planner_binds_the_runtime_builds() -> None:
    """Only a constant that the planner cannot compute is left for the runtime to refuse, for each row."""
    fuzzer, refused = ExpressionFuzzer(11), set[str]()
    for name in [*FUNCTIONS, "CAST", "TRY_CAST", "FIELD"]:
        for _ in range(150):
            try:
                bound = fuzzer.call_of(name)
            except UserError as error:
                refused |= {name} if error.code.startswith(("SS31", "SS34")) else set()
                continue
            for call in walk(bound):
                if isinstance(call, Call) and all(
                    isinstance(a, Literal) or not is_constant(a) for a in call.args
                ):
                    try:
                        builder_of(call)(call, EvaluationContext())
                    except UserError as error:
                        pytest.fail(f"{call} is bound, and refused: {error}")
    assert len(refused) > 25
