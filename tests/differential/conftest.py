"""One cluster in this process, and one Spark, for all differential tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from oracle import Differential, Engine
from spark_harness.sql import spark_session


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    made = Engine(tmp_path_factory.mktemp("tables"))
    yield made
    made.close()


@pytest.fixture
def differential(engine: Engine) -> Differential:
    """Hold a query to DuckDB's answer: `differential(sql, {"t": ("a INT, b STRING", rows)})`."""
    return Differential(engine)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with spark_session() as session:
        yield session
