"""From which TaskManager a slot is leased: how load is spread, and which hosts are blocked (Flink: SlotMatchingStrategy,
BlocklistHandler)."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from sqlstream import config as options
from sqlstream.runtime.jobmanager.resources.provisioning import RegisteredTaskManager

HOSTS_SHOWN_MAX = 8

HOSTS_REMEMBERED_MAX = 4096
"""Of so many hosts failures are remembered."""


class LoadBalance(enum.Enum):
    """`taskmanager.load-balance.mode`. NONE: most free slots first. SLOTS: the smallest part of slots in use first.
    MIN_RESOURCES: the fewest free slots first."""

    NONE = "NONE"
    SLOTS = "SLOTS"
    MIN_RESOURCES = "MIN_RESOURCES"


def load_balance_of(config: Mapping[str, str]) -> LoadBalance:
    """The mode that the settings name; cluster.evenly-spread-out-slots is its older form."""
    mode = LoadBalance(options.get(config, "taskmanager.load-balance.mode"))
    is_spread = options.get(config, "cluster.evenly-spread-out-slots")
    if is_spread and "taskmanager.load-balance.mode" not in config:
        return LoadBalance.SLOTS
    return mode


@dataclass(frozen=True)
class BlocklistConfig:
    """A host on which `failures` things have failed within `window_ms` is blocked for `duration_ms`; with 0 none is."""

    failures: int = 3
    window_ms: int = 600_000
    duration_ms: int = 600_000


def host_of(address: str) -> str:
    """Empty for a TaskManager that is reached through a Unix socket: those are all on the host of the JobManager."""
    return urlsplit(address).hostname or ""


class BlockedHosts:
    """A host is blocked when its TaskManagers are lost, or tasks on it fail, again and again, unless another one has half as many
    failures: then the cause is elsewhere. Others are used before a blocked one, which gets tasks when nothing else is free. The
    host of the JobManager, on Unix sockets, is never blocked: there is no other.

    State: the times of the last failures of each host, forgotten with the window, and until when which hosts are blocked."""

    def __init__(self, config: BlocklistConfig) -> None:
        self.config = config
        self._failures_ms: dict[str, deque[int]] = {}
        self._until_ms: dict[str, int] = {}

    def on_failure(self, address: str, now_ms: int) -> bool:
        """Whether the host is blocked by this failure."""
        host, config = host_of(address), self.config
        if not host or not config.failures or self.is_blocked(address, now_ms):
            return False
        times = self._failures_ms.pop(host, deque[int](maxlen=config.failures))
        times.append(now_ms)
        # The newest is the last, so that the first is the one to forget.
        self._failures_ms[host] = times
        while len(self._failures_ms) > HOSTS_REMEMBERED_MAX:
            del self._failures_ms[next(iter(self._failures_ms))]
        if len(times) < config.failures or now_ms - times[0] > config.window_ms:
            return False
        if any(
            2 * self._recent(other, now_ms) >= config.failures for other in self._failures_ms if other != host
        ):
            return False
        del self._failures_ms[host]
        self._until_ms[host] = now_ms + config.duration_ms
        return True

    def _recent(self, host: str, now_ms: int) -> int:
        return sum(now_ms - time_ms <= self.config.window_ms for time_ms in self._failures_ms[host])

    def is_blocked(self, address: str, now_ms: int) -> bool:
        return now_ms < self._until_ms.get(host_of(address), now_ms)

    def forget(self, now_ms: int) -> list[str]:
        """The hosts whose time is over."""
        over = [host for host, until_ms in self._until_ms.items() if now_ms >= until_ms]
        for host in over:
            del self._until_ms[host]
        return over


def choose_task_manager(
    candidates: Iterable[RegisteredTaskManager],
    mode: LoadBalance,
    blocked: BlockedHosts,
    now_ms: int,
    is_gathered: bool,
) -> RegisteredTaskManager:
    """Where the next slot is leased. Some of them have a free slot. `is_gathered`: from the first, as long as it has any."""

    def rank(found: RegisteredTaskManager) -> tuple[bool, float]:
        free = len(found.free_slots())
        is_open = not blocked.is_blocked(found.address, now_ms)
        if is_gathered:
            return is_open, 0
        match mode:
            case LoadBalance.SLOTS:
                return is_open, free / len(found.slots)
            case LoadBalance.MIN_RESOURCES:
                return is_open, -free
        return is_open, free

    return max((found for found in candidates if found.free_slots()), key=rank)


def describe_hosts(found: Iterable[RegisteredTaskManager], blocked: BlockedHosts, now_ms: int) -> str:
    """The slots of the cluster by host, for who waits for some."""
    by_host: dict[str, list[RegisteredTaskManager]] = {}
    for task_manager in found:
        by_host.setdefault(host_of(task_manager.address) or "this host", []).append(task_manager)
    if not by_host:
        return "no TaskManager is registered"
    said, slots, free = [], 0, 0
    for host, there in sorted(by_host.items()):
        own, own_free = sum(len(t.slots) for t in there), sum(len(t.free_slots()) for t in there)
        slots, free = slots + own, free + own_free
        mark = ", blocked" if blocked.is_blocked(there[0].address, now_ms) else ""
        said.append(f"{host} has {own} ({own_free} free{mark})")
    others = f" and {len(said) - HOSTS_SHOWN_MAX} more hosts" if len(said) > HOSTS_SHOWN_MAX else ""
    return f"the cluster has {slots} slots, {free} of them free: {', '.join(said[:HOSTS_SHOWN_MAX])}{others}"
