"""The snapshots of a table that counts its changes."""

from __future__ import annotations

import dataclasses

from sqlstream.runtime.state.snapshots.changes import Changes
from sqlstream.runtime.state.snapshots.collection import Collection
from sqlstream.runtime.state.snapshots.snapshot import SavedTables


@dataclasses.dataclass(frozen=True)
class CollectedTables:
    """Implements `PendingTables`: the collections of a table and of its parts, by name."""

    collections: dict[str, Collection]

    def collect(self) -> SavedTables:
        saved = self.stream()
        return dataclasses.replace(saved, keyed={name: rows.read_all() for name, rows in saved.keyed.items()})

    def stream(self) -> SavedTables:
        keyed = {name: collection.stream() for name, collection in self.collections.items()}
        increments = {name: c.base_id for name, c in self.collections.items() if c.base_id is not None}
        return SavedTables(keyed=keyed, increments=increments)


class SavedByChanges:
    """The part of a `StateTable` that saves itself by its `changes`: those of the table and of its parts, by name."""

    def __init__(self, changes: dict[str, Changes]) -> None:
        self._tracked = changes

    def begin(self, checkpoint_id: int, *, is_full: bool) -> CollectedTables:
        return CollectedTables(
            {name: changes.begin(checkpoint_id, is_full=is_full) for name, changes in self._tracked.items()}
        )

    def completed(self, checkpoint_id: int) -> None:
        for changes in self._tracked.values():
            changes.completed(checkpoint_id)

    def aborted(self, checkpoint_id: int) -> None:
        for changes in self._tracked.values():
            changes.aborted(checkpoint_id)

    def save(self) -> SavedTables:
        """A whole copy, at once."""
        return self.begin(0, is_full=True).collect()
