"""The real control plane and real tasks, a whole cluster of them, under a seeded clock, network and fate.

Three seeds of four have a provider of TaskManagers that obeys the JobManager; the others a fixed set of TaskManagers. With every
third seed, failed tasks are restarted.
A failing seed prints its story; replay it with `pytest tests/simulation --seed N`.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulated_cluster import FAULTS, Cluster
from simulation.seen_faults import SeenFaults

SEEDS_ENOUGH = 150
SEEN = SeenFaults(FAULTS, SEEDS_ENOUGH)


def run(seed: int) -> Cluster:
    cluster = Cluster(seed)
    cluster.run_to_rest()
    return cluster


def test_jobs_end_once_and_leave_nothing_behind_whatever_happens(seed: int) -> None:
    cluster = Cluster(seed)
    cluster.run_or_tell(seed)
    SEEN.add(cluster.story)


def test_jobs_end_once_with_seeds_that_no_run_has_had(new_seeds: Iterator[int]) -> None:
    for seed in new_seeds:
        Cluster(seed).run_or_tell(seed)


def test_the_seeds_meet_every_fault() -> None:
    assert SEEN.rare() == {}


def test_a_seed_tells_the_same_story_twice() -> None:
    assert run(7).story == run(7).story
