"""A folder compares what it is to replace, whenever a writer stands still or dies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sqlstream.client.server.leaders import folder_store
from sqlstream.client.server.leaders.folder_store import FolderStore
from sqlstream.client.server.leaders.record_store import Conflict
from sqlstream.errors import ExternalError


def contents(store: FolderStore, key: str) -> bytes | None:
    found = store.read(key)
    return found.data if found is not None else None


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_a_writer_that_stands_still_before_its_link_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """Behind two writes of others the number of its file is free again."""
    store, link = FolderStore(str(tmp_path / "r")), os.link
    version = store.write("a", b"first", None)

    def late(source: str, target: str) -> None:
        monkeypatch.setattr(os, "link", link)
        expected = version
        for number in range(writes):
            expected = store.write("a", b"%d" % number, expected)
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    # Whether the free number was seen or not: it is told that there is no answer, or that it came too late.
    with pytest.raises(Conflict if writes == 1 else ExternalError):
        store.write("a", b"late", version)
    newest = b"%d" % (writes - 1)
    assert contents(store, "a") == newest
    found = store.read("a")
    assert found is not None
    store.write("a", b"next", found.version)
    assert contents(store, "a") == b"next"
    assert os.listdir(tmp_path / "r") == ["a"]
    assert len(os.listdir(tmp_path / "r" / "a")) == 1


def test_a_reader_that_stands_still_reads_the_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStore(str(tmp_path / "r"))
    version = store.write("a", b"one", None)
    newest = FolderStore._newest

    def stands_still(self: FolderStore, key: str) -> int | None:
        found = newest(self, key)
        monkeypatch.setattr(FolderStore, "_newest", newest)
        self.write("a", b"two", version)
        return found

    monkeypatch.setattr(FolderStore, "_newest", stands_still)
    assert contents(store, "a") == b"two"


def test_what_a_writer_that_was_killed_left_is_no_record(tmp_path: Path) -> None:
    store = FolderStore(str(tmp_path / "r"))
    (tmp_path / "r" / ".draft-1").write_bytes(b"half")
    (tmp_path / "r" / "b").mkdir()
    assert contents(store, "b") is None
    assert store.write("b", b"x", None) == "1"
    assert sorted(store.keys()) == ["b"]
    (tmp_path / "r" / ".draft-2").write_bytes(b"being written")
    os.utime(tmp_path / "r" / ".draft-1", (0, 0))
    assert FolderStore(str(tmp_path / "r")).keys() == ["b"]
    assert sorted(os.listdir(tmp_path / "r")) == [".draft-2", "b"]


def test_a_writer_whose_draft_is_gone_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, link = FolderStore(str(tmp_path / "r")), os.link
    version = store.write("a", b"one", None)

    def stands_still(draft: str, path: str) -> None:
        os.utime(draft, (0, 0))
        FolderStore(str(tmp_path / "r"))
        link(draft, path)

    monkeypatch.setattr(folder_store.os, "link", stands_still)
    with pytest.raises(Conflict):
        store.write("a", b"two", version)
    assert contents(store, "a") == b"one"


def test_a_new_record_is_there_once_its_name_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, synced = FolderStore(str(tmp_path / "r")), list[str]()
    monkeypatch.setattr(folder_store, "sync_directory", synced.append)
    version = store.write("a", b"one", None)
    assert synced == [str(tmp_path / "r" / "a"), str(tmp_path / "r")]
    store.write("a", b"two", version)
    assert synced[2:] == [str(tmp_path / "r" / "a")]


def test_a_folder_that_fails_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStore(str(tmp_path / "r"))

    def full(number: int) -> None:
        raise OSError(28, "")

    monkeypatch.setattr(folder_store.os, "fsync", full)
    with pytest.raises(ExternalError, match=r"fails at .*/r/a/1.*: no space left on device") as caught:
        store.write("a", b"x", None)
    assert caught.value.code == "SS6080"
    assert contents(store, "a") is None
    (tmp_path / "r").rename(tmp_path / "away")
    with pytest.raises(ExternalError, match="no such file"):
        store.keys()
