"""The state that an operator declares: saved, restored, expired and measured by the runtime, never by the operator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from sqlstream.errors import InternalError
from sqlstream.runtime.state.snapshots.snapshot import OperatorSnapshot, SavedTables
from sqlstream.runtime.state.storage.arrays import Array

if TYPE_CHECKING:
    import pyarrow as pa

EXPIRED = "numStateEntriesExpired"
"""The metric of keys and rows that were forgotten because of their age."""


class PendingTables(Protocol):
    """What a piece of state has begun to save."""

    def collect(self) -> SavedTables:
        """Copy it, on any thread; SnapshotAborted when its checkpoint was aborted."""

    def stream(self) -> SavedTables:
        """The same, but keyed tables may be readers, which copy while they are read."""


@runtime_checkable
class HasEntries(Protocol):
    """A piece of state that knows how many keys, or rows, it has."""

    @property
    def row_count(self) -> int: ...


class StateTable(Protocol):
    """One piece of an operator's declared state: it saves, loads, expires and measures itself.

    `name` is as SQL or a user would name it ("groups", "left", "slices"), unique in its operator.
    """

    @property
    def name(self) -> str: ...

    def begin(self, checkpoint_id: int, *, is_full: bool) -> PendingTables:
        """A consistent copy, as tables named `name` or `name.part`; later changes of the state do not change it. It may hold
        increments, unless `is_full`."""

    def completed(self, checkpoint_id: int) -> None:
        """Increments may follow the snapshot of this checkpoint."""

    def aborted(self, checkpoint_id: int) -> None:
        """No increment will follow the snapshot of this checkpoint; what it collects is not needed."""

    def load(self, saved: SavedTables) -> None:
        """Take over saved tables; called at most once, while the table is empty. `saved` holds the keyed rows of this
        subtask's key groups and the shared rows of all old subtasks; tables without rows may be missing."""

    def nbytes(self) -> int:
        """Memory held, in bytes."""

    @property
    def next_sweep_ms(self) -> int | None:
        """The earliest processing time at which an entry may expire; None while nothing can."""

    def expire(self) -> int:
        """Forget the entries that are due; returns their number. Called when `next_sweep_ms` has passed."""


@runtime_checkable
class ExpiringTable(Protocol):
    """A table that calls `on_expiring` with itself and the slots of entries that are about to expire, while these are whole."""

    name: str
    on_expiring: OnExpiring

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def saved_names(self) -> list[str]: ...

    def saved(self, slots: Array) -> tuple[Array, list[pa.Array]]: ...

    def key_groups(self, slots: Array) -> Array: ...


def nothing_expires(table: ExpiringTable, slots: Array) -> None:
    """For tables whose expired entries are not kept."""


class NeverExpires:
    """The part of a `StateTable` whose entries are forgotten by its operator alone."""

    next_sweep_ms = None

    def expire(self) -> int:
        return 0


OnExpiring = Callable[["ExpiringTable", Array], None]
Table = TypeVar("Table", bound=StateTable)


@dataclasses.dataclass(frozen=True)
class LaterTables:
    """Implements `PendingTables` for what nothing changes any more: `make` turns it into tables."""

    make: Callable[[], SavedTables]

    def collect(self) -> SavedTables:
        return self.make()

    def stream(self) -> SavedTables:
        return self.make()


class SavedWhole:
    """The part of a `StateTable` whose snapshots are always whole, by its method `save_later`."""

    def save_later(self) -> Callable[[], SavedTables]:
        """Take what the state is at this moment; what is returned makes tables of it, on any thread."""
        raise NotImplementedError

    def save(self) -> SavedTables:
        """A copy, at once."""
        return self.save_later()()

    def begin(self, checkpoint_id: int, *, is_full: bool) -> PendingTables:
        return LaterTables(self.save_later())

    def completed(self, checkpoint_id: int) -> None:
        return None

    def aborted(self, checkpoint_id: int) -> None:
        return None


class SavesNothing(SavedWhole, NeverExpires):
    """The part of a `StateTable` whose bytes count, but of which nothing is saved: it is empty then, or made of other tables."""

    def save_later(self) -> Callable[[], SavedTables]:
        return SavedTables

    def load(self, saved: SavedTables) -> None:
        return None


