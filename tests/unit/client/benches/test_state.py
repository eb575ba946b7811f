"""`sqlstream bench state` does what it measures."""

from __future__ import annotations

import json

import pytest

from client import main
from client.benches import state
from client.benches.state import StateBench
from client.benches.state_checkpoints import CheckpointBench


def test_every_operation_leaves_the_table_with_its_keys() -> None:
    figures = list(StateBench(70_000, 200_000).figures())
    assert {f.operation: (f.rows, f.entries) for f in figures} == {
        "create": (70_000, 70_000),
        "find": (196_608, 70_000),
        "write": (196_608, 70_000),
        "gather": (196_608, 70_000),
        "save": (70_000, 70_000),
        "expire": (70_000, 0),
        "load": (70_000, 70_000),
    }
    # A key has its row in the index, a count and a time at least.
    assert all(f.rows_per_cpu_s > 0 and f.bytes_per_key >= 32 for f in figures)


def test_a_snapshot_holds_what_was_written_since_the_last() -> None:
    figures = list(CheckpointBench(70_000).figures())
    assert [f.is_increment for f in figures] == [False, True, True, False, True]
    assert figures[0].saved_rows == figures[3].saved_rows == 70_000
    assert {f.saved_rows for f in figures[1::3]} == {700}
    assert all(f.stopped_ms > 0 and f.collect_s > 0 for f in figures)


def test_a_table_that_memory_cannot_hold_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(state, "free_bytes", lambda: 3_000_000)
    assert main.main(["bench", "state", "--rows", "1", "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert {figure["keys"] for figure in json.loads(out)} == {10_000}
    assert "30,000,000 keys are left out" in err
