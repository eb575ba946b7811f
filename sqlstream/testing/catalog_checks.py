"""What a type of catalogs of another package must do: make each change whole or not at all, for sessions that do so at once."""

from __future__ import annotations

import dataclasses
import random
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from sqlstream import types as sql
from sqlstream.catalog import (
    Catalog,
    CatalogConflict,
    CatalogContents,
    CatalogDatabase,
    CatalogDefinition,
    CatalogTable,
    CatalogView,
    Column,
    ObjectPath,
    PutCatalog,
    PutDatabase,
    PutObject,
    RemoveDatabase,
    RemoveObject,
    RenameObject,
)
from sqlstream.catalog.changes import ContentsChange
from sqlstream.catalog.contents import changed
from sqlstream.catalog.objects import CatalogObject
from sqlstream.schema import Schema
from sqlstream.testing.check import Check, Row, expect_refused, options_text, rows_of

CHANGES = 120
SEEDS = range(3)
THREADS = 4
TABLES_PER_THREAD = 10
_DATABASES = ("default", "Sales", "a b", "öl")
_NAMES = ("t", "T", "x/y", "..", "ß")


@dataclasses.dataclass(frozen=True)
class CatalogCase:
    """A type of catalogs.

    `options` gives those of a catalog in an empty directory, beside the type. `is_kept`: whoever opens it again finds what was in
    it. `refused` are wrong options, each with the code of its error.
    """

    type: str
    options: Callable[[Path], Mapping[str, str]] = lambda place: {}
    is_kept: bool = False
    refused: tuple[tuple[Mapping[str, str], str], ...] = ()

    def checks(self) -> list[Check]:
        parts: dict[str, Callable[[Path], None]] = {
            "options": self._options,
            "statements": self._statements,
            "changes": self._changes,
            "threads": self._threads,
        }
        if self.is_kept:
            parts["kept"] = self._kept
        return [Check(f"{self.type}: {name}", run) for name, run in parts.items()]

    def _definition(self, directory: Path, name: str) -> CatalogDefinition:
        place = directory / name
        place.mkdir(parents=True, exist_ok=True)
        return CatalogDefinition({"type": self.type, **self.options(place)})

    def _open(self, directory: Path, name: str = "c") -> Catalog:
        from sqlstream.client.catalog.catalogs import memory_catalogs

        manager = memory_catalogs()
        manager.apply(PutCatalog(name, self._definition(directory, name)))
        return manager.catalogs()[name]

    def _create(self, directory: Path, **changed: str | None) -> str:
        options = {**self._definition(directory, "c").options, **changed}
        given = {key: value for key, value in options.items() if value is not None}
        return f"CREATE CATALOG c WITH ({options_text(given)})"

    # --- what users write

    def _options(self, directory: Path) -> None:
        from sqlstream.client.catalog.catalogs import catalog_types

        expect_refused(self._create(directory, nonsense="1"), "SS4003", "an option that is not there")
        for key in catalog_types()[self.type].required:
            expect_refused(self._create(directory, **{key: None}), "SS4005", f'a missing option "{key}"')
        for wrong, code in self.refused:
            expect_refused(self._create(directory, **wrong), code, f"options {dict(wrong)}")

    def _statements(self, directory: Path) -> None:
        made = (
            "CREATE DATABASE c.made",
            "USE c.made",
            "CREATE TABLE `t 1` (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '3')",
            "CREATE VIEW v AS SELECT n + 1 AS m FROM `t 1`",
        )
        renamed = (*made, "DROP VIEW v", "ALTER TABLE `t 1` RENAME TO t2")
        gone = (*made, "USE CATALOG default_catalog", "DROP DATABASE c.made CASCADE", "USE CATALOG c")
        expected: tuple[tuple[tuple[str, ...], list[Row], str], ...] = (
            ((*made, "SHOW TABLES"), [("t 1",), ("v",)], "a table and a view are made"),
            ((*made, "SELECT COUNT(*), COUNT(m) FROM c.made.v"), [(3, 3)], "a view of the catalog is read"),
            ((*renamed, "SHOW TABLES"), [("t2",)], "a table is renamed, a view dropped"),
            ((*renamed, "DROP TABLE t2", "SHOW TABLES"), [], "a table is dropped"),
        )
        for number, (statements, rows, what) in enumerate(expected):
            found = rows_of([self._create(directory / str(number)), *statements])
            assert found == rows, f"{what}: {found} instead of {rows}"
        found = rows_of([self._create(directory / "gone"), *gone, "SHOW DATABASES"])
        assert ("made",) not in found, "a database is dropped with what is in it"

    # --- what the engine calls

    def _changes(self, directory: Path) -> None:
        """Random changes, of which many do not fit: the catalog does what its contents, changed as a value, would become."""
        for seed in SEEDS:
            fate = random.Random(seed)
            name = f"c{seed}"
            catalog = self._open(directory, name)
            model = catalog.contents()
            for number in range(CHANGES):
                change = _change(fate, name, model, number)
                after = _changed(model, change)
                try:
                    catalog.apply(change)
                except CatalogConflict:
                    assert after is None, f"{change} is taken for a conflict"
                else:
                    assert after is not None, f"{change} is made, and does not fit what is there"
                    model = after
                assert catalog.contents() == model, f"{change} left other contents"
            catalog.close()

    def _threads(self, directory: Path) -> None:
        catalog = self._open(directory)
        database = next(iter(catalog.contents().databases))
        lost: list[BaseException] = []

        def put(thread: int) -> None:
            try:
                for n in range(TABLES_PER_THREAD):
                    # All of them want this one: the first gets it.
                    for name in (f"of_{thread}_{n}", f"wanted_{n}"):
                        try:
                            catalog.apply(PutObject(_table("c", database, name, thread)))
                        except CatalogConflict:
                            assert name == f"wanted_{n}", f'there was no table "{name}"'
            except BaseException as error:
                lost.append(error)

        threads = [threading.Thread(target=put, args=(n,)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not lost, f"a thread failed: {lost[0]!r}"
        numbers = range(TABLES_PER_THREAD)
        wanted = {f"of_{t}_{n}" for t in range(THREADS) for n in numbers} | {f"wanted_{n}" for n in numbers}
        assert set(catalog.contents().databases[database].objects) == wanted, (
            "tables of several threads are lost"
        )
        catalog.close()

    def _kept(self, directory: Path) -> None:
        fate = random.Random(7)
        catalog = self._open(directory)
        for number in range(CHANGES):
            change = _change(fate, "c", catalog.contents(), number)
            if _changed(catalog.contents(), change) is not None:
                catalog.apply(change)
        contents = catalog.contents()
        catalog.close()
        again = self._open(directory)
        assert again.contents() == contents, "a catalog that is opened again has other contents"
        again.close()


def _changed(contents: CatalogContents, change: ContentsChange) -> CatalogContents | None:
    """None for a change that does not fit."""
    try:
        return changed(contents, change)
    except CatalogConflict:
        return None


def _table(catalog: str, database: str, name: str, number: int) -> CatalogTable:
    options = {"connector": "datagen", "number-of-rows": str(number)}
    columns = (Column("n", sql.BIGINT, comment=f"number {number}"), Column("text", sql.STRING))
    return CatalogTable(ObjectPath(catalog, database, name), columns, options)


def _change(fate: random.Random, catalog: str, contents: CatalogContents, number: int) -> ContentsChange:
    """It mostly fits `contents`."""
    database = fate.choice([*_DATABASES, *contents.databases])
    name = fate.choice(_NAMES)
    path = ObjectPath(catalog, database, name)
    there = contents.get(path)
    made: CatalogObject = _table(catalog, database, name, number)
    if number % 3 == 0:
        made = CatalogView(path, f"SELECT {number} AS n", Schema.of(("n", sql.INT)), query_database=database)
    present = contents.databases.get(database)
    match fate.randrange(8):
        case 0:
            return PutDatabase(catalog, database, CatalogDatabase(f"database {number}", {"p": str(number)}))
        case 1 if present is not None:
            return PutDatabase(catalog, database, CatalogDatabase("altered"), present.database)
        case 2:
            return RemoveDatabase(catalog, database, is_cascade=fate.random() < 0.3)
        case 3:
            return RemoveObject(there or made)
        case 4:
            return RenameObject(there or made, fate.choice(_NAMES))
        case 5:
            return PutObject(made)
        case _:
            return PutObject(made, there)
