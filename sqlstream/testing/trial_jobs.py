"""Jobs of the checks: a reader with its enumerator and assignment in this process, and one whose process is killed."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlstream.runtime.jobmanager.sources.split_assignment import SplitAssignment
from sqlstream.runtime.taskmanager.inputs.source_input import SplitSource
from sqlstream.runtime.taskmanager.split_requests import SplitsRequested
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import (
    AssignedSplits,
    ConnectorContext,
    Discovery,
    EnumeratorContext,
    TakesSplits,
)


class AssignedReader:
    """`poll` looks for further splits when that is due, and polls the reader. It goes on from the snapshots of another one."""

    def __init__(
        self,
        connector: Any,
        spec: SourceSpec,
        context: ConnectorContext,
        splits: list[dict[str, Any]] | None = None,
        state: dict[str, Any] | None = None,
    ) -> None:
        around = EnumeratorContext(1, context.batch_rows, context.now_ms, context.files)
        self.enumerator = connector.split_enumerator(spec, around, state)
        self._context = context
        self._assignment = SplitAssignment(1)
        self._look()
        first = self._assignment.first(0)
        self.reader = connector.source(spec, context, [*(splits or []), *first.positions])
        self._source: SplitSource | None = None
        if isinstance(self.reader, TakesSplits):
            self.reader.add_splits(dataclasses.replace(first, positions=()))
            self._source = SplitSource("execution", self.reader, self._request)

    def poll(self) -> Any:
        if self._next_look_ms is not None and self._context.now_ms() >= self._next_look_ms:
            self._look()
            for _, number, assigned in self._assignment.pushed():
                self._assign(number, assigned)
        polled = self.reader.poll()
        if self._source is not None:
            self._source.request_when_wanted()
        return polled

    def next_poll_ms(self) -> int | None:
        found: int | None = self.reader.next_poll_ms()
        return found

    def _look(self) -> None:
        discovery: Discovery = self.enumerator.discover()
        self._assignment.on_discovered(discovery, self.enumerator.snapshot())
        is_last = discovery.is_last
        self._next_look_ms = None if is_last else self._context.now_ms() + self.enumerator.interval_ms

    def _request(self, request: SplitsRequested) -> None:
        _, returned = self._assignment.on_returned(0, request.returned, request.returned_earlier)
        self.enumerator.give_back(returned)
        assigned = self._assignment.on_request(0, request.number)
        if assigned is not None:
            self._assign(request.number, assigned)

    def _assign(self, number: int, assigned: AssignedSplits) -> None:
        assert self._source is not None
        self._source.on_assigned(number, assigned)


# A job that runs in processes of its own, of which one is killed when the first rows are visible.


ROWS_PER_SECOND = 1000
TIMEOUT_S = 240.0
PAUSE_S = 0.05


def numbers_text(count: int, rows_per_second: int = ROWS_PER_SECOND) -> str:
    """CREATE TABLE numbers, of the BIGINT `n` from 0 on."""
    return (
        "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen',"
        f" 'number-of-rows' = '{count}', 'rows-per-second' = '{rows_per_second}',"
        f" 'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '{count - 1}')"
    )


def run_and_kill(
    table: str, insert: str, count: int, directory: Path, is_visible: Callable[[], bool]
) -> None:
    """Run the INSERT, which reads `numbers`, with a checkpoint every 200 ms; kill a TaskManager once `is_visible` says that rows
    are committed, and wait for the job's end. AssertionError when it fails, or ends before the kill."""
    import psutil

    script = directory / "killed.sql"
    settings = "SET 'execution.checkpointing.interval' = '200 ms';\nSET 'parallelism.default' = '2';\n"
    script.write_text(f"{settings}{numbers_text(count)};\n{table};\n{insert};\n", encoding="utf-8")
    command = subprocess.Popen(
        [sys.executable, "-m", "sqlstream", "run", "--task-managers", "2", str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline_s = time.monotonic() + TIMEOUT_S
        while not is_visible():
            assert command.poll() is None, (
                f"the job ended before rows were visible: {command.communicate()[0]}"
            )
            assert time.monotonic() < deadline_s, "no row became visible"
            time.sleep(PAUSE_S)
        victim = psutil.Process(command.pid).children(recursive=True)[0]
        victim.kill()
        said, _ = command.communicate(timeout=TIMEOUT_S)
    finally:
        if command.poll() is None:
            command.kill()
            command.wait()
    assert command.returncode == 0, f"the job did not survive the kill: {said}"
