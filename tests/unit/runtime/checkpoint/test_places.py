"""Directories of checkpoints and savepoints as users write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.errors import UserError
from sqlstream.runtime.checkpoint.places import absolute_place, check_places, with_absolute_places
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles

DIR = "execution.checkpointing.dir"


def test_relative_paths_are_those_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = with_absolute_places({DIR: "chk/../all", "execution.state-recovery.path": "", "other": "x"})
    assert found == {DIR: str(tmp_path / "all"), "execution.state-recovery.path": "", "other": "x"}


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/a/b", "/a/b"),
        ("file:///a/b/", "/a/b"),
        ("s3://bucket/key/", "s3://bucket/key"),
        ("sftp://h:2222/k/", "sftp://h:2222/k"),
    ],
)
def test_a_place_is_of_this_machine_or_of_a_store(path: str, place: str) -> None:
    assert absolute_place(path, "the directory") == place


@pytest.mark.parametrize("path", ["xyz://host/a", "a\0b", "s3://"])
def test_what_is_no_directory_is_refused(path: str) -> None:
    with pytest.raises(UserError, match="is no directory") as raised:
        with_absolute_places({DIR: path})
    assert (raised.value.code, "s3://bucket/directory" in raised.value.hint) == ("SS4002", True)


def test_checkpoints_are_not_put_where_nothing_can_be_written() -> None:
    with pytest.raises(UserError, match="nothing can be written there") as raised:
        with_absolute_places({DIR: "https://host/a"})
    assert raised.value.code == "SS5085"


def test_a_server_allows_the_directories_of_its_files_alone(tmp_path: Path) -> None:
    files = RootedFiles(FilePlaces((str(tmp_path),), (str(tmp_path / "server"),)))
    check_places({DIR: str(tmp_path / "chk"), "execution.state-recovery.path": ""}, files)
    for path, code in (
        ("/etc", "SS5030"),
        (str(tmp_path / "server" / "tokens"), "SS5030"),
        ("s3://b/k", "SS5031"),
        ("sftp://h/k", "SS5031"),
    ):
        with pytest.raises(UserError) as raised:
            check_places({DIR: path}, files)
        assert raised.value.code == code
    check_places({DIR: "/etc"}, LocalFiles())
