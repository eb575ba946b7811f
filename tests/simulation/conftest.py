"""Which seeds the simulations run: a fixed range and some that no run has had, or the one to replay."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
from simulation.simulated_server import simulated_surroundings

SEEDS, SEEDS_SLOW = 150, 300
RELIABLE_SEEDS, RELIABLE_SEEDS_SLOW = 80, 700
"""Those of whole clusters with checkpoints. `make test` runs the first, `make test-all` as many as the second says."""
LEADER_SEEDS, LEADER_SEEDS_SLOW = 16, 200
"""Fifties of those of servers of which one leads."""
RARE_SEEDS = {83, 291, 483}
"""They meet a fault that one of the first has met."""

NEW_SEEDS_CPU_S = 8.0
NEW_SEEDS_FROM, NEW_SEEDS_TO = 1_000_000, 1_000_000_000


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=None, help="run the simulations with this seed alone")
    parser.addoption("--seeds", type=int, default=None, help="run the simulations with seeds 0 to N-1")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    seed: int | None = metafunc.config.getoption("--seed", default=None)
    number: int | None = metafunc.config.getoption("--seeds", default=None)
    for name, some, all_ in (
        ("seed", SEEDS, SEEDS_SLOW),
        ("reliable_seed", RELIABLE_SEEDS, RELIABLE_SEEDS_SLOW),
        ("leader_seeds", LEADER_SEEDS, LEADER_SEEDS_SLOW),
    ):
        if name not in metafunc.fixturenames:
            continue
        if seed is not None or number is not None:
            metafunc.parametrize(name, range(number or 0) if seed is None else [seed])
        else:
            rare = RARE_SEEDS if name == "reliable_seed" else ()
            slow = [pytest.param(n, marks=() if n in rare else pytest.mark.slow) for n in range(some, all_)]
            metafunc.parametrize(name, [*range(some), *slow])


@pytest.fixture
def new_seeds(request: pytest.FixtureRequest) -> Iterator[int]:
    """Seeds that no run has had, until they have taken NEW_SEEDS_CPU_S. One that fails is the last that was printed."""
    if any(request.config.getoption(name) is not None for name in ("--seed", "--seeds")):
        pytest.skip("the seeds are given")
    drawn = random.SystemRandom()

    def seeds() -> Iterator[int]:
        end_s = time.process_time() + NEW_SEEDS_CPU_S
        while time.process_time() < end_s:
            seed = drawn.randrange(NEW_SEEDS_FROM, NEW_SEEDS_TO)
            print(f"run it again: pytest tests/simulation --seed {seed}")
            yield seed

    return seeds()


@pytest.fixture(autouse=True, scope="module")
def surroundings() -> Iterator[None]:
    with simulated_surroundings():
        yield
