"""Hand-written lists of classes: an identifier to `module:Class`, imported at its first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from sqlstream.errors import UserError, did_you_mean
from sqlstream.runtime.imported_by_need import imported

Descriptor = TypeVar("Descriptor")


class Descriptors(Mapping[str, Descriptor]):
    """The descriptors of a hand-written list by identifier; a class is imported when its descriptor is looked up. No state."""

    def __init__(self, classes: Mapping[str, str], describe: Callable[[str], Descriptor]) -> None:
        self._classes = classes
        self._describe = describe

    def __getitem__(self, identifier: str) -> Descriptor:
        if identifier not in self._classes:
            raise KeyError(identifier)
        return self._describe(identifier)

    def __contains__(self, identifier: object) -> bool:
        return identifier in self._classes

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


def make_named(kind: str, code: str, classes: Mapping[str, str], identifier: str) -> Any:
    """An instance of the identifier's class. UserError `code` with a suggestion when the list has none."""
    found = classes.get(identifier)
    if found is None:
        hint = did_you_mean(identifier, list(classes)) or f"choose one of {', '.join(sorted(classes))}"
        raise UserError(code, f'unknown {kind} "{identifier}"', hint=hint)
    return imported(found)()
