"""How many TaskManagers a server starts, and with how many slots, unless its settings say so."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlstream.client.configuration import Configuration

FIRST_TASK_MANAGERS_MAX = 4

SLOTS = "taskmanager.numberOfTaskSlots"
SLOTS_MAX = "slotmanager.number-of-slots.max"
SLOTS_MIN = "slotmanager.number-of-slots.min"


@dataclasses.dataclass(frozen=True)
class ClusterSize:
    """`task_managers` start at once and stay; None: as many as the settings say. `settings` go before those of the cluster."""

    task_managers: int | None
    settings: Mapping[str, str]


def cluster_size(configuration: Configuration, cores: int, task_managers: int | None) -> ClusterSize:
    """One TaskManager per core shares all slots that the cluster may have, and the first of them start with the server.

    A process per slot would cost each of many small jobs 120 MB, and several times the processor time; a single process would
    run all tasks under one interpreter lock. `task_managers` is the number that was asked for on the command line."""
    if configuration.get("execution.target") == "spark":
        # An executor has a processor for one task, and costs nothing before a job needs it.
        return ClusterSize(task_managers, {})
    settings = {}
    if not configuration.is_given(SLOTS):
        processes = max(cores, task_managers or 1)
        settings[SLOTS] = str(min(64, max(1, configuration.get(SLOTS_MAX) // processes)))
    if task_managers is None and not configuration.is_given(SLOTS_MIN):
        slots = int(settings.get(SLOTS) or configuration.get(SLOTS))
        task_managers = min(cores, FIRST_TASK_MANAGERS_MAX, max(1, configuration.get(SLOTS_MAX) // slots))
    return ClusterSize(task_managers, settings)
