"""Classes by the names that SQL has for them: ours in a hand-written list, then those of other packages.

A class is imported at its first use. Entry points of other packages are read when a name is not in the list, or when all names
are asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

from sqlstream.errors import UserError, choose_one_of
from sqlstream.spi.imported_by_need import imported
from sqlstream.spi.packages import Kind, find_guest, guest_names, make_guest

Descriptor = TypeVar("Descriptor")
logger = logging.getLogger(__name__)


class Descriptors(Mapping[str, Descriptor]):
    """The descriptors of a kind by identifier; a class is imported when its descriptor is looked up.

    Looking up a name raises the errors of `make_named`. Iteration leaves out what a package brings and cannot be loaded: one
    broken package must not hide the others. No state."""

    def __init__(self, kind: Kind, classes: Collection[str], describe: Callable[[str], Descriptor]) -> None:
        self._kind = kind
        self._classes = classes
        self._describe = describe

    def __getitem__(self, identifier: str) -> Descriptor:
        if identifier not in self:
            raise KeyError(identifier)
        return self._describe(identifier)

    def __contains__(self, identifier: object) -> bool:
        if identifier in self._classes:
            return True
        return isinstance(identifier, str) and find_guest(self._kind, identifier) is not None

    def __iter__(self) -> Iterator[str]:
        yield from self._classes
        for name in guest_names(self._kind):
            if name not in self._classes and self._is_usable(name):
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _is_usable(self, name: str) -> bool:
        try:
            self[name]
        except UserError as error:
            logger.warning("left out: %s", error.message)
            return False
        return True


def make_named(
    kind: Kind, code: str, classes: Mapping[str, str], identifier: str, descriptor_type: type
) -> Any:
    """An instance of the identifier's class, ours or another package's. UserError `code` with a suggestion when there is none,
    SS4014 to SS4016 for a package that cannot be used."""
    found = classes.get(identifier)
    if found is not None:
        return imported(found)()
    guest = find_guest(kind, identifier)
    if guest is not None:
        return make_guest(guest, descriptor_type)
    hint = choose_one_of(identifier, sorted({*classes, *guest_names(kind)}))
    raise UserError(code, f'unknown {kind.value} "{identifier}"', hint=hint)
