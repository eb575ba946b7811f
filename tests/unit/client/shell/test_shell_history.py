"""The kept history of the shell."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from prompt_toolkit.history import InMemoryHistory

from sqlstream.client.shell import prompt
from sqlstream.client.shell.prompt import ShellHistory, history_file


def strings(path: Path) -> list[str]:
    return list(ShellHistory(path).load_history_strings())


def test_secrets_are_masked_and_other_users_kept_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = history_file()
    assert path == tmp_path / "state" / "sqlstream" / "shell_history"
    ShellHistory(path).store_string("SET 'api-key' = 'abcdef';\nSELECT 1;")
    assert strings(path) == ["SET 'api-key' = '******';\nSELECT 1;"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_newest_entry_comes_first(tmp_path: Path) -> None:
    kept = ShellHistory(tmp_path / "h")
    for text in ("one", "two\nlines", "three"):
        kept.store_string(text)
    assert strings(tmp_path / "h") == ["three", "two\nlines", "one"]


def test_a_large_file_is_cut_to_its_newer_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt, "FILE_BYTES_MAX", 10_000)
    kept = ShellHistory(tmp_path / "h")
    for number in range(500):
        kept.store_string(f"SELECT {number};")
    found = strings(tmp_path / "h")
    assert found[0] == "SELECT 499;"
    assert 200 < len(found) < 300
    assert found[-1] == f"SELECT {500 - len(found)};"
    assert stat.S_IMODE((tmp_path / "h").stat().st_mode) == 0o600


def test_the_prompt_keeps_its_history_where_files_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path, kept = prompt._history()
    assert path == history_file()
    assert isinstance(kept, ShellHistory)

    def fail() -> Path:
        raise PermissionError("read-only")

    monkeypatch.setattr(prompt, "history_file", fail)
    path, forgotten = prompt._history()
    assert path is None
    assert isinstance(forgotten, InMemoryHistory)
