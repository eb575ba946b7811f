"""How much memory processes can still have: of the machine, and of the control groups that this process is in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
