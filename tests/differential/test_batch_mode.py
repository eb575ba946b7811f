"""A statement in batch mode has the rows that it has as a stream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from differential.nexmark_batch import BATCH_SQL
from differential.test_nexmark import answer
from golden.test_results import RESULTS, SCRIPTS, printed
from oracle import Engine, assert_same_rows, rows_of

from sqlstream.errors import UserError
from sqlstream.planner.compile import CompiledPlan

DUCKDB = {"execution.runtime-mode": "BATCH", "execution.batch.engine": "duckdb"}
EVENTS = 20_000
NOT_EXACT = {
    "event_metadata": 1,
    "group": 1,
    "json": 3,
    "match_recognize": 3,
    "ordered_aggregates": 1,
    "versions_of_changes": 5,
    "with_recursive": 1,
}
"""Statements that AUTOMATIC runs as streams, how many of a script: they depend on the order of rows, or read each other."""

WITHOUT_LATE_ROWS = [script for script in SCRIPTS if script.stem != "late_rows"]


@pytest.mark.parametrize("script", WITHOUT_LATE_ROWS, ids=[s.stem for s in WITHOUT_LATE_ROWS])
def test_a_script_has_the_rows_of_the_stream(
    script: Path, engine: Engine, golden: Callable[[Path, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(RESULTS)
    engine.configure(1, 65536, {"execution.runtime-mode": "AUTOMATIC"})
    finished = engine.run(script.read_text())
    streamed = sum(isinstance(each.plan, CompiledPlan) for each in finished)
    assert streamed == NOT_EXACT.get(script.stem, 0)
    golden(script.with_suffix(".out"), "\n\n".join(map(printed, finished)))


# test_verify.py has a quick one.
@pytest.mark.slow
@pytest.mark.parametrize("query", sorted(set(BATCH_SQL) - {"q12"}, key=lambda q: int(q[1:])))
def test_a_nexmark_query_has_the_rows_of_the_stream(query: str, engine: Engine) -> None:
    streamed = answer(engine, query, parallelism=1, events=EVENTS)
    batch = answer(engine, query, parallelism=1, settings=DUCKDB, events=EVENTS)
    assert batch.schema == streamed.schema
    if query == "q19":
        # Bids of one price may change places.
        batch, streamed = batch.select(["auction", "price"]), streamed.select(["auction", "price"])
    assert_same_rows(rows_of(batch), rows_of(streamed))


def test_a_window_of_processing_time_is_refused_with_its_place(engine: Engine) -> None:
    with pytest.raises(UserError) as refused:
        answer(engine, "q12", parallelism=1, settings=DUCKDB, events=EVENTS)
    assert refused.value.code == "SS3301"
    assert refused.value.span is not None
