"""The two ways to connect, which hold to the same contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from server_harness import RunningServer

import sqlstream


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with RunningServer(tmp_path_factory.mktemp("server") / "data") as server:
        yield server.gateway


@pytest.fixture(params=["embedded", "http"])
def url(request: pytest.FixtureRequest) -> str:
    return "embedded://" if request.param == "embedded" else str(request.getfixturevalue("server_url"))


@pytest.fixture
def connection(url: str) -> Iterator[sqlstream.Connection]:
    with sqlstream.connect(url) as opened:
        yield opened


@pytest.fixture
def cursor(connection: sqlstream.Connection) -> sqlstream.Cursor:
    return connection.cursor()


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., str]:
    """CREATE TABLE of a temporary table of Parquet files."""

    def create(name: str, columns: str, format_: str = "parquet") -> str:
        path = tmp_path / name
        return (
            f"CREATE TEMPORARY TABLE {name} ({columns})"
            f" WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format_}')"
        )

    return create
