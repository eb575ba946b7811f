"""Budgets of slots: state that is too large ends its job with the reason, and is not retried."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.memory.array_memory import in_force
from sqlstream.runtime.memory.managed_memory import MachineMemory, ManagedMemory, ManagedMemoryOptions

MB = 1 << 20
GB = 1 << 30


def plenty() -> MachineMemory:
    return MachineMemory(100 * GB, 128 * GB)


def test_all_tasks_of_a_slot_share_its_budget() -> None:
    managed = ManagedMemory(ManagedMemoryOptions(600 * MB, slots=2), plenty)
    first, second = managed.open("slot-1", "task-1", {}), managed.open("slot-1", "task-2", {})
    elsewhere = managed.open("slot-2", "task-3", {})
    first.measured({"Join[3]": 150 * MB, "Calc[4]": 0})
    elsewhere.measured({"Join[3]": 300 * MB})
    second.measured({"GroupAggregate[5]": 150 * MB})
    with pytest.raises(UserError) as caught:
        second.measured({"GroupAggregate[5]": 152 * MB})
    assert (caught.value.code, caught.value.message) == (
        "SS6260",
        'operator "GroupAggregate[5]" keeps 152 MB of state; all state of its slot takes 302 MB of memory, and may take 300 MB',
    )
    assert "'state.backend.type' = 'mapped'" in caught.value.hint
    first.close()
    second.measured({"GroupAggregate[5]": 290 * MB})


def test_state_is_measured_more_often_near_the_budget() -> None:
    task = ManagedMemory(ManagedMemoryOptions(100 * MB), plenty).open("slot", "task", {})
    assert task.measure_interval_s == 0.5
    task.measured({"Join[3]": 51 * MB})
    assert task.measure_interval_s == 0.05


def test_an_index_does_not_grow_beyond_the_budget() -> None:
    task = ManagedMemory(ManagedMemoryOptions(2 * MB), plenty).open("slot", "task", {})
    with in_force(task.of_operator("Deduplicate[2]")):
        index = KeyIndex([pa.int64()])
    with pytest.raises(UserError) as caught:
        index.get_or_insert([pa.array(np.arange(1_000_000))])
    assert caught.value.code == "SS6260"
    assert caught.value.message.startswith('operator "Deduplicate[2]" needs 4 MB more for its state; ')
    assert index.nbytes < 12 * MB


def test_much_state_ends_before_the_machine_has_no_memory_left() -> None:
    machine = MachineMemory(40 * GB, 64 * GB)
    task = ManagedMemory(machine=lambda: machine).open("slot", "task", {})
    task.measured({"Join[3]": 20 * GB, "Rank[4]": 9 * GB})
    machine = MachineMemory(500 * MB, 64 * GB)
    task.measured({"Join[3]": 20 * GB, "Rank[4]": 9 * GB})
    with pytest.raises(ExternalError) as caught:
        task.measured({"Join[3]": 20 * GB + 1, "Rank[4]": 9 * GB})
    assert (caught.value.code, caught.value.message) == (
        "SS6261",
        'operator "Join[3]" and others of its task keep 29.0 GB of state, and of 64.0 GB of memory 500 MB are left',
    )


def test_little_state_goes_on_however_scarce_memory_is() -> None:
    task = ManagedMemory(machine=lambda: MachineMemory(0, 64 * GB)).open("slot", "task", {})
    task.measured({"Join[3]": 500 * MB})


def test_what_is_taken_at_once_must_be_there() -> None:
    task = ManagedMemory(machine=lambda: MachineMemory(3 * GB, 8 * GB)).open("slot", "task", {})
    memory = task.of_operator("Join[3]")
    memory.require(2 * GB)
    with pytest.raises(ExternalError) as caught:
        memory.require(2 * GB + 700 * MB)
    assert (caught.value.code, caught.value.message) == (
        "SS6261",
        'operator "Join[3]" needs 2.7 GB more for state, and of 8.0 GB of memory 3.0 GB are left',
    )


def test_files_count_for_no_budget(tmp_path: Path) -> None:
    options = ManagedMemoryOptions(4 * MB, directories=(str(tmp_path),))
    managed = ManagedMemory(options, lambda: MachineMemory(0, 8 * GB))
    task = managed.open("slot", "task", {"state.backend.type": "mapped"})
    memory = task.of_operator("Join[3]")
    array = memory.zeros(8 * MB, np.int64)
    memory.require(512 * MB)
    assert memory.file_bytes == array.nbytes == 64 * MB
    task.close()
    managed.stop()


def test_mapped_state_goes_on_without_a_limit_while_no_file_can_be_opened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    managed = ManagedMemory(ManagedMemoryOptions(4 * MB, directories=(str(tmp_path),)), plenty)
    mapped = {"state.backend.type": "mapped"}
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        task = managed.open("slot", "task-1", mapped)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert "mapped state of a task goes on without a limit: [Errno 24] Too many open files" in caplog.text
    assert task.of_operator("Join[3]").zeros(8 * MB, np.int64).nbytes == 64 * MB
    task.close()
    threads = threading.active_count()
    managed.open("slot", "task-2", mapped).close()
    assert threading.active_count() == threads + 1, "the next task has a limit"
    managed.stop()
