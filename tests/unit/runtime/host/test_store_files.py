"""An object store as a store of files: what commits need of it, on a store of Arrow's that is a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from object_store import ObjectStore, store_in
from pyarrow import fs

from sqlstream.errors import ExternalError
from sqlstream.runtime.connectors.files.file_paths import find_files
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.store_files import StoreFiles
from sqlstream.runtime.host.stores.arrow_stores import _WithDirectories
from sqlstream.spi.files import Files
from sqlstream.testing.mortal_files import Process

PATHS = ("b/t/a.csv", "b/t/.hidden", "b/t/_x/c.csv", "b/t/p=1/b.csv", "b/t/p=1/deep/c.csv", "b/t/[z]/d.csv")


def write(files: Files, path: str, data: bytes) -> None:
    with files.open_write(path) as stream:
        stream.write(data)
        files.sync(stream)


@pytest.fixture
def store(tmp_path: Path) -> StoreFiles:
    for path in PATHS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    return store_in(str(tmp_path))


@pytest.mark.parametrize(
    "pattern",
    [
        "*",
        "t/*",
        "t/.*",
        "t/*.csv",
        "t/**",
        "t/**/*.csv",
        "t/p=?/b.csv",
        "t/p=[0-9]/*/c.csv",
        "t/[[]z]/*",
        "none/*",
        "t/a.csv",
    ],
)
def test_a_pattern_matches_what_it_matches_on_the_disk(
    store: StoreFiles, tmp_path: Path, pattern: str
) -> None:
    expected = {path.rstrip("/") for path in LocalFiles().match_glob(f"{tmp_path}/b/{pattern}")}
    assert store.match_glob(f"s3://b/{pattern}") == sorted(
        p.replace(f"{tmp_path}/", "s3://") for p in expected
    )


def test_files_are_listed_without_hidden_ones(store: StoreFiles) -> None:
    found = [(status.path, status.size) for status in store.list_files("s3://b/t")]
    listed = ["b/t/[z]/d.csv", "b/t/a.csv", "b/t/p=1/b.csv", "b/t/p=1/deep/c.csv"]
    assert found == [(f"s3://{path}", len(path)) for path in listed]
    assert store.list_names("s3://b/t", 10) == [("[z]", True), ("a.csv", False), ("p=1", True)]
    with pytest.raises(ExternalError, match="could not list"):
        store.list_files("s3://b/none")


def test_a_file_is_published_at_once_and_again(store: StoreFiles, tmp_path: Path) -> None:
    for text in (b"1", b"2"):
        write(store, "s3://b/t/.staging/x", text)
        store.make_directories("s3://b/u")
        store.publish("s3://b/t/.staging/x", "s3://b/u/x")
        with store.open_read("s3://b/u/x") as stream:
            assert stream.read() == text
        assert store.status("s3://b/t/.staging/x") is None
    with pytest.raises(ExternalError, match='could not publish "s3://b/none"'):
        store.publish("s3://b/none", "s3://b/u/y")


def test_what_is_removed_may_be_absent(store: StoreFiles) -> None:
    for path in ("s3://b/t/a.csv", "s3://b/t/p=1", "s3://b/none"):
        store.remove(path)
        store.remove(path)
        assert store.status(path) is None
    store.remove_directory_if_empty("s3://b/t")
    store.remove_directory_if_empty("s3://b/none")
    assert store.status("s3://b/t") is not None


def test_an_empty_directory_of_a_store_stays_as_another_may_be_about_to_write_there(
    store: StoreFiles,
) -> None:
    store.remove("s3://b/t/[z]/d.csv")
    store.remove_directory_if_empty("s3://b/t/[z]")
    assert store.status("s3://b/t/[z]") is not None


def test_nothing_is_locked_by_this_process(store: StoreFiles) -> None:
    assert store.lock("s3://b/t/a.csv") is None


def test_reading_a_table_asks_for_each_list_once(tmp_path: Path) -> None:
    for path in PATHS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    asked: list[tuple[str, bool]] = []

    class Counting(ObjectStore):
        def get_file_info(self, what: Any) -> Any:
            if isinstance(what, fs.FileSelector):
                asked.append((what.base_dir, what.recursive))
            return self._store.get_file_info(what)

    store = StoreFiles(Counting(str(tmp_path), Process(None)), "s3://")  # type: ignore[arg-type]
    found = find_files("s3://b/t", store, may_be_empty=False)
    assert [f.path for f in found] == [
        f"s3://b/t/{name}" for name in ("[z]/d.csv", "a.csv", "p=1/b.csv", "p=1/deep/c.csv")
    ]
    # The names of commits before and after it.
    assert asked == [("b/t", False), ("b/t", True), ("b/t", False)]


class WithoutDirectories:
    """As pyarrow has Google's store: directories that nobody has made are in no list."""

    def __init__(self, *paths: str) -> None:
        self._paths = paths

    def get_file_info(self, asked: fs.FileSelector) -> list[fs.FileInfo]:
        below = [p for p in self._paths if p.startswith(f"{asked.base_dir}/")]
        return [fs.FileInfo(p, fs.FileType.File, size=1) for p in below if asked.recursive]


def test_directories_that_nobody_has_made_are_listed_of_googles_store() -> None:
    paths = ("b/t/a.csv", "b/t/p=1/b.csv", "b/t/p=1/deep/c.csv", "b/t/.committed/x", "b/u/d.csv")
    store = StoreFiles(_WithDirectories(WithoutDirectories(*paths)), "gs://")  # type: ignore[arg-type]
    assert store.list_names("gs://b/t", 10) == [("a.csv", False), ("p=1", True)]
    assert [f.path for f in store.list_files("gs://b/t")] == [f"gs://{p}" for p in paths[:3]]
