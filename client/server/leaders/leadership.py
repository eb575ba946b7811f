"""Which of several servers leads: this one waits until it does, says that it lives, and changes what it alone may change."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import re
import secrets
import socket
import threading
from collections.abc import Callable, Mapping

from sqlstream.client.server.leaders.fenced_records import LEADER, Leader, NotLeading, Watch, leader_of
from sqlstream.client.server.leaders.record_store import Program, RecordStore, Result, TimedOut, run
from sqlstream.errors import ExternalError
from sqlstream.runtime.host.clock import steady_s

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class LeaseTimes:
    """Another server takes the place of one that has said nothing for `lease_s`. The leader says something each `period_s`, and
    those that wait look as often; one that the store has not answered for `deadline_s` ends."""

    lease_s: float
    deadline_s: float
    period_s: float


@dataclasses.dataclass(frozen=True)
class Stores:
    """`records` are small and compared with what they were; `large` has what is too large for them."""

    records: RecordStore
    large: RecordStore

    def close(self) -> None:
        self.records.close()
        self.large.close()


class Leadership:
    """A server among those that share these stores. `on_lost` is called once, by any thread, when another server may lead; the
    caller ends the process and writes nothing more.

    State: what this server leads with, and the thread that says that it lives. Thread-safe."""

    def __init__(
        self,
        stores: Stores,
        times: LeaseTimes,
        on_lost: Callable[[], None],
        now_s: Callable[[], float] = steady_s,
    ) -> None:
        self._stores, self._times, self._now_s = stores, times, now_s
        self._on_lost = on_lost
        self._lost = threading.Lock()
        self._changing, self._renewing = threading.Lock(), threading.Lock()
        host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:60]
        self._name = f"{host}-{secrets.token_hex(4)}"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._live, name="leadership", daemon=True)
        self._leader: Leader | None = None

    @property
    def epoch(self) -> int:
        """0 before this server leads; else a number that no server before it has had."""
        return self._leader.epoch if self._leader is not None else 0

    def wait(self, is_stopped: threading.Event, on_waiting: Callable[[], None] = lambda: None) -> bool:
        """Return when this server leads; False when it was stopped before. `on_waiting` is called once when another one leads.
        ExternalError SS6080 when the store cannot be reached at the beginning; later it is asked again and again."""
        watch, is_first, is_told = Watch(self._times.lease_s), True, False
        while not is_stopped.is_set():
            try:
                found = self._stores.records.read(LEADER)
                is_over = watch.is_over(found, self._now_s())
                if leader_of(found).is_free or is_over:
                    leader = Leader(
                        self._name, self._stores.records.bytes_max, self._now_s, self._times.period_s
                    )
                    if self._run(leader.take(found)):
                        self._leader = leader
                        self._thread.start()
                        return True
                elif not is_told:
                    # Not only at first: of several that begin together, all but one come here later.
                    is_told = True
                    on_waiting()
                is_first = False
            except NotLeading:
                continue
            except (ExternalError, TimedOut) as error:
                if is_first:
                    raise error.error if isinstance(error, TimedOut) else error  # noqa: B904
                logger.warning("the store of leaders does not answer: %s", error)
            is_stopped.wait(self._times.period_s / 2)
        return False

    def stop(self) -> None:
        """Let another server lead at once: whatever this one has begun has ended. Harmless when repeated."""
        leads = self._leader is not None and not self._ended.is_set()
        self._ended.set()
        if self._leader is not None and leads:
            self._thread.join()
            with contextlib.suppress(NotLeading, TimedOut):
                self._run(self._leader.release())

    # --- for the one that leads

    def confirm(self) -> None:
        """Return when this server has led after the call began. ExternalError SS6077 when it does not lead any more."""
        leader = self._leading()
        with self._renewing:
            self._fenced(leader.renew())

    def change(self, group: str, changes: Mapping[str, bytes | None]) -> None:
        """Put or remove values of a group. ExternalError SS6077 when another server leads, SS6082 when they are too large."""
        leader = self._leading()
        with self._changing:
            self._fenced(leader.change(group, changes))

    def contents(self) -> dict[str, dict[str, bytes]]:
        """All values by group and name. One that is lost is empty, which the log says. ExternalError SS6077."""
        leader = self._leading()
        with self._changing:
            found = self._fenced(leader.contents())
        self.confirm()
        for group, values in found.items():
            for name in (name for name, data in values.items() if not data):
                logger.error("what the store of leaders has as %s of %s is lost or damaged", name, group)
        return found

    def _leading(self) -> Leader:
        assert self._leader is not None
        return self._leader

    def _fenced(self, program: Program[Result]) -> Result:
        if self._ended.is_set() and self._lost.locked():
            raise no_leader()
        try:
            return self._run(program)
        except ExternalError:
            # Said before anything has changed: it leads.
            raise
        except Exception as error:
            # NotLeading, TimedOut, or a mistake of ours: what became of the last change is not known.
            is_known = isinstance(error, NotLeading | TimedOut)
            logger.critical("this server leads no longer: %s", error, exc_info=None if is_known else error)
            if self._lost.acquire(blocking=False):
                self._ended.set()
                self._on_lost()
            raise no_leader() from error

    def _run(self, program: Program[Result]) -> Result:
        return run(program, self._stores.records, self._stores.large, self._times.deadline_s)

    def _live(self) -> None:
        while not self._ended.wait(self._times.period_s):
            with contextlib.suppress(ExternalError):
                self.confirm()


NO_LEADER = "SS6077"


def no_leader() -> ExternalError:
    return ExternalError(NO_LEADER, "this server leads no longer: another one has taken its jobs")
