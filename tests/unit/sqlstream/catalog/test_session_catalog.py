"""Sessions that share catalogs: snapshots, temporary objects, and changes that meet."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from sqlstream import types as sql
from sqlstream.catalog import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    CatalogConflict,
    CatalogManager,
    CatalogTable,
    Column,
    ObjectPath,
    PutCatalog,
    PutDatabase,
    PutObject,
    RemoveObject,
    RenameObject,
    SessionCatalog,
    UseDatabase,
)
from sqlstream.catalog.contents import MemoryCatalog
from sqlstream.catalog.objects import CatalogDatabase, CatalogDefinition
from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.sessions.outcomes import Rows
from sqlstream.client.sessions.session import Session
from sqlstream.errors import UserError
from sqlstream.planner.dialect.parser import parse_script

SESSIONS = 8


@pytest.fixture(autouse=True)
def _threads_alternate() -> Iterator[None]:
    """Threads give way to each other within each statement."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def table(name: str, option: str = "x", is_temporary: bool = False) -> CatalogTable:
    path = ObjectPath(DEFAULT_CATALOG, DEFAULT_DATABASE, name)
    return CatalogTable(path, (Column("a", sql.INT),), {"connector": option}, is_temporary=is_temporary)


def test_a_snapshot_stays_as_it_was_when_it_was_first_read() -> None:
    first, second = sessions(2)
    first.apply(PutObject(table("t")))
    seen = first.snapshot()
    assert seen.get(table("t").path) == table("t")
    second.apply(RemoveObject(table("t")))
    first.apply(PutObject(table("u", is_temporary=True)))
    assert seen.names(DEFAULT_CATALOG, DEFAULT_DATABASE) == ("t",)
    assert first.names(DEFAULT_CATALOG, DEFAULT_DATABASE) == ("u",)
    assert second.names(DEFAULT_CATALOG, DEFAULT_DATABASE) == ()


def test_temporary_objects_and_the_current_database_belong_to_one_session() -> None:
    first, second = sessions(2)
    first.apply(PutObject(table("t")))
    first.apply(PutObject(table("t", "mine", is_temporary=True)))
    first.apply(PutDatabase(DEFAULT_CATALOG, "d", CatalogDatabase()))
    first.apply(UseDatabase(DEFAULT_CATALOG, "d"))
    path = table("t").path
    assert first.get(path) == table("t", "mine", is_temporary=True)
    assert first.get_kind(path, is_temporary=False) == second.get(path) == table("t")
    assert (first.current_database, second.current_database) == ("d", DEFAULT_DATABASE)
    first.apply(RenameObject(table("t", "mine", is_temporary=True), "u"))
    assert first.get(path) == table("t")
    with pytest.raises(CatalogConflict):
        first.apply(RemoveObject(table("t", "mine", is_temporary=True)))


def test_listing_for_completion_needs_no_statement() -> None:
    (session,) = sessions(1)
    session.apply(PutObject(table("t")))
    assert session.catalogs() == (DEFAULT_CATALOG,)
    assert session.databases(DEFAULT_CATALOG) == (DEFAULT_DATABASE,)
    assert [e.path.name for e in session.list(DEFAULT_CATALOG, DEFAULT_DATABASE)] == ["t"]
    assert [c.name for c in session.columns(table("t").path)] == ["a"]
    assert (
        session.databases("absent") == session.list("absent", "x") == session.columns(table("u").path) == ()
    )


def sessions(number: int) -> list[SessionCatalog]:
    manager = CatalogManager()
    return [SessionCatalog(manager) for _ in range(number)]


def run_at_once(scripts: list[str], manager: CatalogManager | None = None) -> list[list[Rows | UserError]]:
    """The outcomes of one script per session, over one set of catalogs, run at once."""
    manager = manager or CatalogManager()
    outcomes: list[list[Rows | UserError]] = [[] for _ in scripts]
    gate = threading.Barrier(len(scripts))

    def run(number: int) -> None:
        # A cluster starts with its first job, and there is none here.
        session = Session(LocalClusterClient(), catalogs=manager)
        statements = parse_script(scripts[number])
        gate.wait(60)
        for statement in statements:
            try:
                outcome = session.execute(statement)
                assert isinstance(outcome, Rows)
                outcomes[number].append(outcome)
            except UserError as error:
                outcomes[number].append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(scripts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return outcomes


@pytest.mark.parametrize(
    "create",
    [
        "CREATE TABLE t{n} (a INT) WITH ('connector' = 'blackhole')",
        "CREATE VIEW t{n} AS SELECT 1 AS a",
        "CREATE DATABASE t{n}",
        "CREATE CATALOG t{n} WITH ('type' = 'generic_in_memory')",
    ],
)
def test_of_sessions_that_create_one_thing_exactly_one_wins_and_the_others_are_told(create: str) -> None:
    script = "".join(f"{create.replace('{n}', str(n))};\n" for n in range(10))
    outcomes = run_at_once([script] * SESSIONS)
    for statement in range(10):
        errors = [o[statement] for o in outcomes if isinstance(o[statement], UserError)]
        assert len(errors) == SESSIONS - 1
        for error in errors:
            assert isinstance(error, UserError)
            assert (error.code, error.span is not None) == ("SS2013", True)


def test_sessions_that_set_properties_at_once_lose_none() -> None:
    manager = CatalogManager()
    SessionCatalog(manager).apply(PutDatabase(DEFAULT_CATALOG, "d", CatalogDatabase()))
    scripts = [
        "".join(f"ALTER DATABASE d SET ('s{n}.{i}' = 'x');" for i in range(10)) for n in range(SESSIONS)
    ]
    outcomes = run_at_once(scripts, manager)
    assert not [o for session in outcomes for o in session if isinstance(o, UserError)]
    found = SessionCatalog(manager).database(DEFAULT_CATALOG, "d")
    assert found is not None
    assert set(found.properties) == {f"s{n}.{i}" for n in range(SESSIONS) for i in range(10)}


def test_a_drop_of_what_another_session_dropped_is_an_error_and_with_if_exists_none() -> None:
    create = "CREATE TABLE IF NOT EXISTS t (a INT) WITH ('connector' = 'blackhole');"
    outcomes = run_at_once([create + "DROP TABLE IF EXISTS t;" for _ in range(SESSIONS)])
    assert not [o for session in outcomes for o in session if isinstance(o, UserError)]


class _FullStore:
    """A store whose disk is full."""

    def load(self) -> dict[str, CatalogDefinition]:
        return {}

    def put(self, name: str, definition: CatalogDefinition) -> None:
        raise OSError("no space left")

    def remove(self, name: str) -> None:
        raise AssertionError(name)


class _CountingCatalog(MemoryCatalog):
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_a_catalog_whose_definition_cannot_be_kept_is_closed_and_not_there() -> None:
    opened: list[_CountingCatalog] = []

    def open_catalog(name: str, definition: CatalogDefinition) -> _CountingCatalog:
        opened.append(_CountingCatalog(definition))
        return opened[-1]

    manager = CatalogManager(factories={"counting": open_catalog}, store=_FullStore())
    with pytest.raises(OSError, match="no space left"):
        manager.apply(PutCatalog("c", CatalogDefinition({"type": "counting"})))
    assert [catalog.is_closed for catalog in opened] == [True]
    assert "c" not in manager.catalogs()
