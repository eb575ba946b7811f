"""What the user has typed, kept in a file of the user's own from one shell to the next."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit.history import FileHistory

from sqlstream.secrets import without_secrets

FILE_BYTES_MAX = 2 * 1024 * 1024
"""A file beyond this size is cut to its newer half when a shell starts."""


def history_file() -> Path:
    """The file's path, below the user's XDG state directory; the directory is made, for this user alone.

    OSError when that cannot be done.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    home = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    directory = home / "sqlstream"
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    return directory / "shell_history"


class ShellHistory(FileHistory):
    """The history of all shells of this user, the newest first, in prompt-toolkit's file format.

    Values of secrets are masked in the file; the shell itself remembers what was typed until it ends. A file that cannot be
    written costs the history, not the shell. The file has mode 0600.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._open_private(path)
        if path.stat().st_size > FILE_BYTES_MAX:
            _halve(path)

    @staticmethod
    def _open_private(path: Path) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
        os.chmod(path, 0o600)

    def load_history_strings(self) -> Iterable[str]:
        try:
            return super().load_history_strings()
        except OSError:
            return ()

    def store_string(self, string: str) -> None:
        try:
            super().store_string(without_secrets(string))
        except OSError:
            return


def _halve(path: Path) -> None:
    """Keep the newer half of the entries; each begins with a blank line."""
    data = path.read_bytes()
    start = data.find(b"\n\n", len(data) // 2)
    kept = data[start + 1 :] if start >= 0 else b""
    temporary = path.with_suffix(f".{os.getpid()}")
    with open(os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
        file.write(kept)
    temporary.replace(path)
