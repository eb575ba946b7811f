"""A backup is there under its name once it is whole, however it was broken off before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sqlstream.client.server import backup
from sqlstream.client.server.backup import KeptPlace, back_up, read_backup, restore
from sqlstream.client.server.place_formats import put_formats
from sqlstream.errors import ExternalError, UserError

KILLED = """
import os, signal, sys
from sqlstream.client.server import backup

if sys.argv[3] == "copying":
    copy = backup._copy
    copied = []

    def dying(*given):
        copied.append(copy(*given))
        if len(copied) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return copied[-1]

    backup._copy = dying
else:
    # Behind the last file, and before what makes it a backup has its name.
    rename = os.rename

    def renaming(source, target):
        if os.path.basename(source) != "data":
            os.kill(os.getpid(), signal.SIGKILL)
        rename(source, target)

    os.rename = renaming
backup.back_up(backup.KeptPlace(sys.argv[1]), sys.argv[2], lambda: 1_000)
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    found = tmp_path / "data"
    found.mkdir(mode=0o700)
    put_formats(str(found))
    (found / "cluster").mkdir(mode=0o700)
    for name in ("secret", "join-secret"):
        (found / "cluster" / name).write_text(name)
    return found


@pytest.mark.parametrize("when", ["copying", "naming"])
@pytest.mark.parametrize("was_there", [False, True])
def test_what_a_killed_backup_leaves_is_none_and_the_next_one_is_whole(
    data: Path, tmp_path: Path, when: str, was_there: bool
) -> None:
    target = tmp_path / "backup"
    if was_there:
        target.mkdir()
    killed = subprocess.run([sys.executable, "-c", KILLED, str(data), str(target), when], timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert target.exists() == was_there
    assert list(tmp_path.rglob("secret"))
    with pytest.raises(UserError, match="SS6144") as refused:
        restore(str(target), KeptPlace(str(tmp_path / "restored")))
    assert "a backup was broken off there" in refused.value.hint
    record = back_up(KeptPlace(str(data)), str(target), lambda: 2_000)
    assert read_backup(str(target)) == record
    assert sorted(os.listdir(target)) == ["backup.json", "data"]
    assert sorted(os.listdir(tmp_path)) == ["backup", "data"]
    restore(str(target), KeptPlace(str(tmp_path / "restored")))
    assert (tmp_path / "restored" / "cluster" / "secret").read_text() == "secret"


def test_a_second_backup_into_one_directory_waits_for_nobody_and_removes_nothing(
    data: Path, tmp_path: Path
) -> None:
    target = tmp_path / "backup"
    with backup._alone(f"{target}.partial", str(target)):
        (tmp_path / "backup.partial" / "data").mkdir()
        with pytest.raises(UserError, match="another backup is being written"):
            back_up(KeptPlace(str(data)), str(target), lambda: 1_000)
        assert (tmp_path / "backup.partial" / "data").is_dir()


@pytest.mark.parametrize("name", ["data", "backup.json", "letters"])
def test_a_directory_with_something_of_somebody_else_is_left_as_it_is(
    data: Path, tmp_path: Path, name: str
) -> None:
    target = tmp_path / "backup"
    target.mkdir()
    (target / name).write_text("mine")
    with pytest.raises(UserError, match="is there already"):
        back_up(KeptPlace(str(data)), str(target), lambda: 1_000)
    assert (target / name).read_text() == "mine"


@pytest.mark.parametrize("was_there", [False, True])
def test_a_backup_that_fails_leaves_nothing(
    data: Path, tmp_path: Path, was_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup, "_copy", full)
    target = tmp_path / "backup"
    if was_there:
        target.mkdir()
    with pytest.raises(ExternalError, match="no space left"):
        back_up(KeptPlace(str(data)), str(target), lambda: 1_000)
    assert list(tmp_path.glob("backup*")) == ([target] if was_there else [])
    assert not was_there or not os.listdir(target)
