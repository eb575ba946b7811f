"""The measurement behind `main.py exchange`: batches from one thread to another, within a process and between two."""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
from benches.bench_process import BenchProcess
from benches.exchange_end import (
    CAPACITY_BYTES,
    SWITCH_INTERVAL_S,
    BenchEnd,
    Consumer,
    Load,
    Outcome,
    ProcessOrder,
    lost,
    try_to_produce,
)

from sqlstream.errors import JobError
from sqlstream.runtime.host.process import LIBRARY_THREAD_LIMIT
from sqlstream.runtime.host.random import random_id, random_token
from sqlstream.runtime.net.authority import Authority
from sqlstream.runtime.net.channels import Channel
from sqlstream.runtime.net.exchange import PartitionTable, SubpartitionId

PATHS = ("process", "machine", "tcp", "tls", "near")
"""Between two threads of a process, between two processes of a machine, between two processes over TCP on loopback, without and
with encryption, and between two that listen on TCP with encryption and find each other on their machine."""

WARM_UP_S = 0.3
SPACED_BATCHES = 200


@dataclass(frozen=True)
class ExchangeFigure:
    """CPU is that of all threads of a process, per batch; within a process all of it is shown as the sender's. `latency_us` is
    the median from the producer's thread to the consumer's, for one batch each five milliseconds. `threads` are those of Python
    in the consumer's process."""

    path: str
    channels: int
    rows: int
    rows_per_s: int
    sender_cpu_us: float
    receiver_cpu_us: float
    latency_us: float
    threads: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class _Run:
    sent: Outcome
    received: Outcome


def figures(
    paths: list[str],
    channel_counts: list[int],
    batch_rows: list[int],
    seconds: float,
    spaced: int = SPACED_BATCHES,
    warm_up_s: float = WARM_UP_S,
) -> Iterator[ExchangeFigure]:
    """Batches of four BIGINT columns, in turn over all channels, for `seconds` per figure, after `warm_up_s`; then `spaced` of
    them for the latency. JobError SS6063."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    LIBRARY_THREAD_LIMIT.hold()
    try:
        for path in paths:
            with contextlib.closing(_Ends(path)) as ends:
                for channels in channel_counts:
                    for rows in batch_rows:
                        ends.run(Load(random_id(), channels, rows, warm_up_s))
                        steady = ends.run(Load(random_id(), channels, rows, seconds))
                        one_by_one = ends.run(Load(random_id(), channels, rows, 0, spaced))
                        yield _figure(path, channels, rows, steady, one_by_one)
    finally:
        LIBRARY_THREAD_LIMIT.release()
        sys.setswitchinterval(before_s)


def _figure(path: str, channels: int, rows: int, steady: _Run, one_by_one: _Run) -> ExchangeFigure:
    batches = steady.received.batches
    return ExchangeFigure(
        path,
        channels,
        rows,
        round(rows * batches / steady.received.wall_s),
        round(steady.sent.cpu_s * 1e6 / batches, 1),
        round(steady.received.cpu_s * 1e6 / batches, 1),
        round(statistics.median(one_by_one.received.latencies_us), 1),
        steady.received.threads,
    )


class _Ends:
    """Both ends of a path; the consumer is always in this process. State: the producer's process, until `close`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._closing = contextlib.ExitStack()
        self._sender: _SendingProcess | None = None
        if path == "process":
            return
        with contextlib.ExitStack() as opening:
            directory = opening.enter_context(tempfile.TemporaryDirectory(prefix="sqlstream-", dir="/tmp"))
            tls = Authority(directory).own_files(["127.0.0.1"]) if path in ("tls", "near") else None
            order = ProcessOrder(random_token(), directory if path in ("machine", "near") else "", tls)
            self._end = opening.enter_context(contextlib.closing(BenchEnd(order)))
            self._sender = opening.enter_context(contextlib.closing(_SendingProcess(order)))
            self._closing = opening.pop_all()

    def run(self, load: Load) -> _Run:
        consumer = Consumer(load.spaced > 0)
        if self._sender is None:
            return _run_within_process(load, consumer)
        inputs = self._end.inputs(load, self._sender.address, consumer.on_lost)
        self._sender.tell_order(load)
        try:
            received = consumer.consume(inputs)
        except BaseException as error:
            # What it waits for would not come.
            _close(inputs)
            if isinstance(error, JobError):
                self._sender.outcome()
            raise
        return _Run(self._sender.outcome(), received)

    def close(self) -> None:
        self._closing.close()


def _run_within_process(load: Load, consumer: Consumer) -> _Run:
    table = PartitionTable()
    ids = [SubpartitionId(load.job_id, "p", i) for i in range(load.channels)]
    channels = [table.meet(one, CAPACITY_BYTES) for one in ids]
    # The consumer's end of each is the same channel.
    for one in ids:
        table.meet(one, CAPACITY_BYTES)

    def send() -> None:
        outcome = try_to_produce(load, channels)
        if outcome.error:
            consumer.on_lost(outcome.error)

    producer = threading.Thread(target=send, daemon=True)
    cpu_s = time.process_time()
    producer.start()
    try:
        received = consumer.consume(channels)
    except BaseException:
        _close(channels)
        raise
    finally:
        producer.join()
    sent = Outcome(received.batches, received.wall_s, time.process_time() - cpu_s)
    return _Run(sent, msgspec.structs.replace(received, cpu_s=0.0))


def _close(channels: Sequence[Channel]) -> None:
    for channel in channels:
        channel.close()


class _SendingProcess(BenchProcess):
    """The producer in a process of its own. State: that of the process."""

    def __init__(self, order: ProcessOrder) -> None:
        """JobError SS6063 when it does not start."""
        super().__init__("benches.exchange_end", "the process that sends")
        try:
            self.tell_order(order)
            self.address: str = self.answer(str)
        except BaseException:
            self.close()
            raise

    def outcome(self) -> Outcome:
        """That of the last Load. JobError SS6063 when it has failed."""
        found: Outcome = self.answer(Outcome)
        if found.error:
            raise lost(found.error)
        return found

    def tell_order(self, order: msgspec.Struct) -> None:
        self.tell(msgspec.json.encode(order).decode())
