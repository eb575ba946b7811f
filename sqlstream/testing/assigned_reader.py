"""One reader with its enumerator and its assignment, as the JobManager and the task put them together, without either."""

from __future__ import annotations

import dataclasses
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
