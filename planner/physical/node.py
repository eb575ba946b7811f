"""The physical plan: operators with their specs, exchanges, and traits of their output."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import Span
from sqlstream.graph.state_identity import StateIdentity
from sqlstream.graph.stream_graph import FORWARD, Exchange
from sqlstream.schema import Schema
from sqlstream.specs import Spec
from sqlstream.specs.window import WindowSpec

Columns = frozenset[int]


@dataclasses.dataclass(frozen=True)
class WindowTrait:
    """Columns that hold the bounds of a window (Flink: RelWindowProperties). Several columns may hold the
    same bound.

    `is_closed`: rows are emitted when the window closes, before the watermark that closed it. `row_times`: the columns with the
    time by which a row belongs to the window.
    """

    spec: WindowSpec
    starts: Columns = frozenset()
    ends: Columns = frozenset()
    times: Columns = frozenset()
    is_closed: bool = False
    row_times: Columns = frozenset()

    @property
    def columns(self) -> Columns:
        return self.starts | self.ends | self.times

    def moved(self, places: Mapping[int, Columns]) -> WindowTrait:
        return dataclasses.replace(
            self,
            starts=_move(self.starts, places),
            ends=_move(self.ends, places),
            times=_move(self.times, places),
            row_times=_move(self.row_times, places),
        )

    def has_bounds_of(self, other: WindowTrait) -> bool:
        return dataclasses.replace(self, row_times=other.row_times) == other

    def is_open_at(self, time: int) -> bool:
        """Whether the window is not closed yet when the watermark passes the time in this column."""
        return time in self.ends | self.times | self.row_times


@dataclasses.dataclass(frozen=True)
class Traits:
    """`keys`: sets of columns that identify a row (the empty set: there is at most one row), and whose changes are in order:
    they come from one subtask, and a row replaces the last one of its key. `moving_keys`: further sets that identify a row; a
    row and the one that replaces it may come from different subtasks, in any order.

    `times`: columns that are never behind the watermark except in late rows: row times, and the ends of closed
    windows. `is_single_row_per_window`: each window has at most one row. `row_watermark_column`: see
    specs.watermark.ROW_WATERMARK_COLUMN, -1 when absent. `is_by_key`: the rows are changes by key as a source has them, without
    -U rows, and with no more than the key in a -D.
    """

    is_insert_only: bool = True
    is_bounded: bool = True
    keys: frozenset[Columns] = frozenset()
    moving_keys: frozenset[Columns] = frozenset()
    windows: tuple[WindowTrait, ...] = ()
    times: Columns = frozenset()
    is_single_row_per_window: bool = False
    row_watermark_column: int = -1
    is_by_key: bool = False

    @property
    def unique_keys(self) -> frozenset[Columns]:
        return self.keys | self.moving_keys

    def distributed(self, columns: Iterable[int]) -> Traits:
        """Behind an exchange by these columns. A row that is updated may move to another subtask, which does not wait for the
        one that deletes it."""
        place = frozenset() if self.is_insert_only else frozenset(columns)
        keys = frozenset(key | place for key in self.keys)
        return dataclasses.replace(self, keys=keys, moving_keys=self.unique_keys - keys)

    def projected(self, places: Mapping[int, Columns], casts: Mapping[int, int] | None = None) -> Traits:
        """After a projection that copies input column i to the columns `places[i]`. Column `casts[i]` has different values for
        different values of column i, so it is as good in a key as a copy; a join may know the rows by either."""
        copied = {column: min(new) for column, new in places.items() if new}
        images = ({**(casts or {}), **copied}, {**copied, **(casts or {})})

        def moved(keys: frozenset[Columns]) -> frozenset[Columns]:
            found = ((key, image) for key in keys for image in images if image.keys() >= key)
            return frozenset(frozenset(image[c] for c in key) for key, image in found)

        windows = tuple(w for w in (w.moved(places) for w in self.windows) if w.columns)
        watermark = min(places.get(self.row_watermark_column, frozenset()), default=-1)
        return dataclasses.replace(
            self,
            keys=moved(self.keys),
            moving_keys=moved(self.moving_keys),
            windows=windows,
            times=_move(self.times, places),
            row_watermark_column=watermark,
        )

    def shifted(self, offset: int) -> Traits:
        """The traits as the right side of a join: columns start at `offset`."""
        highest = max((c for w in self.windows for c in w.columns | w.row_times), default=0)
        highest = max(highest, *self.times, *(c for k in self.unique_keys for c in k), 0)
        return self.projected({i: frozenset({i + offset}) for i in range(highest + 1)})


def _move(columns: Columns, places: Mapping[int, Columns]) -> Columns:
    return frozenset(new for c in columns for new in places.get(c, frozenset()))


@dataclasses.dataclass(frozen=True, eq=False)
class PhysicalInput:
    """The distribution that an operator requires of an input. FORWARD: any."""

    node: PhysicalNode
    exchange: Exchange = FORWARD


@dataclasses.dataclass(frozen=True, eq=False)
class PhysicalNode:
    """One operator. Nodes are interned: the same operator over the same inputs is one object, and runs once.

    `spec` None is UNION ALL, which becomes several edges. `parallelism` > 0 is fixed; 0 means the default behind a
    HASH exchange, else that of the FORWARD input. `uid` digests spec, inputs and types, not names. `changelog_mode` is
    that of the output (a sink's: of the rows it receives); None until changelog inference, which needs the whole plan.
    `state` finds the operator's state again; None for an operator that keeps none.
    """

    name: str
    spec: Spec | None
    inputs: tuple[PhysicalInput, ...]
    schema: Schema
    traits: Traits
    description: str
    uid: str
    parallelism: int = 0
    span: Span | None = None
    changelog_mode: ChangelogMode | None = None
    state: StateIdentity | None = None

    @property
    def settled_mode(self) -> ChangelogMode:
        """The changelog mode of a node of an inferred plan."""
        assert self.changelog_mode is not None, f"the changelog mode of {self.name} is not inferred"
        return self.changelog_mode


def walk_plan(roots: tuple[PhysicalNode, ...]) -> Iterator[PhysicalNode]:
    """Every node once, inputs before their consumers, in the order of the statements."""
    seen: set[int] = set()

    def visit(node: PhysicalNode) -> Iterator[PhysicalNode]:
        if id(node) in seen:
            return
        seen.add(id(node))
        for physical_input in node.inputs:
            yield from visit(physical_input.node)
        yield node

    for root in roots:
        yield from visit(root)


def rebuild_plan(
    roots: tuple[PhysicalNode, ...], change: Callable[[PhysicalNode, PhysicalNode], PhysicalNode]
) -> tuple[PhysicalNode, ...]:
    """The plan of what `change` makes of each node; it is called with the node, and with the node over its changed inputs. Shared
    nodes stay shared."""
    rebuilt: dict[int, PhysicalNode] = {}
    for node in walk_plan(roots):
        inputs = tuple(PhysicalInput(rebuilt[id(i.node)], i.exchange) for i in node.inputs)
        rebuilt[id(node)] = change(node, dataclasses.replace(node, inputs=inputs))
    return tuple(rebuilt[id(root)] for root in roots)
