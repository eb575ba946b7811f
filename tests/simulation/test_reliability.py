"""Jobs with checkpoints and keyed state under a seeded clock, network, disk and fate, in which the JobManager dies too: each row
counts once, whatever happens. The even seeds; `test_reliability_odd.py` has the others.

The control plane, the store of jobs and the recovery of the server, the store of checkpoints, the task loops and their state are
the product's. A failing seed prints its story; replay it with `pytest tests/simulation --seed N`, and run many with
`make simulate`.
"""

from __future__ import annotations

from collections import Counter

import pytest
from simulation.reliable_cluster import FAULTS, ReliableCluster

HALF = 0
SEEDS_ENOUGH = 200
FAULTS_SEEN: Counter[str] = Counter()
SEEDS_RUN: list[int] = []


def run(seed: int) -> ReliableCluster:
    with ReliableCluster(seed) as cluster:
        cluster.run_or_tell(seed)
    return cluster


def test_every_row_counts_once_whatever_happens(reliable_seed: int) -> None:
    cluster = run(reliable_seed)
    SEEDS_RUN.append(reliable_seed)
    FAULTS_SEEN.update(fault for fault in FAULTS if any(fault in line for line in cluster.story))


def test_the_seeds_meet_every_fault() -> None:
    if len(SEEDS_RUN) < SEEDS_ENOUGH:
        pytest.skip("some faults are rare: they are counted over many seeds")
    assert {fault: FAULTS_SEEN[fault] for fault in FAULTS if FAULTS_SEEN[fault] < 3} == {}


def test_a_seed_tells_the_same_story_twice() -> None:
    assert run(7).story == run(7).story
