"""A TaskManager in the process of its user, which it leaves as it was."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sqlstream.runtime.checkpoint.local_copies import LocalCopies
from sqlstream.runtime.host.process import LibraryThreadLimit
from sqlstream.runtime.net.results import ResultStore
from sqlstream.runtime.taskmanager import in_process
from sqlstream.runtime.taskmanager.in_process import InProcessTaskManager


def test_arrows_threads_are_those_of_before_once_the_task_manager_has_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A cluster that another test keeps in this process has the limit too.
    monkeypatch.setattr(in_process, "LIBRARY_THREAD_LIMIT", LibraryThreadLimit())
    before = pa.cpu_count()
    try:
        pa.set_cpu_count(3)
        results = ResultStore(1, lambda job_id, lines, is_error: None, lambda job_id, error: None)
        task_manager = InProcessTaskManager(
            1, results, lambda message: None, lambda error: None, 1000, LocalCopies()
        )
        task_manager.start()
        assert pa.cpu_count() == 1
        task_manager.stop()
        task_manager.stop()
        assert pa.cpu_count() == 3
    finally:
        pa.set_cpu_count(before)
