"""Files of which nothing is removed that another server may own by now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from sqlstream.spi.files import Files

CheckOwner = Callable[[], None]
"""Returns when this server has led after the call began; ExternalError SS6077 when it does not lead any more."""

_LISTS = frozenset({"list_files", "list_names", "match_glob"})


class _OwnedFiles:
    """Other files, for one thread. Between a look at names and the removal of what was found, this server has led: then all that
    was found is of this server or of an earlier one. What later servers write has names of its own, so that a removal may be as
    late as it likes. State: whether something was listed since."""

    def __init__(self, files: Files, check_owner: CheckOwner) -> None:
        self._files, self._check_owner = files, check_owner
        self._is_confirmed = False

    def __getattr__(self, name: str) -> Any:
        if name in _LISTS:
            self._is_confirmed = False
        return getattr(self._files, name)

    def remove(self, path: str) -> None:
        self._confirm()
        self._files.remove(path)

    def remove_directory_if_empty(self, path: str) -> None:
        self._confirm()
        self._files.remove_directory_if_empty(path)

    def require_owner(self) -> None:
        self._check_owner()

    def guarding(self, other: Files) -> Files:
        return owned(other, self._check_owner)

    def _confirm(self) -> None:
        if not self._is_confirmed:
            self._check_owner()
            self._is_confirmed = True


def owned(files: Files, check_owner: CheckOwner | None) -> Files:
    """The files themselves where nobody else can own them (None)."""
    return files if check_owner is None else cast(Files, _OwnedFiles(files, check_owner))
