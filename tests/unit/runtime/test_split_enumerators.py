"""Enumerators run on threads of their own: what they find is reported once, and nothing after their job's end."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from spark_harness.processes import wait_until

from sqlstream import types as sql
from sqlstream.errors import ExternalError, Retry
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.jobmanager.events import (
    DiscoveryFailed,
    GiveBackSplits,
    ReadTable,
    SplitsDiscovered,
    StartEnumerator,
)
from sqlstream.runtime.split_enumerators import ConnectorEnumerators, enumerates_splits
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.files import FileStatus

SCHEMA = Schema.of(("v", sql.INT))
TIMEOUT_S = 60.0


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
    assert (paths(first), first.discovery.is_last, first.returns) == (["a.csv"], False, 0)
    assert [name for name, *_ in first.state["complete"]] == [str(path / "a.csv") for path in [tmp_path]]
    put(tmp_path / "b.csv")
    later: list[str] = []
    while later != ["b.csv"]:
        later += paths(reports.get(timeout=TIMEOUT_S))
    enumerators.give_back(GiveBackSplits("j", "v", [first.discovery.splits[0].position], 1))
    again: list[Any] = []
    while not again or not paths(again[-1]):
        again.append(reports.get(timeout=TIMEOUT_S))
    assert ([paths(report) for report in again if paths(report)], again[-1].returns) == ([["a.csv"]], 1)
    enumerators.stop_job("j")
    put(tmp_path / "c.csv")
    with pytest.raises(queue.Empty):
        reports.get(timeout=0.2)


def test_a_failure_is_reported_and_the_next_start_looks_again(
    enumerators: ConnectorEnumerators, tmp_path: Path
) -> None:
    reports: queue.Queue[Any] = queue.Queue()
    started = replace(watched(tmp_path / "table"), run=2)
    enumerators.start(started, reports.put)
    failed = reports.get(timeout=TIMEOUT_S)
    assert isinstance(failed, DiscoveryFailed)
    assert (failed.error.code, failed.vertex_id, failed.run) == ("SS5002", "v", 2)
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


class HangingFiles(LocalFiles):
    """Listing waits until it may go on."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.is_waiting = threading.Event()

    def status(self, path: str) -> FileStatus | None:
        if "hangs" in path:
            self.is_waiting.set()
            assert self.may_go_on.wait(TIMEOUT_S)
        return super().status(path)


def test_a_look_that_hangs_fails_its_job_alone_and_what_it_finds_at_last_is_read_after_the_restart(
    tmp_path: Path,
) -> None:
    files, reports = HangingFiles(), queue.Queue[Any]()
    others: list[str] = []
    enumerators = ConnectorEnumerators(files, look_timeout_ms=200)
    for name in ("hangs", "other"):
        (tmp_path / name).mkdir()
        put(tmp_path / name / "a.csv")
    try:
        hanging = [replace(source(tmp_path / "hangs"), job_id=f"h{n}") for n in range(12)]
        for started in hanging:
            enumerators.start(started, reports.put)
        failed = [reports.get(timeout=TIMEOUT_S) for _ in range(8)]
        assert {f.error.code for f in failed} == {"SS5074"}
        for started in hanging[:2]:
            enumerators.start(started, reports.put)
        files.may_go_on.set()
        found = [reports.get(timeout=TIMEOUT_S) for _ in range(2 + 4)]
        assert {r.job_id for r in found} == {"h0", "h1", "h8", "h9", "h10", "h11"}
        # Late for a job that had failed: its restart gets it.
        enumerators.start(hanging[5], reports.put)
        late = reports.get(timeout=TIMEOUT_S)
        assert (late.job_id, paths(late)) == ("h5", ["a.csv"])
        enumerators.start(replace(source(tmp_path / "other"), job_id="o"), lambda r: others.extend(paths(r)))
        wait_until(lambda: others == ["a.csv"])
    finally:
        files.may_go_on.set()
        enumerators.close()


class FlakyFiles(LocalFiles):
    """The first looks fail for a reason that may pass."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def list_files(self, path: str) -> list[FileStatus]:
        if self.failures:
            self.failures -= 1
            raise ExternalError("SS5001", "the store is busy", retry=Retry.BACKOFF)
        return super().list_files(path)


def test_a_look_that_failed_for_a_reason_that_may_pass_is_repeated(tmp_path: Path) -> None:
    put(tmp_path / "a.csv")
    reports: queue.Queue[Any] = queue.Queue()
    enumerators = ConnectorEnumerators(FlakyFiles(1))
    try:
        enumerators.start(source(tmp_path), reports.put)
        assert paths(reports.get(timeout=TIMEOUT_S)) == ["a.csv"]
    finally:
        enumerators.close()


def test_an_enumerator_goes_on_from_the_state_of_another_run(
    enumerators: ConnectorEnumerators, tmp_path: Path
) -> None:
    reports: queue.Queue[Any] = queue.Queue()
    put(tmp_path / "a.csv")
    enumerators.start(watched(tmp_path), reports.put)
    first = reports.get(timeout=TIMEOUT_S)
    put(tmp_path / "b.csv")
    assert paths(reports.get(timeout=TIMEOUT_S)) == ["b.csv"]
    enumerators.start(replace(watched(tmp_path), state=first.state, run=1), reports.put)
    again = reports.get(timeout=TIMEOUT_S)
    assert (paths(again), again.run) == (["b.csv"], 1)
    position = first.discovery.splits[0].position
    enumerators.start(replace(watched(tmp_path), state=again.state, returned=(position,), run=2), reports.put)
    assert paths(reports.get(timeout=TIMEOUT_S)) == ["a.csv"]


def test_a_job_finishes_also_when_nobody_can_be_told_how_far_it_has_read(
    enumerators: ConnectorEnumerators,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sqlstream.runtime.connectors.kafka.partitions._TIMEOUT_S", 0.2)
    options = {
        "topic": "t",
        "format": "json",
        "scan.startup.mode": "earliest-offset",
        "properties.bootstrap.servers": "127.0.0.1:1",
        "properties.group.id": "shop",
    }
    ended = {"ends": [{"topic": "t", "partition": 0, "offset": 7}]}
    hourly = {"execution.checkpointing.interval": "1 h"}
    away = ReadTable(SourceSpec("t", "kafka", options, SCHEMA, SCHEMA.names), ended, hourly)
    file = ReadTable(source(tmp_path).spec, {}, hourly)
    enumerators.on_finished("j", (file, away, file))
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        'table "t" was not told how far it is read'
    ]
