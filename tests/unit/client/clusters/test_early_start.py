"""Processes start early where the text of a script looks as if its jobs need them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sqlstream.client.clusters import early_start
from sqlstream.client.clusters.early_start import early_task_managers, seems_large
from sqlstream.client.configuration import load_configuration
from sqlstream.runtime.providers import early_children

LARGE = "CREATE TABLE t (n INT) WITH ('connector' = 'datagen')"


@pytest.mark.parametrize(
    ("options", "is_large"),
    [
        ("'connector' = 'datagen'", True),
        ("'connector' = 'datagen', 'number-of-rows' = '100', 'rows-per-second'='100000'", False),
        ("'connector' = 'nexmark', 'nexmark.events' = '1000000'", True),
        ("'connector' = 'kafka', 'topic' = 't'", True),
        ("'connector' = 'filesystem', 'path' = 'large', 'format' = 'csv'", True),
        ("'connector' = 'filesystem', 'path' = 'large/a.csv', 'format' = 'csv'", True),
        ("'connector' = 'filesystem', 'path' = 'none', 'format' = 'csv'", False),
        ("'connector' = 'filesystem', 'path' = 'a\0b', 'format' = 'csv'", False),
    ],
)
def test_a_table_is_large_by_its_options(
    options: str, is_large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "a.csv").write_bytes(b"1\n" * 600)
    monkeypatch.chdir(tmp_path)
    assert seems_large(f"CREATE TABLE t (n INT) WITH ({options})", 1000) is is_large


def test_a_file_that_is_read_by_its_path_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"1\n" * 600)
    query = f"SELECT * FROM '{tmp_path}/a.csv'"
    assert seems_large(query, 1000)
    assert not seems_large(query, 2000)
    assert not seems_large("SELECT 100000000 AS n", 1000)


@pytest.mark.parametrize(
    ("text", "words", "task_managers", "started"),
    [
        ("SELECT 1", [], None, 0),
        ("SELECT 1", [], 3, 0),
        (LARGE, [], 3, 3),
        (LARGE, [], None, 1),
        (LARGE, ["parallelism.default=2"], None, 2),
        (f"SET 'parallelism.default' = '3'; {LARGE}", [], None, 3),
        (LARGE, ["parallelism.default=64"], None, 4),
        (LARGE, ["parallelism.default=4", "taskmanager.numberOfTaskSlots=2"], None, 2),
        (LARGE, ["execution.target=remote"], None, None),
        (LARGE, ["execution.runtime-mode=batch"], None, 0),
        (LARGE, ["execution.runtime-mode=batch"], 2, 2),
        (f"SET 'execution.runtime-mode' = 'batch'; {LARGE}", [], None, 0),
    ],
)
def test_as_many_start_as_the_parallelism_needs_and_all_are_ended(
    text: str,
    words: list[str],
    task_managers: int | None,
    started: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Children:
        def __init__(self) -> None:
            self.counts: list[int] = []
            self.ends = 0

        def start(self, count: int) -> None:
            self.counts.append(count)

        def end(self) -> None:
            self.ends += 1

    children = Children()
    monkeypatch.setattr(early_start, "EARLY_CHILDREN", children)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    with early_task_managers([text], load_configuration(None, words, {}), task_managers):
        assert children.ends == 0
    assert children.counts == ([] if started is None else [started])
    assert children.ends == len(children.counts)


def test_a_child_that_no_job_asks_for_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[subprocess.Popen[bytes]] = []

    def start_child() -> subprocess.Popen[bytes]:
        made.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
        return made[-1]

    monkeypatch.setattr(early_children, "KEEP_S", 0.1)
    monkeypatch.setattr(early_children, "start_child", start_child)
    children = early_children.EarlyChildren()
    children.start(2)
    for child in made:
        assert child.wait(60) < 0
    assert children.take() is None