@dataclasses.dataclass(frozen=True)
class PendingSnapshot:
    """The state of an operator as it was when its snapshot began, not yet copied."""

    tables: tuple[PendingTables, ...]

    def collect(self) -> OperatorSnapshot:
        """Copy it, on any thread, while the operator goes on in its own. Called once; SnapshotAborted when the checkpoint was
        aborted meanwhile."""
        return _together(table.collect() for table in self.tables)

    def stream(self) -> OperatorSnapshot:
        """As `collect`, but keyed tables may be `pa.RecordBatchReader`, each of which copies piece by piece as it is read."""
        return _together(table.stream() for table in self.tables)


def _together(saved: Iterable[SavedTables]) -> OperatorSnapshot:
    snapshot = OperatorSnapshot()
    for tables in saved:
        snapshot.include(tables)
    return snapshot


@dataclasses.dataclass(frozen=True)
class StateScope:
    """What tables use from their surroundings."""

    subtask: int = 0
    max_parallelism: int = 128
    now_ms: Callable[[], int] = lambda: 0


class OperatorState:
    """All state that one operator of one subtask has declared.

    The operator calls `add` in its constructor; everything else is called by the runtime. `count_expired` takes the number
    of entries that a sweep has forgotten. `keep_expired` makes the table that keeps the expired entries of another one; None for
    one that lets them go.
    """

    def __init__(
        self,
        scope: StateScope,
        count_expired: Callable[[int], None] = lambda entries: None,
        keep_expired: Callable[[StateTable], StateTable | None] = lambda table: None,
    ) -> None:
        self.scope = scope
        self._count_expired = count_expired
        self._keep_expired = keep_expired
        self._kept: list[StateTable] = []
        self.tables: list[StateTable] = []
        # Asked for each batch, and by each turn of a task.
        self._expiring: list[StateTable] = []

    def add(self, table: Table) -> Table:
        """Declare a table; returns it."""
        # A name with a dot would be taken for a part of another table.
        if "." in table.name or any(table.name == other.name for other in self.tables):
            raise InternalError(f'state table "{table.name}" is declared twice or has a dot in its name')
        self.tables.append(table)
        if not isinstance(table, NeverExpires):
            self._expiring.append(table)
        kept = self._keep_expired(table)
        if kept is not None:
            self._kept.append(self.add(kept))
        return table

    def snapshot(self) -> OperatorSnapshot:
        """A consistent copy of all tables, at once."""
        return self.begin_snapshot(0, is_full=True).collect()

    def begin_snapshot(self, checkpoint_id: int, *, is_full: bool = False) -> PendingSnapshot:
        """The state of all tables at this moment, on the operator's thread; ids grow. `is_full`: without increments, for a
        savepoint. Increments follow the last completed checkpoint or one that it follows itself; which one is decided here."""
        return PendingSnapshot(tuple(table.begin(checkpoint_id, is_full=is_full) for table in self.tables))

    def on_checkpoint_completed(self, checkpoint_id: int) -> None:
        """All of the job has saved its part: later increments follow this checkpoint, or one that its own chain holds. An id that
        was told before, or a lesser one, changes nothing."""
        for table in self.tables:
            table.completed(checkpoint_id)

    def on_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Nothing follows this checkpoint: what changed before it is saved again by the next."""
        for table in self.tables:
            table.aborted(checkpoint_id)

    def restore(self, snapshot: OperatorSnapshot) -> None:
        """Load every table; called once, before the operator gets its first element."""
        for table in self.tables:
            table.load(snapshot.of(table.name))

    def nbytes(self) -> int:
        """Memory held by all tables, in bytes."""
        return sum(table.nbytes() for table in self.tables)

    def entries(self) -> int:
        """The keys, or rows, of all tables that have any: not those of logs, which are ordered by time, nor what has expired."""
        tables = (table for table in self.tables if table not in self._kept)
        return sum(table.row_count for table in tables if isinstance(table, HasEntries))

    @property
    def next_sweep_ms(self) -> int | None:
        """The earliest processing time at which an entry of any table may expire; None while nothing can."""
        if not self._expiring:
            return None
        times = [time for table in self._expiring if (time := table.next_sweep_ms) is not None]
        return min(times) if times else None

    def expire(self) -> None:
        """Forget what is due, so that a row of an expired key starts with empty state: called before each batch and at
        `next_sweep_ms`."""
        for table in self._expiring:
            due_ms = table.next_sweep_ms
            if due_ms is not None and due_ms <= self.scope.now_ms():
                entries = table.expire()
                if entries:
                    self._count_expired(entries)
