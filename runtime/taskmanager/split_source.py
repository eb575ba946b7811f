"""Asks for a reader's further splits, and hands them on to it."""

from __future__ import annotations

from collections.abc import Callable

from sqlstream.runtime.taskmanager.split_requests import SplitsRequested
from sqlstream.spi.connector import AssignedSplits, TakesSplits


class SplitSource:
    """One request at a time, in the order of the assignments' numbers. It is made again when the reader returns a split
    meanwhile.

    State: the number of the last assignment, whether the next is requested, how many splits were returned, and of how many that
    is confirmed."""

    def __init__(
        self, execution_id: str, reader: TakesSplits, request: Callable[[SplitsRequested], None]
    ) -> None:
        self._execution_id = execution_id
        self._reader = reader
        self._request = request
        self._number = 0
        self._is_awaiting = False
        self._has_all = False
        self._returned = 0
        self._confirmed = 0

    @property
    def number(self) -> int:
        """That of the last assignment that the reader has got."""
        return self._number

    def request_when_wanted(self) -> None:
        returned = self._reader.returned_splits
        is_wanted = not self._is_awaiting and not self._has_all and self._reader.wants_splits
        if is_wanted or self._confirmed + len(returned) > self._returned:
            self._is_awaiting, self._returned = True, self._confirmed + len(returned)
            self._request(SplitsRequested(self._execution_id, self._number + 1, returned, self._confirmed))

    def on_assigned(self, number: int, assigned: AssignedSplits) -> None:
        if number != self._number + 1:
            # Answered twice, as the request was made again.
            return
        self._is_awaiting = False
        self._number = number
        self._has_all = assigned.is_last
        self._confirmed = assigned.returned
        self._reader.add_splits(assigned)
