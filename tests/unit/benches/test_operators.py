"""`main.py operators` feeds every family, and its rows reach the end of the operators."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from benches import main
from benches.operator_families import FAMILIES
from benches.operator_rows import Rows
from benches.operators import OperatorBench

from sqlstream.arrow import is_accumulate, row_kinds
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.schema import Schema
from sqlstream.types import BIGINT

SCHEMA = Schema.of(("id", BIGINT), ("k", BIGINT), ("v", BIGINT))


def test_every_family_is_planned_and_fed() -> None:
    figures = list(OperatorBench(1e-6).figures(list(FAMILIES), (20,), (100,)))
    assert [f.family for f in figures] == list(FAMILIES)
    assert all(f.rows_in >= 99 for f in figures)
    # One batch closes no window of 10 s, is later than the first row of each key, ends no match open for long, and has few
    # of the greatest of 10,000 values.
    silent = {
        "deduplicate-first",
        "distinct-retract",
        "first-value-retract",
        "match-open",
        *(n for n in FAMILIES if n.startswith(("window", "max-", "top-"))),
    }
    assert {f.family for f in figures if f.rows_out == 0} <= silent
    assert {f.rows_out for f in figures if f.family in ("join", "join-retract")} == {100}


@pytest.mark.parametrize("is_skewed", [False, True])
def test_updates_retract_rows_that_are_there(is_skewed: bool) -> None:
    rows = Rows((SCHEMA,), (ChangelogMode.RETRACT,), FAMILIES["max-retract"], 5, is_skewed)
    table: Counter[tuple[int, ...]] = Counter()
    for batch, _, _ in (*rows.fill(70_000), *rows.round(1_000), *rows.round(7)):
        signs = is_accumulate(row_kinds(batch))
        for sign, row in zip(
            signs.tolist(), zip(*(c.to_pylist() for c in batch.columns[:3]), strict=True), strict=True
        ):
            table[row] += 1 if sign else -1
            assert table[row] >= 0
    keys = Counter(k for _, k, _ in table.elements())
    assert keys.total() == 200_000
    assert len(keys) == 5
    assert (keys.most_common(1)[0][1] > 60_000) is is_skewed


def test_figures_are_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "figures.json"
    words = ["operators", "--only", "window,interval-join", "--keys", "10", "--batch-rows", "50"]
    assert main.main([*words, "--seconds", "0.000001", "--skewed", "--json", str(path)]) == 0
    assert [f["family"] for f in json.loads(path.read_text())] == ["window"]
    assert "interval-join is left out" in capsys.readouterr().out


def test_an_unknown_family_is_named() -> None:
    from benches import operators_command

    with pytest.raises(UserError, match='no family of operators "joins"'):
        operators_command.chosen("joins", list(FAMILIES), "family of operators")
