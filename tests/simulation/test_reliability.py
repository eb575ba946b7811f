"""Jobs with checkpoints and keyed state under a seeded clock, network, disk and fate, in which the JobManager dies too: each row
counts once, whatever happens.

The control plane, the store of jobs and the recovery of the server, the store of checkpoints, the task loops and their state are
the product's. A failing seed prints its story; replay it with `pytest tests/simulation --seed N`, and run many with
`make simulate`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from simulation.reliable_cluster import FAULTS, ReliableCluster
from simulation.seen_faults import SeenFaults

SEEDS_ENOUGH = 80
SEEN = SeenFaults(FAULTS, SEEDS_ENOUGH)


def run(seed: int) -> ReliableCluster:
    with ReliableCluster(seed) as cluster:
        cluster.run_or_tell(seed)
    return cluster


def test_every_row_counts_once_whatever_happens(reliable_seed: int) -> None:
    cluster = run(reliable_seed)
    SEEN.add(cluster.story)


def test_every_row_counts_once_with_seeds_that_no_run_has_had(new_seeds: Iterator[int]) -> None:
    for seed in new_seeds:
        run(seed)


def test_the_seeds_meet_every_fault() -> None:
    assert SEEN.rare() == {}


@pytest.mark.parametrize("told_seed", [8, 21])
def test_a_seed_tells_the_same_story_twice(told_seed: int) -> None:
    story = run(told_seed).story
    assert len(story) > 100
    assert run(told_seed).story == story
