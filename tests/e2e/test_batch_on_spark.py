"""Statements in batch on Spark have the rows of the stream: the golden scripts, and the Nexmark queries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from batch_scripts import ORDER_OF_ARRIVAL
from command_harness import ROOT, environment
from differential.nexmark_batch import BATCH_SQL
from spark_connect_harness import ConnectServer

RESULTS = ROOT / "tests" / "golden" / "results"
TIMEOUT_S = 1800
NOT_EXACT = {
    "event_metadata": 1,
    "group": 1,
    "json": 3,
    "match_recognize": 3,
    "ordered_aggregates": 1,
    "versions_of_changes": 5,
    "with_recursive": 4,
}
"""Statements that AUTOMATIC runs as streams, how many of a script: they depend on the order of rows, match
patterns, read events of changes or their versions, give a VARIANT, or are recursive."""


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
def test_the_golden_scripts_and_nexmark_have_the_rows_of_the_stream() -> None:
    _check([json.loads(line) for line in _printed("spark")])


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
def test_they_have_them_at_a_spark_connect_server_too(tmp_path: Path) -> None:
    with ConnectServer(tmp_path) as server:
        _check([json.loads(line) for line in _printed("spark", f"spark.remote={server.url}")])


def _printed(*words: str) -> list[str]:
    ended = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "batch_scripts.py"), *words],
        cwd=RESULTS,
        env=environment(PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}"),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout.splitlines()


def _check(outcomes: list[dict[str, Any]]) -> None:
    scripts = {file.stem for file in RESULTS.glob("*.sql")} - {"late_rows"}
    assert {outcome["name"] for outcome in outcomes} == scripts | (BATCH_SQL.keys() - ORDER_OF_ARRIVAL)
    wrong = [outcome for outcome in outcomes if outcome["text"] != _expected(outcome["name"])]
    assert wrong == []
    assert {o["name"]: o["streamed"] for o in outcomes if o["streamed"]} == NOT_EXACT


def _expected(name: str) -> str:
    golden: Path = RESULTS / f"{name}.out"
    return golden.read_text().rstrip("\n") if golden.exists() else ""
