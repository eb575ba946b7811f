"""Files are there whole or not at all, in directories that are private."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sqlstream.client.clusters.server_file import SERVER_FILE
from sqlstream.client.server.data_directory import DataDirectory
from sqlstream.client.server.kept_file import (
    DamagedFile,
    make_private_directory,
    sealed,
    unsealed,
    write_file,
)
from sqlstream.errors import ExternalError, UserError


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_directory_is_made_private_unless_it_is_meant_for_others(tmp_path: Path) -> None:
    make_private_directory(str(tmp_path / "a" / "b"))
    assert mode(tmp_path / "a" / "b") == 0o700
    (tmp_path / "empty").mkdir(mode=0o755)
    make_private_directory(str(tmp_path / "empty"))
    assert mode(tmp_path / "empty") == 0o700
    (tmp_path / "home").mkdir(mode=0o755)
    (tmp_path / "home" / "mine.txt").touch()
    with pytest.raises(UserError, match='home" is open to other users') as caught:
        make_private_directory(str(tmp_path / "home"))
    assert (caught.value.code, mode(tmp_path / "home")) == ("SS4012", 0o755)


def test_a_file_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(ExternalError, match=r"could not make the directory .*: file exists"):
        make_private_directory(str(tmp_path / "f"))


def test_a_file_is_replaced_whole_and_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_file(str(path), b"one")
    write_file(str(path), b"two", is_durable=False)
    assert (path.read_bytes(), mode(path), [p.name for p in tmp_path.iterdir()]) == (b"two", 0o600, ["f"])


def test_a_changed_byte_is_noticed() -> None:
    data = sealed(b"content")
    assert unsealed(data) == b"content"
    for damaged in (data[:-1], b"", data[:10] + b"?" + data[11:], data + b"x"):
        with pytest.raises(DamagedFile):
            unsealed(damaged)


def test_one_owner_at_a_time_has_a_data_directory(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    with DataDirectory(path), pytest.raises(UserError, match="is in use by another server") as caught:
        DataDirectory(path)
    assert caught.value.code == "SS4010"
    DataDirectory(path).close()


def test_a_directory_whose_address_cannot_be_removed_is_let_go_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "data"
    directory = DataDirectory(str(path))
    (path / SERVER_FILE).mkdir()
    with pytest.raises(ExternalError, match="SS5001"):
        directory.close()
    (path / SERVER_FILE).rmdir()
    DataDirectory(str(path)).close()


def fail_to_start(directory: DataDirectory) -> None:
    os.makedirs(directory.logs)
    raise OSError("port")


def test_a_start_that_fails_leaves_no_directory_that_it_made(tmp_path: Path) -> None:
    fresh, known = tmp_path / "fresh", tmp_path / "known"
    DataDirectory(str(known)).close()
    for path in (fresh, known):
        with pytest.raises(OSError, match="port"), DataDirectory(str(path)) as directory:
            fail_to_start(directory)
    assert not fresh.exists()
    assert sorted(os.listdir(known)) == ["formats.json", "lock", "logs"]
    with DataDirectory(str(fresh)):
        pass
    assert fresh.exists(), "a server that stops keeps it"
