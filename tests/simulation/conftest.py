"""Which seeds the simulations run: a fixed range, or the one to replay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from simulation.simulated_server import simulated_surroundings

SEEDS = 300
RELIABLE_SEEDS = 700
"""Those of whole clusters with checkpoints: 1,000 clusters in all. Each of the two files of tests runs one half, so that two
processes share them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=None, help="run the simulations with this seed alone")
    parser.addoption("--seeds", type=int, default=None, help="run the simulations with seeds 0 to N-1")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    seed: int | None = metafunc.config.getoption("--seed", default=None)
    number: int | None = metafunc.config.getoption("--seeds", default=None)
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(number or SEEDS) if seed is None else [seed])
    if "reliable_seed" in metafunc.fixturenames:
        half: int = metafunc.module.HALF
        seeds = range(number or RELIABLE_SEEDS) if seed is None else [seed]
        metafunc.parametrize("reliable_seed", [n for n in seeds if n % 2 == half])


@pytest.fixture(autouse=True, scope="module")
def surroundings() -> Iterator[None]:
    with simulated_surroundings():
        yield
