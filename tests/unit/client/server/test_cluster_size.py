"""How many TaskManagers a server starts."""

from __future__ import annotations

import pytest

from sqlstream.client.configuration import load_configuration
from sqlstream.client.server.server_config import ClusterSize, cluster_size

SLOTS = "taskmanager.numberOfTaskSlots"


@pytest.mark.parametrize(
    ("words", "cores", "task_managers", "expected"),
    [
        ([], 2, None, ClusterSize(2, {SLOTS: "32"})),
        ([], 16, None, ClusterSize(4, {SLOTS: "4"})),
        ([], 100, None, ClusterSize(4, {SLOTS: "1"})),
        ([], 2, 8, ClusterSize(8, {SLOTS: "8"})),
        ([f"{SLOTS}=1"], 2, None, ClusterSize(2, {})),
        (["execution.target=spark"], 2, None, ClusterSize(None, {})),
        (["slotmanager.number-of-slots.min=0"], 2, None, ClusterSize(None, {SLOTS: "32"})),
        (["slotmanager.number-of-slots.max=1"], 2, None, ClusterSize(1, {SLOTS: "1"})),
        (["slotmanager.number-of-slots.max=4096"], 2, None, ClusterSize(2, {SLOTS: "64"})),
    ],
)
def test_the_processes_of_all_cores_share_the_slots(
    words: list[str], cores: int, task_managers: int | None, expected: ClusterSize
) -> None:
    configuration = load_configuration(None, words, {"XDG_CONFIG_HOME": "/none"})
    assert cluster_size(configuration, cores, task_managers) == expected
