"""What the tests of the command share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from spark_harness.standalone import StandaloneCluster


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Write a SQL file; its path."""

    def write(text: str) -> str:
        path = tmp_path / "script.sql"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A master and two workers on loopback."""
    from spark_harness.standalone import StandaloneCluster

    with StandaloneCluster(tmp_path_factory.mktemp("spark")) as running:
        yield running
