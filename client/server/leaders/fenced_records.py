"""Which server leads, and records that it alone can change: decisions over a store with compare-and-set, without a clock.

Three kinds of records:

    leader      who leads, in which epoch, and a count that changes while it lives
    index       the names of the groups that there are, and the key of each
    <e>-<n>     one group of values, such as those of a job, under a key that is never used again

A server leads from the moment on at which it has replaced `leader` by its own next epoch: of several, one alone can. Before it
acts it seals: it writes the index again, and then each group in it, with its epoch and the same content. From then on all that
the leader before still sends fails, since it expects a version that is gone: it can neither change a group, nor add or remove
one, which is a change of the index. What it had written before counts, and is read while sealing. Values that are large lie in a
second store under keys that are never used again either, so that whoever removes one removes nothing that another has written.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from sqlstream.bounds import Count
from sqlstream.client.server.leaders.record_store import (
    Conflict,
    ListKeys,
    Pause,
    Program,
    Read,
    ReadAll,
    Record,
    Remove,
    Write,
)
from sqlstream.errors import ExternalError

logger = logging.getLogger(__name__)

Kind = TypeVar("Kind")

LEADER, INDEX = "leader", "index"
INLINE_BYTES_MAX = 2048
"""What is larger lies in the store of large values, so that it is not written again with each change of its group."""

INLINE_OF_A_GROUP_BYTES_MAX, ALWAYS_INLINE_BYTES_MAX = 64 << 10, 128
"""What is beyond this of a group does too, but for what is as small as the key by which it would be found."""

_READ_AT_ONCE = 64
_ENVELOPE_BYTES, _KEY_CHARACTERS_MAX = 256, 48


class NotLeading(Exception):
    """Another server leads, or may."""


class LeaderRecord(msgspec.Struct, frozen=True):
    epoch: Count
    holder: str
    count: Count = 0
    is_released: bool = False

    @property
    def is_free(self) -> bool:
        """Whether nobody leads."""
        return self.is_released or self.epoch == 0


class _Envelope(msgspec.Struct, frozen=True):
    """What a record holds. Two of them are never the same: so a version stands for one write, also where it is a digest."""

    epoch: Count
    holder: str
    number: Count
    content: msgspec.Raw


class _Value(msgspec.Struct, frozen=True, array_like=True):
    """`key` is that of a large value, `digest` its SHA-256."""

    data: bytes
    key: str = ""
    digest: bytes = b""


@dataclasses.dataclass
class _Group:
    key: str
    version: str
    values: dict[str, _Value]


def leader_of(found: Record | None) -> LeaderRecord:
    """ExternalError SS6081 for a record that no server has written."""
    return _decoded(found.data, LeaderRecord, LEADER) if found is not None else LeaderRecord(0, "")


class Watch:
    """Tells by this server's own clock when another one has said nothing for the lease: no clocks are compared. State: the
    version that was seen last, and since when."""

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._seen: tuple[str, float] | None = None

    def is_over(self, found: Record | None, now_s: float) -> bool:
        version = found.version if found is not None else ""
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, now_s)
        return now_s - self._seen[1] > self._lease_s


class Leader:
    """One server that leads, or is about to: programs that change what it alone may change.

    Each is to be run to its end before the next one begins, but `renew`, which may run beside others. NotLeading and TimedOut end
    the leader: what became of its last change is not known to it, and it must do nothing more. While it takes the
    place of another one, it says each `period_s` by the clock `now_s` that it lives. State: what the store holds."""

    def __init__(self, holder: str, bytes_max: int, now_s: Callable[[], float], period_s: float) -> None:
        self.holder = holder
        self.epoch = 0
        self._bytes_max = bytes_max
        self._now_s, self._period_s, self._said_s = now_s, period_s, 0.0
        self._number = 0
        self._leader_version = ""
        self._count = 0
        self._index_version: str | None = None
        self._groups: dict[str, _Group] = {}

    # --- who leads

    def take(self, found: Record | None) -> Program[bool]:
        """Lead from now on, in the place of what was found; False when another one was faster."""
        mine = LeaderRecord(leader_of(found).epoch + 1, self.holder)
        self._said_s = self._now_s()
        try:
            expected = found.version if found is not None else None
            self._leader_version = yield from _written(LEADER, msgspec.msgpack.encode(mine), expected)
        except Conflict:
            return False
        self.epoch = mine.epoch
        yield from self._seal()
        yield from self._sweep()
        return True

    def renew(self) -> Program[None]:
        """Say that this server lives. When it returns, the server has led after it was called."""
        yield from self._say(is_released=False)

    def release(self) -> Program[None]:
        """Let another one lead at once: nothing comes after this."""
        yield from self._say(is_released=True)

    def _renew_if_due(self) -> Program[None]:
        """What has as many steps as there are records may take longer than the lease."""
        if self._now_s() - self._said_s >= self._period_s:
            yield from self.renew()

    def _say(self, is_released: bool) -> Program[None]:
        self._count += 1
        self._said_s = self._now_s()
        record = LeaderRecord(self.epoch, self.holder, self._count, is_released)
        try:
            self._leader_version = yield from _written(
                LEADER, msgspec.msgpack.encode(record), self._leader_version
            )
        except Conflict as conflict:
            raise NotLeading from conflict

    def _seal(self) -> Program[None]:
        names, self._index_version = yield from self._sealed_index()
        for name, key in names.items():
            yield from self._renew_if_due()
            found = yield from self._sealed(key)
            if found is None:
                # Who led before removes a name before its record: a later leader has, or somebody else.
                yield from self.renew()
                logger.error("the record %s of %s is gone from the store", key, name)
                continue
            content, version = found
            self._groups[name] = _Group(key, version, _decoded(content, dict[str, _Value], key))

    def _sealed_index(self) -> Program[tuple[dict[str, str], str]]:
        while True:
            found = yield from self._sealed(INDEX)
            if found is not None:
                return _decoded(found[0], dict[str, str], INDEX), found[1]
            try:
                return {}, (yield from self._put(INDEX, msgspec.msgpack.encode({}), None))
            except Conflict:
                continue

    def _sealed(self, key: str) -> Program[tuple[bytes, str] | None]:
        """The content of a record, whose version the leader before does not know any more."""
        while True:
            found = yield from _read(key)
            if found is None:
                return None
            envelope = _decoded(found.data, _Envelope, key)
            if envelope.epoch > self.epoch:
                raise NotLeading
            try:
                content = bytes(envelope.content)
                return content, (yield from self._put(key, content, found.version))
            except Conflict:
                continue

    def _sweep(self) -> Program[None]:
        """Remove what earlier leaders have left when they ended: nothing names it."""
        known = {LEADER, INDEX} | {group.key for group in self._groups.values()}
        known_large = {value.key for group in self._groups.values() for value in group.values.values()}
        for is_large, needed in ((False, known), (True, known_large)):
            try:
                keys = yield ListKeys(is_large)
            except ExternalError as error:
                logger.warning("what earlier leaders have left stays: %s", error.message)
                continue
            for key in keys:
                yield from self._renew_if_due()
                epoch = key.partition("-")[0]
                if key not in needed and epoch.isdigit() and int(epoch) < self.epoch:
                    yield from _removed(key, is_large)

    # --- what it alone may change

    def contents(self) -> Program[dict[str, dict[str, bytes]]]:
        """All values by group and name; one that is lost or damaged is empty, and so is one that a later leader has removed."""
        return (yield from _contents({name: group.values for name, group in self._groups.items()}))

    def change(self, name: str, changes: Mapping[str, bytes | None]) -> Program[None]:
        """Put these values of a group, or remove them where they are None: all or none. A group without values is none.
        ExternalError SS6082, before anything has changed, when it would be larger than a record may be."""
        before = self._groups.get(name)
        values = dict(before.values) if before is not None else {}
        replaced = [values[n].key for n in changes if n in values and values[n].key]
        try:
            inline_bytes = sum(len(value.data) for value in values.values())
            for value_name, data in changes.items():
                if (old := values.pop(value_name, None)) is not None:
                    inline_bytes -= len(old.data)
                if data is not None:
                    values[value_name] = yield from self._value(data, inline_bytes)
                    inline_bytes += len(values[value_name].data)
        except Conflict as conflict:
            # A later leader has removed it: nothing names it yet.
            raise NotLeading from conflict
        content = msgspec.msgpack.encode(values)
        if values and (refusal := self._refusal(name, content)) is not None:
            for key in (values[n].key for n in changes if n in values and values[n].key):
                yield from _removed(key, is_large=True)
            raise refusal
        try:
            if not values:
                yield from self._drop(name)
            elif before is not None:
                before.version = yield from self._put(before.key, content, before.version)
                before.values = values
            else:
                yield from self._add(name, content, values)
        except Conflict as conflict:
            raise NotLeading from conflict
        for key in replaced:
            yield from _removed(key, is_large=True)

    def _refusal(self, name: str, content: bytes) -> ExternalError | None:
        """Why a group cannot have this content: it, or the index with a group more, is larger than a record."""
        found = {f'"{name}"': len(content)}
        if name not in self._groups:
            names = {**self._names(), name: "-" * _KEY_CHARACTERS_MAX}
            found["the list of all that is kept"] = len(msgspec.msgpack.encode(names))
        for what, size in found.items():
            if size + _ENVELOPE_BYTES > self._bytes_max:
                return ExternalError(
                    "SS6082", f"{what} would take {size} bytes in the store of leaders, which allows {self._bytes_max}"
                )  # fmt: skip
        return None

    def _add(self, name: str, content: bytes, values: dict[str, _Value]) -> Program[None]:
        key = self._next_key()
        version = yield from self._put(key, content, None)
        # It is there from here on.
        yield from self._name_groups({**self._names(), name: key})
        self._groups[name] = _Group(key, version, values)

    def _drop(self, name: str) -> Program[None]:
        group = self._groups.get(name)
        if group is None:
            return
        yield from self._name_groups({n: key for n, key in self._names().items() if n != name})
        del self._groups[name]
        yield from _removed(group.key, is_large=False)

    def _names(self) -> dict[str, str]:
        return {name: group.key for name, group in self._groups.items()}

    def _name_groups(self, names: dict[str, str]) -> Program[None]:
        self._index_version = yield from self._put(INDEX, msgspec.msgpack.encode(names), self._index_version)

    def _value(self, data: bytes, inline_bytes: int) -> Program[_Value]:
        """`inline_bytes` are those of the other values of its group."""
        room = max(INLINE_OF_A_GROUP_BYTES_MAX - inline_bytes, ALWAYS_INLINE_BYTES_MAX)
        if len(data) <= min(INLINE_BYTES_MAX, room):
            return _Value(data)
        key = self._next_key()
        yield from _written(key, data, None, is_large=True)
        return _Value(b"", key, hashlib.sha256(data).digest())

    def _next_key(self) -> str:
        self._number += 1
        return f"{self.epoch}-{self._number}-{self.holder[-8:]}"

    def _put(self, key: str, content: bytes, expected: str | None) -> Program[str]:
        self._number += 1
        envelope = _Envelope(self.epoch, self.holder, self._number, msgspec.Raw(content))
        return (yield from _written(key, msgspec.msgpack.encode(envelope), expected))


def read_groups() -> Program[dict[str, dict[str, bytes]]]:
    """The same for somebody who does not lead, while others change them: each group is of one moment."""
    index = yield from _read(INDEX)
    if index is None:
        return {}
    envelope = _decoded(index.data, _Envelope, INDEX)
    groups: dict[str, dict[str, bytes]] = {}
    for name, key in _decoded(envelope.content, dict[str, str], INDEX).items():
        while (record := (yield from _read(key))) is not None:
            content = _decoded(record.data, _Envelope, key).content
            found = yield from _contents({name: _decoded(content, dict[str, _Value], key)})
            again = yield from _read(key)
            if again is not None and again.version == record.version:
                # Nothing that it names was replaced meanwhile.
                groups |= found
                break
    return groups


def _contents(groups: Mapping[str, Mapping[str, _Value]]) -> Program[dict[str, dict[str, bytes]]]:
    found = {name: {n: value.data for n, value in values.items()} for name, values in groups.items()}
    large = [(name, n, value) for name, values in groups.items() for n, value in values.items() if value.key]
    for first in range(0, len(large), _READ_AT_ONCE):
        some = large[first : first + _READ_AT_ONCE]
        records = yield from _read_large(tuple(value.key for _, _, value in some))
        for (name, n, value), record in zip(some, records, strict=True):
            data = record.data if record is not None else b""
            found[name][n] = data if hashlib.sha256(data).digest() == value.digest else b""
    return found


def _written(key: str, data: bytes, expected: str | None, is_large: bool = False) -> Program[str]:
    """The version of a record that was not written before with this content. Conflict when it is not the expected one."""
    while True:
        try:
            version: str = yield Write(key, data, expected, is_large)
            return version
        except Conflict:
            # An earlier try may have had its effect, although no answer came.
            found = yield from _read(key, is_large)
            if found is not None and found.data == data:
                return found.version
            raise
        except ExternalError as error:
            yield Pause(error)


def _read(key: str, is_large: bool = False) -> Program[Record | None]:
    while True:
        try:
            found: Record | None = yield Read(key, is_large)
            return found
        except ExternalError as error:
            yield Pause(error)


def _read_large(keys: tuple[str, ...]) -> Program[list[Record | None]]:
    while True:
        try:
            found: list[Record | None] = yield ReadAll(keys, is_large=True)
            return found
        except ExternalError as error:
            yield Pause(error)


def _removed(key: str, is_large: bool) -> Program[None]:
    try:
        yield Remove(key, is_large)
    except ExternalError as error:
        logger.warning("%s is left over in the store of leaders: %s", key, error.message)


def _decoded(data: bytes, kind: type[Kind], key: str) -> Kind:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ExternalError(
            "SS6081", f'could not read the record "{key}" in the store of leaders: {error}'
        ) from error
