"""The managed memory of a TaskManager: a budget per slot for state, and how state that is too large ends its job."""

from __future__ import annotations

import functools
import logging
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlstream import config
from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.host.mapped_file import can_map_files
from sqlstream.runtime.memory.array_memory import ArrayMemory
from sqlstream.runtime.memory.mapped_memory import MappedMemory
from sqlstream.runtime.memory.resident_limit import ProcessPages, ResidentKeeper, ResidentLimit

_UNLIMITED_BYTES = 1 << 60
"""What control groups without a limit say is above this."""


@dataclass(frozen=True)
class MachineMemory:
    """`available_bytes` is what can be had before something is killed: free, and cached files that can be dropped.
    `total_bytes` is the limit that this counts against."""

    available_bytes: int
    total_bytes: int


def read_machine_memory(root: Path = Path("/")) -> MachineMemory | None:
    """The scarcest of the machine's memory and that of the process's control groups; None where the system does not say.
    `root` is where `proc` and `sys` lie."""
    machine = _machine(root)
    if machine is None:
        return None
    return min([machine, *_groups(root)], key=lambda memory: memory.available_bytes)


def _machine(root: Path) -> MachineMemory | None:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    sizes = {name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines)}
    if "MemAvailable" not in sizes:
        return None
    return MachineMemory(sizes["MemAvailable"], sizes["MemTotal"])


def _groups(root: Path) -> Iterator[MachineMemory]:
    """The groups with a limit, of both versions of control groups."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            yield from _limits(root / "sys/fs/cgroup", path, "memory.max", "memory.current", "")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
            yield from _limits(root / "sys/fs/cgroup/memory", path, *names)


def _limits(top: Path, path: str, limit: str, usage: str, prefix: str) -> Iterator[MachineMemory]:
    group = top / path.strip("/")
    # Within a container the path is that of the host, and the limit is found at the top.
    for directory in (group, *group.parents):
        if directory.is_relative_to(top) and (found := _group(directory, limit, usage, prefix)) is not None:
            yield found


def _group(directory: Path, limit: str, usage: str, prefix: str) -> MachineMemory | None:
    try:
        total = int((directory / limit).read_text())
        used = int((directory / usage).read_text())
        statistics = dict(line.split() for line in (directory / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        # No such group, or `max`: no limit.
        return None
    if total >= _UNLIMITED_BYTES:
        return None
    cached = sum(int(statistics.get(f"{prefix}{kind}_file", 0)) for kind in ("inactive", "active"))
    return MachineMemory(max(0, total - used + cached), total)


logger = logging.getLogger(__name__)

MAPPED = "mapped"

MEASURE_INTERVAL_S = 0.5
"""How often a task measures its state, which only its own thread may read."""

CLOSE_INTERVAL_S = 0.05
"""The same once more than half of a slot's budget is used."""

SCARCE_BYTES_MAX = 512 << 20
SCARCE_PART = 1 / 20
"""A job with much state ends when the machine has less memory left than this, or this part of all it has, if that is less."""

LARGE_BYTES = 64 << 20
"""What is taken at once is held to the machine's memory from this size on, and so is all state of a task."""

HINT = (
    "SET 'state.backend.type' = 'mapped' to keep state in files of the local disk, give more memory by "
    "taskmanager.memory.managed.size, or let state expire by table.exec.state.ttl"
)


@dataclass(frozen=True)
class ManagedMemoryOptions:
    """`size_bytes` is for all `slots` together, 0 for no limit but the machine's. Mapped state lies below `directories`, or
    else that for temporary files."""

    size_bytes: int = 0
    slots: int = 1
    directories: tuple[str, ...] = ()


