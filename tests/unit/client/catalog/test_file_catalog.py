"""A catalog in files: what it keeps, how it is shared, and what it does with damage."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from sqlstream import types as sql
from sqlstream.catalog import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    CatalogConflict,
    CatalogDatabase,
    CatalogDefinition,
    CatalogSnapshot,
    CatalogTable,
    CatalogView,
    Column,
    ObjectPath,
    PutCatalog,
    PutDatabase,
    PutObject,
    RemoveCatalog,
    RemoveDatabase,
    RemoveObject,
    RenameObject,
)
from sqlstream.catalog.changes import RemoveDamaged
from sqlstream.catalog.manager import CatalogManager
from sqlstream.client.catalog.catalogs import kept_catalogs
from sqlstream.client.catalog.definition_files import file_name, sql_name
from sqlstream.client.catalog.file_catalog import FileCatalog, open_file_catalog
from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.server.leaders.leadership import no_leader
from sqlstream.client.sessions.outcomes import Rows
from sqlstream.client.sessions.session import Session
from sqlstream.errors import ExternalError, SqlStreamError, UserError
from sqlstream.planner.dialect.parser import parse_statement
from sqlstream.schema import Schema


def path(name: str, database: str = DEFAULT_DATABASE) -> ObjectPath:
    return ObjectPath(DEFAULT_CATALOG, database, name)


def table(name: str, database: str = DEFAULT_DATABASE, option: str = "p") -> CatalogTable:
    return CatalogTable(
        path(name, database), (Column("a", sql.INT),), {"connector": "filesystem", "path": option}
    )


def view(name: str) -> CatalogView:
    return CatalogView(path(name), "SELECT 1 AS a", Schema.of(("a", sql.INT)), query_database="other")


def snapshot(catalog: FileCatalog) -> CatalogSnapshot:
    return CatalogSnapshot({DEFAULT_CATALOG: catalog})


def file_of(root: Path, name: str) -> Path:
    return root / "databases" / DEFAULT_DATABASE / "tables" / f"{name}.json"


class Kept:
    """What a catalog gives to be kept elsewhere: the files below `root`, by path. While it `refuses`, nothing changes."""

    def __init__(self, root: Path) -> None:
        self.root, self.files, self.refuses = root, dict[str, bytes](), False

    def __call__(self, changes: Mapping[str, bytes | None]) -> None:
        if self.refuses:
            raise no_leader()
        for name, data in changes.items():
            if data is None:
                del self.files[name]
            else:
                self.files[name] = data

    def copied(self, directory: Path) -> str:
        """Another directory that has these files, and nothing else."""
        for name, data in self.files.items():
            copy = directory / Path(name).relative_to(self.root)
            copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            copy.write_bytes(data)
        return str(directory)


def test_every_change_is_there_again_when_it_is_opened_anew_and_where_its_files_are_kept(
    tmp_path: Path,
) -> None:
    kept = Kept(tmp_path / "c")
    catalog = open_file_catalog(str(tmp_path / "c"), keep=kept)
    database = CatalogDatabase("daily", {"owner": "me"})
    catalog.apply(PutObject(table("t")))
    catalog.apply(PutObject(view("v")))
    catalog.apply(PutObject(table("gone")))
    catalog.apply(RemoveObject(table("gone")))
    catalog.apply(PutObject(table("before")))
    catalog.apply(RenameObject(table("before"), "after"))
    catalog.apply(PutObject(table("t", option="q"), table("t")))
    catalog.apply(PutDatabase(DEFAULT_CATALOG, "d", CatalogDatabase()))
    catalog.apply(PutDatabase(DEFAULT_CATALOG, "d", database, CatalogDatabase()))
    catalog.apply(PutObject(table("x", "d")))
    catalog.apply(PutDatabase(DEFAULT_CATALOG, "dropped", CatalogDatabase()))
    catalog.apply(PutObject(table("x", "dropped")))
    catalog.apply(RemoveDatabase(DEFAULT_CATALOG, "dropped", is_cascade=True))
    copy = open_file_catalog(kept.copied(tmp_path / "copy"))
    for known in (catalog, open_file_catalog(str(tmp_path / "c")), copy):
        contents = known.contents()
        assert set(contents.databases) == {DEFAULT_DATABASE, "d"}
        assert contents.databases["d"].database == database
        assert contents.databases["d"].objects == {"x": table("x", "d")}
        assert contents.databases[DEFAULT_DATABASE].objects == {
            "t": table("t", option="q"),
            "v": view("v"),
            "after": table("after"),
        }


def test_what_is_not_kept_elsewhere_is_not_changed(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    catalog = open_file_catalog(str(tmp_path), keep=kept)
    catalog.apply(PutObject(table("t")))
    before = catalog.contents()
    kept.refuses = True
    for change in (
        PutObject(table("u")),
        RemoveObject(table("t")),
        RenameObject(table("t"), "u"),
        PutDatabase(DEFAULT_CATALOG, "d", CatalogDatabase()),
        RemoveDatabase(DEFAULT_CATALOG, DEFAULT_DATABASE, is_cascade=True),
    ):
        with pytest.raises(ExternalError, match="leads no longer"):
            catalog.apply(change)
        assert catalog.contents() == before
        assert open_file_catalog(str(tmp_path)).contents() == before


def test_a_change_planned_on_another_state_is_a_conflict_and_changes_nothing(tmp_path: Path) -> None:
    catalog = open_file_catalog(str(tmp_path))
    catalog.apply(PutObject(table("t")))
    before = catalog.contents()
    for change in (
        PutObject(table("t")),
        PutObject(table("t", option="q"), table("t", option="z")),
        PutObject(table("t", "absent")),
        RemoveObject(table("absent")),
        RemoveObject(table("t", option="z")),
        RenameObject(table("absent"), "u"),
        RenameObject(table("t"), "t"),
        PutDatabase(DEFAULT_CATALOG, DEFAULT_DATABASE, CatalogDatabase()),
        RemoveDatabase(DEFAULT_CATALOG, DEFAULT_DATABASE, is_cascade=False),
        RemoveDatabase(DEFAULT_CATALOG, "absent", is_cascade=True),
    ):
        with pytest.raises(CatalogConflict):
            catalog.apply(change)
    assert catalog.contents() is before
    assert open_file_catalog(str(tmp_path)).contents().databases == before.databases


def test_only_the_user_can_read_what_is_kept(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        root = tmp_path / "kept"
        catalog = open_file_catalog(str(root))
        catalog.apply(PutObject(table("t")))
        catalog.apply(PutDatabase(DEFAULT_CATALOG, "d", CatalogDatabase()))
    finally:
        os.umask(before)
    for kept in [root, *root.rglob("*")]:
        mode = stat.S_IMODE(kept.stat().st_mode)
        assert mode == (0o700 if kept.is_dir() else 0o600), kept


def test_definitions_are_readable_json(tmp_path: Path) -> None:
    open_file_catalog(str(tmp_path)).apply(PutObject(table("t")))
    assert (
        file_of(tmp_path, "t").read_text()
        == """{
  "kind": "TABLE",
  "format": 1,
  "columns": [
    {
      "name": "a",
      "type": {
        "root": "INTEGER"
      }
    }
  ],
  "options": {
    "connector": "filesystem",
    "path": "p"
  }
}
"""
    )


@pytest.mark.parametrize(
    "name", ["t", "../x", ".", "..", "a/b", "größe", "A", "a%2Fb", "`", " ", "\n", "x.json"]
)
def test_every_name_has_a_file_of_its_own(name: str, tmp_path: Path) -> None:
    assert sql_name(file_name(name)) == name
    catalog = open_file_catalog(str(tmp_path))
    catalog.apply(PutDatabase(DEFAULT_CATALOG, name, CatalogDatabase()))
    catalog.apply(PutObject(table(name, name)))
    again = open_file_catalog(str(tmp_path))
    assert again.contents().databases[name].objects == {name: table(name, name)}
    assert {p.name for p in tmp_path.iterdir()} == {"catalog.json", "lock", "databases"}


def test_a_name_or_text_that_no_file_holds_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    catalog = open_file_catalog(str(tmp_path))
    for entry in (table("n" * 251), table("\ud800"), table("t", option="\ud800")):
        with pytest.raises(UserError) as refused:
            catalog.apply(PutObject(entry))
        assert refused.value.code == "SS2017"
    catalog.apply(PutObject(table("n" * 250)))
    assert list(open_file_catalog(str(tmp_path)).contents().databases[DEFAULT_DATABASE].objects) == [
        "n" * 250
    ]


def test_two_catalogs_over_one_directory_see_each_others_changes(tmp_path: Path) -> None:
    first, second = open_file_catalog(str(tmp_path)), open_file_catalog(str(tmp_path))
    first.apply(PutObject(table("t")))
    assert snapshot(second).get(path("t")) == table("t")
    with pytest.raises(CatalogConflict):
        second.apply(PutObject(table("t")))
    second.apply(RemoveObject(table("t")))
    assert snapshot(first).get(path("t")) is None
    second.apply(PutDatabase(DEFAULT_CATALOG, "d", CatalogDatabase()))
    assert snapshot(first).databases(DEFAULT_CATALOG) == ("d", DEFAULT_DATABASE)


class Killed(BaseException):
    pass


def test_others_see_the_change_of_a_writer_that_died_right_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlstream.client.catalog import file_catalog

    writer, reader = open_file_catalog(str(tmp_path)), open_file_catalog(str(tmp_path))
    assert snapshot(reader).get(path("t")) is None
    real = file_catalog.write_definition

    def dying(file: str, content: bytes) -> None:
        real(file, content)
        raise Killed

    monkeypatch.setattr(file_catalog, "write_definition", dying)
    with pytest.raises(Killed):
        writer.apply(PutObject(table("t")))
    assert snapshot(reader).get(path("t")) == table("t")
    assert snapshot(writer).get(path("t")) == table("t")


def test_after_a_change_only_changed_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = open_file_catalog(str(tmp_path)), open_file_catalog(str(tmp_path))
    first.apply(PutObject(table("t")))
    first.apply(PutObject(table("u")))
    read: list[str] = []
    from sqlstream.client.catalog import file_catalog

    real = file_catalog.read_definition
    monkeypatch.setattr(file_catalog, "read_definition", lambda p: (read.append(p), real(p))[1])
    second.contents()
    assert sorted(os.path.basename(p) for p in read) == ["t.json", "u.json"]
    first.apply(PutObject(table("t", option="q"), table("t")))
    second.contents()
    second.contents()
    assert [os.path.basename(p) for p in read[2:]] == ["t.json"]


def test_threads_that_create_one_table_have_one_winner(tmp_path: Path) -> None:
    catalogs = [open_file_catalog(str(tmp_path)) for _ in range(2)]
    won: list[str] = []

    def create(number: int) -> None:
        for i in range(20):
            try:
                catalogs[number % 2].apply(PutObject(table(f"t{i}", option=str(number))))
                won.append(f"t{i}")
            except CatalogConflict:
                pass

    threads = [threading.Thread(target=create, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(won) == sorted(f"t{i}" for i in range(20))
    objects = open_file_catalog(str(tmp_path)).contents().databases[DEFAULT_DATABASE].objects
    assert objects == catalogs[0].contents().databases[DEFAULT_DATABASE].objects
    assert len(objects) == 20


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "input data was truncated"),
        (b'{"format": 1, "kind": "TABLE", "columns": [', "input data was truncated"),
        (
            b'{"format": 2, "kind": "TABLE"}',
            "it was written in version 2 of the format of catalogs",
        ),
        (b'{"format": 1, "kind": "FUNCTION"}', "invalid value 'FUNCTION'"),
        (b'{"format": 1, "kind": "TABLE", "columns": [], "options": {}, "more": 1}', "unknown field `more`"),
        (b"[" * 100_000, ""),
        (b"\xff\xfe", ": JSON is malformed"),
    ],
)
def test_a_damaged_file_is_named_and_costs_only_its_object(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    catalog = open_file_catalog(str(tmp_path))
    catalog.apply(PutObject(table("good")))
    catalog.apply(PutObject(table("bad")))
    file_of(tmp_path, "bad").write_bytes(content)
    seen = snapshot(open_file_catalog(str(tmp_path)))
    assert seen.get(path("good")) == table("good")
    assert seen.names(DEFAULT_CATALOG, DEFAULT_DATABASE) == ("bad", "good")
    assert [e.path.name for e in seen.list(DEFAULT_CATALOG, DEFAULT_DATABASE)] == ["good"]
    with pytest.raises(ExternalError) as refused:
        seen.get(path("bad"))
    assert refused.value.code == "SS5020"
    assert str(file_of(tmp_path, "bad")) in refused.value.detail
    assert reason in refused.value.detail
    again = open_file_catalog(str(tmp_path))
    with pytest.raises(CatalogConflict):
        again.apply(PutObject(table("bad")))
    file_of(tmp_path, "bad").unlink()
    assert snapshot(open_file_catalog(str(tmp_path))).get(path("bad")) is None


def test_a_damaged_table_is_listed_and_can_be_dropped(tmp_path: Path) -> None:
    catalog = open_file_catalog(str(tmp_path))
    catalog.apply(PutObject(table("bad")))
    file_of(tmp_path, "bad").write_bytes(b"{")
    opened = open_file_catalog(str(tmp_path))
    session = Session(LocalClusterClient(), catalogs=CatalogManager(opened))

    def run(text: str) -> list[str]:
        outcome = session.execute(parse_statement(text))
        assert isinstance(outcome, Rows)
        return [row for batch in outcome.batches for row in batch.column(0).to_pylist()]

    assert run("SHOW TABLES") == ["bad"]
    with pytest.raises(ExternalError, match="cannot be read"):
        run("DESCRIBE bad")
    assert run("DROP TABLE bad") == ["OK"]
    assert run("SHOW TABLES") == []
    assert not file_of(tmp_path, "bad").exists()
    with pytest.raises(CatalogConflict):
        opened.apply(RemoveDamaged(path("bad")))
    with pytest.raises(UserError, match="does not exist"):
        run("DROP TABLE bad")


def test_a_pipe_in_place_of_a_definition_is_not_waited_for(tmp_path: Path) -> None:
    open_file_catalog(str(tmp_path)).apply(PutObject(table("t")))
    file_of(tmp_path, "t").unlink()
    os.mkfifo(file_of(tmp_path, "t"))
    with pytest.raises(ExternalError, match="cannot be read"):
        snapshot(open_file_catalog(str(tmp_path))).get(path("t"))


def test_a_damaged_database_costs_only_itself(tmp_path: Path) -> None:
    catalog = open_file_catalog(str(tmp_path))
    catalog.apply(PutDatabase(DEFAULT_CATALOG, "d", CatalogDatabase()))
    (tmp_path / "databases" / "d" / "database.json").write_text("{")
    seen = snapshot(open_file_catalog(str(tmp_path)))
    assert seen.databases(DEFAULT_CATALOG) == ("d", DEFAULT_DATABASE)
    assert seen.database(DEFAULT_CATALOG, DEFAULT_DATABASE) == CatalogDatabase()
    with pytest.raises(ExternalError, match=r'database "default_catalog\.d"'):
        seen.database(DEFAULT_CATALOG, "d")


def test_a_directory_with_other_files_or_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "data.csv").write_text("1")
    with pytest.raises(UserError, match="not empty and holds no catalog"):
        open_file_catalog(str(tmp_path / "mine"))
    open_file_catalog(str(tmp_path / "kept"))
    (tmp_path / "kept" / "catalog.json").write_text('{"format": 7}')
    with pytest.raises(UserError, match="version 7 of the format"):
        open_file_catalog(str(tmp_path / "kept"))
    (tmp_path / "file").write_text("")
    with pytest.raises(ExternalError, match="file"):
        open_file_catalog(str(tmp_path / "file"))


def test_files_that_are_no_definitions_are_left_alone(tmp_path: Path) -> None:
    catalog = open_file_catalog(str(tmp_path))
    catalog.apply(PutObject(table("t")))
    for name in ("t.json.bak", "my table.json", ".hidden", "README"):
        (file_of(tmp_path, name).parent / name).write_text("x")
    (tmp_path / "databases" / DEFAULT_DATABASE / "functions").mkdir()
    again = open_file_catalog(str(tmp_path))
    assert snapshot(again).names(DEFAULT_CATALOG, DEFAULT_DATABASE) == ("t",)
    assert (file_of(tmp_path, "t").parent / "my table.json").exists()


def test_leftovers_of_killed_writers_are_removed_when_it_is_opened(tmp_path: Path) -> None:
    open_file_catalog(str(tmp_path)).apply(PutObject(table("t")))
    tables = file_of(tmp_path, "t").parent
    (tables / ".draft-00").write_text("{")
    (tmp_path / "databases" / ".draft-01" / "tables").mkdir(parents=True)
    (tmp_path / "databases" / ".dropped-02").mkdir()
    catalog = open_file_catalog(str(tmp_path))
    assert list(tmp_path.rglob(".*")) == []
    assert snapshot(catalog).get(path("t")) == table("t")


def test_a_failed_write_is_an_error_and_the_catalog_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = open_file_catalog(str(tmp_path))
    catalog.apply(PutObject(table("t")))

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ExternalError, match="no space left"):
            catalog.apply(PutObject(table("u")))
    assert snapshot(catalog).names(DEFAULT_CATALOG, DEFAULT_DATABASE) == ("t",)
    assert list(tmp_path.rglob(".draft-*")) == []
    catalog.apply(PutObject(table("u")))
    assert snapshot(catalog).names(DEFAULT_CATALOG, DEFAULT_DATABASE) == ("t", "u")


def test_a_directory_that_is_locked_for_too_long_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlstream.client.catalog import file_catalog

    catalog, other = open_file_catalog(str(tmp_path)), file_catalog.SharedVersion(str(tmp_path / "lock"))
    monkeypatch.setattr(file_catalog, "LOCK_TIMEOUT_S", 0.05)
    with other.exclusive(), pytest.raises(ExternalError, match="locked by another process"):
        catalog.apply(PutObject(table("t")))
    catalog.apply(PutObject(table("t")))


def test_the_default_database_is_made_once(tmp_path: Path) -> None:
    catalog = open_file_catalog(str(tmp_path), default_database="main")
    catalog.apply(PutDatabase(DEFAULT_CATALOG, "d", CatalogDatabase()))
    catalog.apply(RemoveDatabase(DEFAULT_CATALOG, "main", is_cascade=False))
    assert set(open_file_catalog(str(tmp_path), default_database="main").contents().databases) == {"d"}


@pytest.mark.parametrize("is_copied", [False, True])
def test_catalogs_of_a_server_are_there_after_it_starts_again(tmp_path: Path, is_copied: bool) -> None:
    kept = Kept(tmp_path / "state")
    manager = kept_catalogs(str(tmp_path / "state"), keep=kept)
    file = CatalogDefinition({"type": "file", "path": str(tmp_path / "c")}, "mine")
    manager.apply(PutCatalog("c/1", file))
    manager.apply(PutCatalog("m", CatalogDefinition({"type": "generic_in_memory"})))
    manager.apply(PutCatalog("gone", CatalogDefinition({"type": "generic_in_memory"})))
    manager.apply(RemoveCatalog("gone"))
    entry = replace(table("t"), path=ObjectPath("c/1", DEFAULT_DATABASE, "t"))
    manager.apply(PutObject(entry))
    manager.apply(PutObject(table("t")))
    manager.close()
    again = kept_catalogs(kept.copied(tmp_path / "copy") if is_copied else str(tmp_path / "state"))
    seen = CatalogSnapshot(again.catalogs())
    assert seen.catalogs() == ("c/1", DEFAULT_CATALOG, "m")
    assert seen.get(entry.path) == entry
    assert seen.get(path("t")) == table("t")
    made = seen.definition("c/1")
    assert made is not None
    assert made.comment == "mine"
    with pytest.raises(CatalogConflict):
        again.apply(PutCatalog("m", file))


def test_another_definition_of_a_catalog_keeps_its_tables_and_survives(tmp_path: Path) -> None:
    manager = kept_catalogs(str(tmp_path / "state"))
    manager.apply(PutCatalog("c", CatalogDefinition({"type": "file", "path": str(tmp_path / "c")})))
    entry = replace(table("t"), path=ObjectPath("c", DEFAULT_DATABASE, "t"))
    manager.apply(PutObject(entry))
    before = manager.catalogs()["c"].definition
    other = CatalogDefinition({**before.options, "default-database": "d"}, "mine")
    manager.apply(PutCatalog("c", other, before))
    with pytest.raises(CatalogConflict):
        manager.apply(PutCatalog("c", before, before))
    manager.close()
    again = kept_catalogs(str(tmp_path / "state"))
    seen = CatalogSnapshot(again.catalogs())
    assert seen.definition("c") == other
    assert (seen.get(entry.path), seen.databases("c")) == (entry, ("d", DEFAULT_DATABASE))
    moved = CatalogDefinition({**other.options, "path": str(tmp_path / "e")})
    again.apply(PutCatalog("c", moved, other))
    assert CatalogSnapshot(again.catalogs()).databases("c") == ("d",)


def test_a_definition_that_cannot_be_kept_is_not_taken(tmp_path: Path) -> None:
    manager = kept_catalogs(str(tmp_path / "state"))
    manager.apply(PutCatalog("c", CatalogDefinition({"type": "file", "path": str(tmp_path / "c")})))
    before = manager.catalogs()["c"].definition
    (tmp_path / "state" / "catalog_store").rename(tmp_path / "away")
    (tmp_path / "state" / "catalog_store").write_text("")
    for changed in ({"default-database": "d"}, {"path": str(tmp_path / "e")}):
        with pytest.raises(ExternalError):
            manager.apply(PutCatalog("c", CatalogDefinition({**before.options, **changed}, "mine"), before))
        assert manager.catalogs()["c"].definition == before


def test_a_catalog_that_cannot_be_opened_costs_only_itself(tmp_path: Path) -> None:
    manager = kept_catalogs(str(tmp_path / "state"))
    manager.apply(PutCatalog("c", CatalogDefinition({"type": "file", "path": str(tmp_path / "c")})))
    manager.apply(PutCatalog("d", CatalogDefinition({"type": "generic_in_memory"})))
    manager.close()
    (tmp_path / "c" / "catalog.json").write_text("")
    (tmp_path / "state" / "catalog_store" / "d.json").write_text("{}")
    again = kept_catalogs(str(tmp_path / "state"))
    assert tuple(again.catalogs()) == (DEFAULT_CATALOG,)
    assert str(tmp_path / "c" / "catalog.json") in again.unopened["c"]


def test_a_catalog_of_an_unknown_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SqlStreamError, match="cannot be created here"):
        kept_catalogs(str(tmp_path)).apply(PutCatalog("h", CatalogDefinition({"type": "hive"})))
