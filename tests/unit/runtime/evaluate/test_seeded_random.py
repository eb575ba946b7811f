"""RAND and RAND_INTEGER with a seed."""

from __future__ import annotations

from expression_harness import call, col, evaluate, lit

from sqlstream.types import INT


def test_a_literal_seed_gives_the_sequence_of_java_util_random() -> None:
    seed, rows = lit(42, INT.not_null()), [(0,)] * 5
    assert evaluate(call("RAND_INTEGER", seed, lit(100, INT.not_null())), rows) == [30, 63, 48, 84, 70]
    assert evaluate(call("RAND_INTEGER", seed, lit(64, INT.not_null())), rows[:3]) == [46, 3, 43]
    assert evaluate(call("RAND", seed), rows[:2]) == [0.7275636800328681, 0.6832234717598454]
    # Numbers that would favour the lower ones are drawn again.
    drawn = evaluate(
        call("RAND_INTEGER", lit(7, INT.not_null()), lit(1_500_000_000, INT.not_null())), rows[:4]
    )
    assert drawn == [1371249164, 20678044, 747989380, 1053566254]


def test_a_seed_of_the_row_starts_anew() -> None:
    rows = [(42, 100), (None, 100), (42, None), (42, 100)]
    assert evaluate(call("RAND_INTEGER", col(0, INT), col(1, INT)), rows) == [30, None, None, 30]
    assert evaluate(call("RAND", col(0, INT)), rows[:2]) == [0.7275636800328681, None]
