"""Each lock keeps something out: with it two threads may meet anywhere, and without it the explorer finds where they must not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from schedules import Meeting, NoLock, WatchedLock, explore

from sqlstream.client.gateway.operations import Operation
from sqlstream.client.gateway.results import ResultPages
from sqlstream.client.sessions.outcomes import LiteralResults
from sqlstream.errors import UserError
from sqlstream.messages.checkpoint import SavedOperator, StateSegment, TableState
from sqlstream.runtime.memory.resident_limit import ResidentLimit
from sqlstream.runtime.net.streams.byte_stream import TlsLayer
from sqlstream.runtime.providers import local
from sqlstream.runtime.state.logs.chunk_changes import ChunkChanges, ChunkCopy
from sqlstream.runtime.taskmanager.checkpoints.state_write import SegmentChains
from sqlstream.runtime.taskmanager.mailbox import Mailbox

Lock = Callable[[], Any]


def mail_and_a_task_that_begins_to_wait(lock: Lock) -> Meeting:
    box = Mailbox()
    box._lock = lock()
    box._changed = threading.Condition(box._lock)
    seen: list[object] = []

    def check() -> None:
        assert box.take_mail() is not None

    return Meeting(lambda: box.wait(0.001), lambda: box.post(lambda: seen.append(1)), check)


class OneAtATime:
    """A TLS session, which is no place for two threads."""

    def __init__(self) -> None:
        self._is_used = False

    def _use(self) -> None:
        assert not self._is_used, "two threads in one session"
        self._is_used = True
        self._is_used = False

    def write(self, part: memoryview) -> None:
        self._use()

    def read(self, *size: int) -> bytes:
        self._use()
        return b"x"


def a_tls_session_that_sends_and_receives(lock: Lock) -> Meeting:
    layer = TlsLayer.__new__(TlsLayer)
    layer._lock, layer._session = lock(), OneAtATime()  # type: ignore[assignment]
    layer._outgoing = OneAtATime()  # type: ignore[assignment]
    return Meeting(
        lambda: layer.encrypt([memoryview(b"a")]),
        lambda: layer.read_into(memoryview(bytearray(1))),
        lambda: None,
    )


def saved(path: str) -> tuple[SavedOperator, ...]:
    return (SavedOperator(1, (TableState("t", True, (StateSegment(path, 0, 1, 1, 1),)),)),)


def a_checkpoint_that_is_written_as_another_is_completed(lock: Lock) -> Meeting:
    chains = SegmentChains()
    chains._lock = lock()
    chains.add(1, saved("one"))
    chains.add(2, saved("two"))

    def check() -> None:
        assert chains.paths(3) == {"three"}
        assert chains.base() != {}

    return Meeting(lambda: chains.completed(2), lambda: chains.add(3, saved("three")), check)


def chunk(number: int) -> ChunkCopy:
    made = (pa.array([number], pa.int32()), [pa.array([number], pa.int64())])
    return ChunkCopy(number, "whole", 1, lambda: made)


def a_chunk_that_is_copied_as_a_checkpoint_is_completed(lock: Lock) -> Meeting:
    changes = ChunkChanges("log", ["n"])
    changes._lock = lock()
    changes.begin(1, [chunk(1)], is_full=True).collect()
    pending = changes.begin(2, [chunk(1), chunk(2)], is_full=True)

    def check() -> None:
        assert np.array_equal(changes.key_groups(2, "whole"), [2])

    return Meeting(lambda: changes.completed(1), pending.collect, check)


def an_operation_that_ends_as_somebody_begins_to_wait(lock: Lock) -> Meeting:
    operation = Operation("SELECT 1")
    operation._lock = lock()
    operation.accept()
    operation.start()
    told: list[int] = []

    def check() -> None:
        assert told == [1]

    return Meeting(
        lambda: operation.when_settled(lambda: told.append(1)),
        lambda: operation.fail(UserError("SS6021", "it failed")),
        check,
    )


def a_page_that_two_clients_ask_for(lock: Lock) -> Meeting:
    rows = tuple(pa.RecordBatch.from_pydict({"n": [n]}) for n in range(3))
    pages = ResultPages(LiteralResults(rows), 1, 1 << 20)
    pages._lock = lock()
    found: list[list[int]] = []

    def read() -> None:
        found.append([n for batch in pages.page(0).batches for n in batch.column(0).to_pylist()])

    def check() -> None:
        assert found == [[0], [0]]
        assert pages.token == 1

    return Meeting(read, read, check)


class Child:
    """A process that ends when its standard input is closed."""

    pid = 1

    def __init__(self) -> None:
        self.is_closed = False
        self.stdin = self.stdout = self

    def write(self, data: bytes) -> None:
        assert not self.is_closed, "written to as it is ended"

    def flush(self) -> None:
        return None

    def close(self) -> None:
        self.is_closed = True

    def wait(self, timeout_s: float = 0) -> int:
        return 0


class NoThread:
    def __init__(self, **words: object) -> None:
        return None

    def start(self) -> None:
        return None


def a_child_that_is_started_as_all_are_ended(lock: Lock) -> Meeting:
    provider = local.LocalProvider(local.TaskManagerOptions("", "", "", 1, 0, 0, 0), lambda *_: None)
    provider._lock = lock()
    children: list[Child] = []

    def start(*_: object) -> Child:
        children.append(Child())
        return children[-1]

    def request() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(local, "start_child", start)
            patch.setattr(local.threading, "Thread", NoThread)
            provider.request("a")

    def check() -> None:
        assert all(child.is_closed for child in children)

    return Meeting(request, provider.stop, check)


class Mapped:
    address, nbytes, is_read_mostly = 1, 100, False


class Owner:
    def __init__(self) -> None:
        self.mapping = Mapped()

    def live(self) -> list[Mapped]:
        return [self.mapping]


def state_that_goes_as_its_pages_are_counted(lock: Lock) -> Meeting:
    counted: list[Mapped] = []

    class Pages:
        def file_bytes(self) -> int:
            return 0

        def resident_bytes(self, mapping: Mapped) -> Any:
            counted.append(mapping)
            return np.zeros(1, np.int64)

    limit = ResidentLimit(10, Pages(), now_s=lambda: 0.0)  # type: ignore[arg-type]
    limit._lock = lock()
    going, staying = Owner(), Owner()
    limit.add(going)  # type: ignore[arg-type]
    limit.add(staying)  # type: ignore[arg-type]

    def check() -> None:
        assert staying.mapping in counted

    return Meeting(limit.keep, lambda: limit.remove(going), check)  # type: ignore[arg-type]


MEETINGS: dict[str, tuple[Callable[[Lock], Meeting], tuple[str, ...]]] = {
    "mailbox": (mail_and_a_task_that_begins_to_wait, ("taskmanager/mailbox.py",)),
    "byte_stream": (a_tls_session_that_sends_and_receives, ("streams/byte_stream.py", "unit/test_locks.py")),
    "segment_chains": (a_checkpoint_that_is_written_as_another_is_completed, ("state_write.py",)),
    "chunk_changes": (a_chunk_that_is_copied_as_a_checkpoint_is_completed, ("logs/chunk_changes.py",)),
    "operations": (an_operation_that_ends_as_somebody_begins_to_wait, ("gateway/operations.py",)),
    "results": (a_page_that_two_clients_ask_for, ("gateway/results.py",)),
    "local": (a_child_that_is_started_as_all_are_ended, ("providers/local.py",)),
    "resident_limit": (state_that_goes_as_its_pages_are_counted, ("memory/resident_limit.py",)),
}


@pytest.mark.parametrize("name", MEETINGS)
def test_two_threads_may_meet_anywhere(name: str) -> None:
    make, files = MEETINGS[name]
    assert explore(lambda: make(WatchedLock), *files) > 10


@pytest.mark.parametrize("name", MEETINGS)
def test_the_lock_is_missed_when_it_is_taken_away(name: str) -> None:
    make, files = MEETINGS[name]
    with pytest.raises(AssertionError, match="the other thread ran before /"):
        explore(lambda: make(NoLock), *files)
