"""A server that allows only some directories, and tables of connectors that other packages bring."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from installed_packages import GUEST

from sqlstream.client.server.guarded_cluster import check_paths
from sqlstream.client.sessions.target_session import local_session
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.planner.dialect.parser import parse_script
from sqlstream.runtime import connectors
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles


@pytest.fixture(autouse=True)
def ledger(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The connector of the guest package, as its own and without the methods that say where its tables are."""
    monkeypatch.syspath_prepend(str(GUEST))
    from sqlstream_ledger.connector import Ledger

    class Secretive:
        descriptor = msgspec.structs.replace(Ledger.descriptor, identifier="secretive")
        validate = Ledger.validate
        source = Ledger.source
        sink = Ledger.sink
        commit = Ledger.commit

    monkeypatch.setattr("sqlstream_ledger.connector.Secretive", Secretive, raising=False)
    for name, made in (("ledger", "Ledger"), ("secretive", "Secretive")):
        monkeypatch.setitem(connectors.CONNECTORS, name, f"sqlstream_ledger.connector:{made}")
    yield
    connectors.connector.cache_clear()
    for name in [name for name in sys.modules if name.startswith("sqlstream_ledger")]:
        del sys.modules[name]


def graph(name: str, path: Path) -> JobGraph:
    script = f"CREATE TABLE t (n BIGINT) WITH ('connector' = '{name}', 'path' = '{path}'); INSERT INTO t SELECT n FROM t;"
    with local_session() as session:
        table, insert = parse_script(script)
        session.execute(table)
        made: JobGraph = session.compile(insert).job_graph
        return made


def test_a_table_of_a_package_lies_where_tables_may(tmp_path: Path) -> None:
    allowed = RootedFiles(FilePlaces((str(tmp_path / "in"),)))
    check_paths(graph("ledger", tmp_path / "in/book"), allowed)
    with pytest.raises(UserError, match="outside") as refused:
        check_paths(graph("ledger", tmp_path / "out/book"), allowed)
    assert refused.value.code == "SS5030"


def test_a_package_that_does_not_say_where_its_tables_are_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match='connector "secretive" does not say which files') as refused:
        check_paths(
            graph("secretive", tmp_path / "in/book"), RootedFiles(FilePlaces((str(tmp_path / "in"),)))
        )
    assert refused.value.code == "SS5030"
    assert refused.value.span is not None
