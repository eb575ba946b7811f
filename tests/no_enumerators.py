"""The enumerators of jobs whose sources are assigned nothing."""

from __future__ import annotations

from typing import Any

from sqlstream.runtime.jobmanager.events import GiveBackSplits, ReadTable, StartEnumerator


class NoEnumerators:
    """For jobs whose sources are assigned nothing."""

    def start(self, source: StartEnumerator, report: Any) -> None:
        raise AssertionError(f"{source.spec.table} has no enumerator")

    def give_back(self, returned: GiveBackSplits) -> None:
        raise AssertionError(f"{returned} was not assigned")

    def on_finished(self, job_id: str, read: tuple[ReadTable, ...]) -> None:
        raise AssertionError(f"{job_id} has read {read}, which was not assigned")

    def stop_job(self, job_id: str) -> None:
        raise AssertionError(f"{job_id} has no enumerator")

    def close(self) -> None:
        return None