class ManagedMemory:
    """Gives each task its share. `machine` reads what memory there is left.

    State: by allocation of a slot, what its tasks hold; the thread that keeps mapped state within the budget, from the first
    task with mapped state on."""

    def __init__(
        self,
        options: ManagedMemoryOptions = ManagedMemoryOptions(),
        machine: Callable[[], MachineMemory | None] = read_machine_memory,
    ) -> None:
        self._options = options
        self._machine = machine
        self._lock = threading.Lock()
        self._slots: dict[str, SlotMemory] = {}
        self._tasks: dict[str, set[str]] = {}
        self._resident: ResidentLimit | None = None
        self._keeper: ResidentKeeper | None = None
        self._pages: ProcessPages | None = None

    def open(self, allocation_id: str, execution_id: str, settings: Mapping[str, str]) -> TaskMemory:
        """The memory of a task that starts; to be closed."""
        is_mapped = config.get(settings, "state.backend.type") == MAPPED
        with self._lock:
            budget = self._options.size_bytes // self._options.slots
            slot = self._slots.setdefault(allocation_id, SlotMemory(budget))
            self._tasks.setdefault(allocation_id, set()).add(execution_id)
            has_limit = is_mapped and self._options.size_bytes > 0 and can_map_files()
            resident = self._resident_limit() if has_limit else None
        return TaskMemory(
            execution_id,
            slot,
            self._machine,
            lambda: self._close(allocation_id, execution_id),
            self._options.directories if is_mapped else None,
            resident,
        )

    def stop(self) -> None:
        """End the thread, once no task runs."""
        if self._keeper is not None and self._pages is not None:
            self._keeper.stop()
            self._pages.close()

    def _resident_limit(self) -> ResidentLimit | None:
        """None, for this task, where the system does not say what is mapped."""
        if self._resident is None:
            try:
                self._pages = ProcessPages()
            except OSError as error:
                logger.warning("mapped state of a task goes on without a limit: %s", error)
                return None
            self._resident = ResidentLimit(self._options.size_bytes, self._pages)
            self._keeper = ResidentKeeper(self._resident)
            self._keeper.start()
        return self._resident

    def _close(self, allocation_id: str, execution_id: str) -> None:
        with self._lock:
            tasks = self._tasks[allocation_id]
            tasks.discard(execution_id)
            if not tasks:
                del self._tasks[allocation_id], self._slots[allocation_id]


