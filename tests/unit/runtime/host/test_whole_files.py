"""Files that are replaced whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sqlstream.runtime.host.whole_files import replace_file


@pytest.mark.parametrize("is_durable", [True, False])
def test_a_file_is_put_in_place_and_its_draft_is_gone(tmp_path: Path, is_durable: bool) -> None:
    path, draft = tmp_path / "kept", tmp_path / ".draft"
    for data in (b"first", b"second"):
        replace_file(str(path), str(draft), data, is_durable=is_durable)
        assert path.read_bytes() == data
        assert path.stat().st_mode & 0o777 == 0o600
        assert os.listdir(tmp_path) == ["kept"]


def test_a_file_is_on_the_disk_before_it_is_in_place_and_its_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, draft = tmp_path / "kept", tmp_path / ".draft"
    synced: list[tuple[bool, list[str]]] = []
    fsync = os.fsync

    def watched(number: int) -> None:
        fsync(number)
        synced.append((os.path.isdir(f"/proc/self/fd/{number}"), os.listdir(tmp_path)))

    monkeypatch.setattr(os, "fsync", watched)
    replace_file(str(path), str(draft), b"data")
    assert synced == [(False, [".draft"]), (True, ["kept"])]
    replace_file(str(path), str(draft), b"data", is_durable=False)
    assert len(synced) == 2


def test_a_failure_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    directory, draft = tmp_path / "directory", tmp_path / ".draft"
    (directory / "full").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        replace_file(str(directory), str(draft), b"data")
    assert os.listdir(tmp_path) == ["directory"]


def test_a_draft_of_another_process_is_left_alone(tmp_path: Path) -> None:
    draft = tmp_path / ".draft"
    draft.write_bytes(b"theirs")
    with pytest.raises(FileExistsError):
        replace_file(str(tmp_path / "kept"), str(draft), b"ours")
    assert draft.read_bytes() == b"theirs"
