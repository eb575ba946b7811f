"""Directories for rows that memory does not hold."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from pathlib import Path

import pytest

from sqlstream.runtime.host.spill_directory import PREFIX, YOUNG_S, spill_directory


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def old(path: Path) -> Path:
    path.mkdir()
    (path / "rows").write_bytes(b"x")
    at_s = time.time() - YOUNG_S - 5
    os.utime(path, (at_s, at_s))
    return path


def test_a_directory_is_this_users_alone_and_locked_until_it_is_removed(temporary: Path) -> None:
    with spill_directory() as name:
        directory = Path(name)
        assert directory.parent == temporary
        assert directory.name.startswith(PREFIX)
        assert directory.stat().st_mode & 0o777 == 0o700
        (directory / "rows").write_bytes(b"x")
        number = os.open(name, os.O_RDONLY)
        try:
            with pytest.raises(BlockingIOError):
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(number)
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_nothing_else(temporary: Path) -> None:
    abandoned, other = old(temporary / f"{PREFIX}abandoned"), old(temporary / "other")
    locked = old(temporary / f"{PREFIX}locked")
    young = temporary / f"{PREFIX}young"
    young.mkdir()
    target = old(temporary / "target")
    (temporary / f"{PREFIX}link").symlink_to(target)
    (temporary / f"{PREFIX}file").write_bytes(b"x")
    number = os.open(locked, os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        with spill_directory():
            pass
    finally:
        os.close(number)
    assert not abandoned.exists()
    assert sorted(p.name for p in temporary.iterdir()) == sorted(
        [other.name, locked.name, young.name, "target", f"{PREFIX}link", f"{PREFIX}file"]
    )
    assert (target / "rows").exists()


def test_it_is_removed_also_when_its_run_fails(temporary: Path) -> None:
    with pytest.raises(ValueError, match="broken"), spill_directory():
        raise ValueError("broken")
    assert list(temporary.iterdir()) == []
