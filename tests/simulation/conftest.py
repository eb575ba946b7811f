"""Which seeds the simulations run: a fixed range, or the one to replay."""

from __future__ import annotations

import pytest
from simulated_tasks import ASSIGNED

from runtime.connectors import CONNECTORS

SEEDS = 500


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=None, help="run the simulations with this seed alone")
    parser.addoption("--seeds", type=int, default=SEEDS, help="run the simulations with seeds 0 to N-1")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        seed = metafunc.config.getoption("--seed", default=None)
        count = metafunc.config.getoption("--seeds", default=SEEDS)
        metafunc.parametrize("seed", range(count) if seed is None else [seed])


@pytest.fixture(autouse=True)
def simulated_connector(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("simulated", ASSIGNED):
        monkeypatch.setitem(CONNECTORS, name, "simulated_tasks:SimulatedConnector")
