"""`main.py lookup` answers what it measures."""

from __future__ import annotations

import pytest
from benches.lookup import BARS, LookupFigure, figures


@pytest.mark.parametrize("connector", ["duckdb", "jdbc"])
def test_every_cache_answers_the_same_probes(connector: str) -> None:
    found = list(figures(90, 1_000, connector))
    assert [(f.cache, f.kind) for f in found] == [(c, k) for c in BARS for k in ("INNER", "LEFT")]
    assert {f.rows_out for f in found if f.kind == "LEFT"} == {1_000}
    (inner,) = {f.rows_out for f in found if f.kind == "INNER"}
    assert 800 < inner < 1_000


def test_a_figure_is_held_to_its_bar() -> None:
    assert LookupFigure("FULL", "INNER", 2_000_000, 2_000_000, 1, 1).is_within_bar
    assert not LookupFigure("FULL", "INNER", 1_999_999, 2_000_000, 1, 1).is_within_bar
