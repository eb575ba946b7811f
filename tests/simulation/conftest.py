"""Which seeds the simulations run: a fixed range, or the one to replay."""

from __future__ import annotations

import pytest
from simulated_tasks import ASSIGNED

from runtime.connectors import CONNECTORS

SEEDS = 500
SEEDS_WITH_CHECKPOINTS = 100
"""Of the seeds with checkpoints, those that are not slow."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=None, help="run the simulations with this seed alone")
    parser.addoption("--seeds", type=int, default=SEEDS, help="run the simulations with seeds 0 to N-1")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    seed = metafunc.config.getoption("--seed", default=None)
    seeds = range(metafunc.config.getoption("--seeds", default=SEEDS)) if seed is None else [seed]
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", seeds)
    if "checkpointed_seed" in metafunc.fixturenames:
        is_slow = [seed is None and n >= SEEDS_WITH_CHECKPOINTS for n in seeds]
        marked = [
            pytest.param(n, marks=pytest.mark.slow) if slow else n
            for n, slow in zip(seeds, is_slow, strict=True)
        ]
        metafunc.parametrize("checkpointed_seed", marked)


@pytest.fixture(autouse=True)
def simulated_connector(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("simulated", ASSIGNED):
        monkeypatch.setitem(CONNECTORS, name, "simulated_tasks:SimulatedConnector")
