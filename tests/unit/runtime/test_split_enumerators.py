"""Enumerators run on threads of their own: what they find is reported once, and nothing after their job's end."""

from __future__ import annotations

import os
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.host.files import LocalFiles
from runtime.jobmanager.events import DiscoveryFailed, GiveBackSplits, SplitsDiscovered, StartEnumerator
from runtime.split_enumerators import ConnectorEnumerators, enumerates_splits
from sqlstream import types as sql
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec

SCHEMA = Schema.of(("v", sql.INT))
TIMEOUT_S = 20.0


@pytest.fixture
def enumerators() -> Iterator[ConnectorEnumerators]:
    made = ConnectorEnumerators(LocalFiles())
    yield made
    made.close()


def source(path: Path, parallelism: int = 1, **options: str) -> StartEnumerator:
    given = {"path": str(path), "format": "csv", **options}
    spec = SourceSpec("t", "filesystem", given, SCHEMA, SCHEMA.names)
    return StartEnumerator("j", "v", spec, parallelism, {})


def watched(path: Path) -> StartEnumerator:
    return source(path, **{"source.monitor-interval": "20 ms"})


def put(path: Path) -> None:
    path.write_text("1\n")
    os.utime(path, (0, 0))


def paths(report: Any) -> list[str]:
    assert isinstance(report, SplitsDiscovered)
    return [os.path.basename(s.position["path"]) for s in report.discovery.splits]


def test_a_bounded_table_is_looked_at_once(enumerators: ConnectorEnumerators, tmp_path: Path) -> None:
    reports: queue.Queue[Any] = queue.Queue()
    for name in ("b.csv", "a.csv"):
        put(tmp_path / name)
    enumerators.start(source(tmp_path), reports.put)
    found = reports.get(timeout=TIMEOUT_S)
    assert paths(found) == ["a.csv", "b.csv"]
    assert found.discovery.is_last
    with pytest.raises(queue.Empty):
        reports.get(timeout=0.1)


def test_a_watched_directory_reports_news_alone_until_its_job_ends(
    enumerators: ConnectorEnumerators, tmp_path: Path
) -> None:
    reports: queue.Queue[Any] = queue.Queue()
    put(tmp_path / "a.csv")
    enumerators.start(watched(tmp_path), reports.put)
    first = reports.get(timeout=TIMEOUT_S)
    assert (paths(first), first.discovery.is_last) == (["a.csv"], False)
    put(tmp_path / "b.csv")
    later: list[str] = []
    while later != ["b.csv"]:
        later += paths(reports.get(timeout=TIMEOUT_S))
    enumerators.give_back(GiveBackSplits("j", "v", [first.discovery.splits[0].position]))
    again: list[str] = []
    while again != ["a.csv"]:
        again += paths(reports.get(timeout=TIMEOUT_S))
    enumerators.stop_job("j")
    put(tmp_path / "c.csv")
    with pytest.raises(queue.Empty):
        reports.get(timeout=0.2)


def test_a_failure_is_reported_and_the_next_start_looks_again(
    enumerators: ConnectorEnumerators, tmp_path: Path
) -> None:
    reports: queue.Queue[Any] = queue.Queue()
    started = watched(tmp_path / "table")
    enumerators.start(started, reports.put)
    failed = reports.get(timeout=TIMEOUT_S)
    assert isinstance(failed, DiscoveryFailed)
    assert (failed.error.code, failed.vertex_id) == ("SS5002", "v")
    with pytest.raises(queue.Empty):
        reports.get(timeout=0.1)
    (tmp_path / "table").mkdir()
    put(tmp_path / "table" / "a.csv")
    enumerators.start(started, reports.put)
    assert paths(reports.get(timeout=TIMEOUT_S)) == ["a.csv"]


def test_an_expression_that_takes_for_ever_does_not_hold_up_the_process(
    enumerators: ConnectorEnumerators, tmp_path: Path
) -> None:
    reports: queue.Queue[Any] = queue.Queue()
    put(tmp_path / ("a" * 60 + "b"))
    evil = source(tmp_path, **{"source.path.regex-pattern": ".*/(a+)+"})
    enumerators.start(evil, reports.put)
    assert paths(reports.get(timeout=TIMEOUT_S)) == []


def test_connectors_without_splits_have_no_enumerator() -> None:
    assert [enumerates_splits(name) for name in ("filesystem", "jdbc", "print", "unknown")] == [
        True, True, False, False
    ]  # fmt: skip
