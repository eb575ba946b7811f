"""What servers keep in their store, as files in a directory, and the other way round: for backups."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from collections.abc import Iterator

import msgspec

from sqlstream.client.configuration import Configuration
from sqlstream.client.server.leaders.fenced_records import LEADER, LeaderRecord, leader_of, read_groups
from sqlstream.client.server.leaders.leadership import Leadership, Stores
from sqlstream.client.server.leaders.led_files import group_of, put_files
from sqlstream.client.server.leaders.record_store import Conflict, run
from sqlstream.client.server.leaders.stores import Leaders, open_stores
from sqlstream.errors import UserError


@dataclasses.dataclass(frozen=True)
class LeaderStores:
    """The stores of servers of these settings, which `opened` opens and closes."""

    leaders: Leaders
    configuration: Configuration

    @contextlib.contextmanager
    def opened(self, root: str = "") -> Iterator[Stores]:
        """With a `root`, what lies in the directory of these servers is below that instead."""
        leaders = self.leaders
        if root and leaders.directory:
            leaders = dataclasses.replace(leaders, place=root)
        stores = open_stores(leaders, self.configuration)
        try:
            yield stores
        finally:
            stores.close()

    def holder(self) -> LeaderRecord:
        with self.opened() as stores:
            return leader_of(stores.records.read(LEADER))


def holder(stores: LeaderStores) -> str:
    """The server that leads, or has led and was not stopped in order; empty without one."""
    found = stores.holder()
    return "" if found.is_free else found.holder


def led_epoch(stores: LeaderStores) -> int:
    return stores.holder().epoch


def copied_records(stores: LeaderStores, directory: str) -> None:
    """Put all files of the leader into the directory, while it changes them or not: those of a job are of one moment."""
    with stores.opened() as opened:
        groups = run(read_groups(), opened.records, opened.large, stores.leaders.times.deadline_s)
    put_files(groups, directory)


def fill(stores: LeaderStores, root: str, directory: str, epoch: int) -> None:
    """Give a store that has nothing the files below `directory`: the server that starts leads at once, in an epoch behind this
    one. UserError SS6145 when it has something."""
    groups: dict[str, dict[str, bytes | None]] = {}
    for found, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(found, name)
            with open(path, "rb") as stream:
                relative = os.path.relpath(path, directory)
                groups.setdefault(group_of(relative), {})[relative] = stream.read()
    with stores.opened(root) as opened:
        first = LeaderRecord(epoch, "backup", is_released=True)
        try:
            opened.records.write(LEADER, msgspec.msgpack.encode(first), None)
        except Conflict as conflict:
            raise UserError(
                "SS6145",
                "the store of these servers has records already",
                hint="give another high-availability.cluster-id",
            ) from conflict
        leadership = Leadership(opened, stores.leaders.times, lambda: None)
        leadership.wait(threading.Event())
        try:
            for name, values in groups.items():
                leadership.change(name, values)
        finally:
            leadership.stop()