class SlotMemory:
    """What the operators of one slot hold in memory, as their tasks have measured it last. `budget_bytes` 0: no limit.
    Thread-safe. State: the bytes of each operator, by task."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._held: dict[str, dict[str, int]] = {}
        self._lock = threading.Lock()

    def set(self, execution_id: str, sizes: dict[str, int]) -> None:
        with self._lock:
            self._held[execution_id] = sizes

    def forget(self, execution_id: str) -> None:
        with self._lock:
            self._held.pop(execution_id, None)

    @property
    def held_bytes(self) -> int:
        with self._lock:
            return sum(sum(sizes.values()) for sizes in self._held.values())

    def largest(self) -> tuple[str, int]:
        """The operator that holds most, and how much that is."""
        with self._lock:
            everything = [item for sizes in self._held.values() for item in sizes.items()]
        return max(everything, key=lambda item: item[1], default=("", 0))


class TaskMemory:
    """The share of one task. Called by the task's thread.

    The state of the whole slot may take its budget and no more. Without a budget, or before that is reached, the machine's
    memory is the limit: the job ends before the system kills the process. UserError SS6260 for the former, ExternalError SS6261
    for the latter, each with the name of the operator. Bytes of files count for neither.
    State: the memories of its operators."""

    def __init__(
        self,
        execution_id: str,
        slot: SlotMemory,
        machine: Callable[[], MachineMemory | None],
        on_close: Callable[[], None] = lambda: None,
        directories: tuple[str, ...] | None = None,
        resident: ResidentLimit | None = None,
    ) -> None:
        """`directories` are those of mapped state, empty for the system's; None for state that is not mapped."""
        self._execution_id = execution_id
        self._slot = slot
        self._machine = machine
        self._on_close = on_close
        self._directories = directories
        self._resident = resident
        self._mapped: list[MappedMemory] = []
        self._last_bytes = 0

    def of_operator(self, name: str) -> ArrayMemory:
        """The memory that the state of an operator takes. UserError SS6263 where files cannot be mapped."""
        check = functools.partial(self._check_room, name)
        if self._directories is None:
            return ArrayMemory(check)
        if not can_map_files():
            raise UserError(
                "SS6263",
                "state.backend.type cannot be mapped: this system reserves no room for files that are mapped",
            )
        memory = MappedMemory(name, self._directories or (tempfile.gettempdir(),), check)
        self._mapped.append(memory)
        if self._resident is not None:
            self._resident.add(memory.mappings)
        return memory

    @property
    def budget_bytes(self) -> int:
        """Of the slot, for all tasks in it; 0 for none."""
        return self._slot.budget_bytes

    @property
    def measure_interval_s(self) -> float:
        """When to measure again."""
        is_close = 0 < self._slot.budget_bytes < 2 * self._slot.held_bytes
        return CLOSE_INTERVAL_S if is_close else MEASURE_INTERVAL_S

    def measured(self, sizes: dict[str, int]) -> None:
        """What each operator of the task holds in memory, by name."""
        self._slot.set(self._execution_id, sizes)
        if 0 < self._slot.budget_bytes < self._slot.held_bytes:
            name, held_bytes = self._slot.largest()
            raise self._too_large(name, f"keeps {_text(held_bytes)} of state")
        own_bytes = sum(sizes.values())
        has_grown, self._last_bytes = own_bytes > self._last_bytes, own_bytes
        if own_bytes >= LARGE_BYTES and has_grown:
            self._check_machine(max(sizes, key=lambda name: sizes[name]), own_bytes, 0)

    def close(self) -> None:
        self._slot.forget(self._execution_id)
        if self._resident is not None:
            for memory in self._mapped:
                self._resident.remove(memory.mappings)
        self._mapped = []
        self._on_close()

    def _check_room(self, name: str, nbytes: int) -> None:
        if 0 < self._slot.budget_bytes < self._slot.held_bytes + nbytes:
            raise self._too_large(name, f"needs {_text(nbytes)} more for its state")
        if nbytes >= LARGE_BYTES:
            self._check_machine(name, nbytes, nbytes)

    def _too_large(self, name: str, what: str) -> UserError:
        held, budget = _text(self._slot.held_bytes), _text(self._slot.budget_bytes)
        return UserError(
            "SS6260",
            f'operator "{name}" {what}; all state of its slot takes {held} of memory, and may take {budget}',
            hint=HINT,
        )

    def _check_machine(self, name: str, own_bytes: int, needed_bytes: int) -> None:
        memory = self._machine()
        if memory is None:
            return
        scarce_bytes = min(SCARCE_BYTES_MAX, int(SCARCE_PART * memory.total_bytes))
        # A small state does not make memory scarce, and its end would change little.
        if own_bytes < scarce_bytes or memory.available_bytes - needed_bytes >= scarce_bytes:
            return
        what = (
            f"needs {_text(needed_bytes)} more for"
            if needed_bytes
            else f"and others of its task keep {_text(own_bytes)} of"
        )
        raise ExternalError(
            "SS6261",
            f'operator "{name}" {what} state, and of {_text(memory.total_bytes)} of memory '
            f"{_text(memory.available_bytes)} are left",
            hint=HINT,
        )


def unmanaged_memory() -> TaskMemory:
    """That of a task that nobody else shares memory with, without any limit."""
    return TaskMemory("", SlotMemory(0), lambda: None)


def _text(nbytes: int) -> str:
    """
    >>> _text(3 << 20), _text(5 << 29)
    ('3 MB', '2.5 GB')
    """
    return f"{nbytes / (1 << 30):.1f} GB" if nbytes >= 1 << 30 else f"{nbytes >> 20} MB"
