"""`main.py state` does what it measures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benches import main, state
from benches.state import StateBench
from benches.state_checkpoints import CheckpointBench
from benches.state_memory import MappedBench

from sqlstream.runtime.memory.array_memory import in_force
from sqlstream.runtime.memory.mapped_memory import MappedMemory


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


def test_mapped_state_counts_as_that_in_memory_and_stays_near_its_limit() -> None:
    figures = list(MappedBench(300_000, 20).figures())
    assert [(f.pages, f.distribution) for f in figures] == [
        (pages, distribution) for pages in ("cached", "disk") for distribution in ("zipf", "uniform")
    ]
    assert all(4 * f.limit_bytes <= f.state_bytes < 5 * f.limit_bytes for f in figures)
    assert all(
        0 < f.mapped_bytes <= f.highest_bytes <= 3 * f.state_bytes and f.cpu > 0 and f.wall > 0
        for f in figures
    )


@pytest.mark.usefixtures("small_mapped")
def test_keys_are_counted_in_files_as_in_memory(tmp_path: Path) -> None:
    in_memory = StateBench(5_000, 1)
    with in_force(MappedMemory("bench", [str(tmp_path)])):
        mapped = StateBench(5_000, 1)
    numbers = np.random.default_rng(3).integers(0, 5_000, 65_536)
    for bench in (in_memory, mapped):
        bench.update(numbers)
    found, wanted = (
        b.table.save().keyed["bench"].sort_by("key").column("count") for b in (mapped, in_memory)
    )
    assert found == wanted
    assert sum(found.to_pylist()) == 65_536


@pytest.fixture
def small_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlstream.runtime.memory.mapped_memory.MAPPED_BYTES_MIN", 4096)


def test_a_table_that_memory_cannot_hold_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(state, "free_bytes", lambda: 3_000_000)
    assert main.main(["state", "--rows", "1", "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert {figure["keys"] for figure in json.loads(out)} == {10_000}
    assert "30,000,000 keys are left out" in err
