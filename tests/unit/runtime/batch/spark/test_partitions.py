"""Rows that tasks send arrive once, in the order of their partitions, and within bounds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from sqlstream.errors import ExternalError, JobError
from sqlstream.runtime.batch.spark import partition_receiver
from sqlstream.runtime.batch.spark.partition_receiver import (
    IN_MEMORY_BYTES_MAX,
    PartitionHead,
    PartitionReceiver,
    PartitionSpool,
    send_partition,
)


def batch_of(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(values, pa.int64())})


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[PartitionReceiver]:
    made = PartitionReceiver(str(tmp_path / "socket"), str(tmp_path))
    yield made
    made.close()


def send(receiver: PartitionReceiver, partition: int, *batches: pa.RecordBatch, attempt: int = 0) -> None:
    send_partition(receiver.send_arguments, partition, attempt, iter(batches))


def values(receiver: PartitionReceiver, partitions: int) -> list[int]:
    batches = receiver.rows(lambda: partitions)
    return [n for batch in batches if batch is not None for n in batch.column(0).to_pylist()]


def test_rows_come_in_the_order_of_partitions(receiver: PartitionReceiver) -> None:
    send(receiver, 2, batch_of(5))
    send(receiver, 0, batch_of(1, 2), batch_of(), batch_of(3))
    send(receiver, 1)
    assert values(receiver, 3) == [1, 2, 3, 5]
    receiver.check_attempts({0: 0, 1: 0, 2: 0})


def test_a_host_and_port_do_as_well(tmp_path: Path) -> None:
    receiver = PartitionReceiver(("127.0.0.1", 0), str(tmp_path))
    send(receiver, 0, batch_of(1))
    assert values(receiver, 1) == [1]
    receiver.close()


def test_senders_are_told_the_host_by_which_they_reach_the_listener(tmp_path: Path) -> None:
    receiver = PartitionReceiver(("127.0.0.1", 0), str(tmp_path), "localhost")
    host, port = receiver.send_arguments.address
    assert host == "localhost"
    assert int(port) > 0
    send(receiver, 0, batch_of(1))
    assert values(receiver, 1) == [1]
    receiver.close()


def test_a_task_that_breaks_off_leaves_no_rows(receiver: PartitionReceiver) -> None:
    told = receiver.send_arguments
    with Client(told.address, authkey=told.secret.encode()) as connection:
        connection.send_bytes(msgspec.json.encode(PartitionHead(0, 7)))
        connection.send_bytes(batch_of().schema.serialize())
        connection.send_bytes(batch_of(1, 2).serialize())
    send(receiver, 0, batch_of(9), attempt=8)
    assert values(receiver, 1) == [9]
    receiver.check_attempts({0: 8})


def test_of_two_complete_attempts_the_last_one_counts(receiver: PartitionReceiver) -> None:
    send(receiver, 0, batch_of(1), attempt=1)
    send(receiver, 0, batch_of(2), attempt=2)
    assert values(receiver, 1) == [2]
    receiver.check_attempts({0: 2})


def test_a_partition_that_is_computed_again_after_it_was_given_fails_the_job(
    receiver: PartitionReceiver,
) -> None:
    send(receiver, 0, batch_of(1), attempt=1)
    assert values(receiver, 1) == [1]
    send(receiver, 0, batch_of(2), attempt=2)
    with pytest.raises(JobError, match="partition 0 of the result again"):
        receiver.check_attempts({0: 2})


def test_a_stranger_without_the_secret_is_refused(receiver: PartitionReceiver) -> None:
    with pytest.raises((AuthenticationError, EOFError, ConnectionError)):
        Client(receiver.send_arguments.address, authkey=b"wrong")
    send(receiver, 0, batch_of(1))
    assert values(receiver, 1) == [1]


def test_a_failure_of_spark_s_job_ends_the_rows(receiver: PartitionReceiver) -> None:
    def total() -> int:
        raise RuntimeError("the job has failed")

    with pytest.raises(RuntimeError, match="the job has failed"):
        list(receiver.rows(total))


@pytest.mark.timeout(60)
def test_the_end_of_spark_s_job_is_not_waited_for(
    receiver: PartitionReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_receiver, "_TICK_S", 600)
    totals: list[int] = []

    def end() -> None:
        totals.append(1)
        receiver.look_again()

    send(receiver, 0, batch_of(1))
    rows = receiver.rows(lambda: totals[0] if totals else None)
    assert next(rows) == batch_of(1)
    threading.Timer(0.1, end).start()
    assert list(rows) == []


def test_while_the_reader_has_rows_to_take_senders_wait(
    receiver: PartitionReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_receiver, "HELD_BYTES_MAX", 100_000)
    large = batch_of(*range(20_000))
    send(receiver, 0, large)
    is_sent = threading.Event()

    def send_second() -> None:
        send(receiver, 1, *([large] * 10))
        is_sent.set()

    threading.Thread(target=send_second, daemon=True).start()
    assert not is_sent.wait(0.5)
    assert len(values(receiver, 2)) == 220_000
    assert is_sent.wait(60)


def test_while_the_next_partition_is_missing_no_sender_waits(
    receiver: PartitionReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_receiver, "HELD_BYTES_MAX", 100_000)
    large = batch_of(*range(20_000))
    for partition in (3, 2, 1):
        send(receiver, partition, large, large)
    send(receiver, 0, large)
    assert len(values(receiver, 4)) == 140_000


def test_what_waits_for_a_missing_partition_has_a_bound(
    receiver: PartitionReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_receiver, "SPOOLED_BYTES_MAX", 200_000)
    with pytest.raises((OSError, EOFError)):
        send(receiver, 1, batch_of(*range(20_000)), batch_of(*range(20_000)))
    with pytest.raises(JobError, match="rows wait for partition 0 of the result") as caught:
        list(receiver.rows(lambda: None))
    assert caught.value.code == "SS6067"


def test_more_senders_than_are_taken_at_a_time_wait(
    receiver: PartitionReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_receiver, "CONNECTIONS_MAX", 2)
    senders = [threading.Thread(target=send, args=(receiver, n, batch_of(n)), daemon=True) for n in range(20)]
    for sender in senders:
        sender.start()
    assert values(receiver, 20) == list(range(20))


def test_a_silent_stranger_is_hung_up_on(
    receiver: PartitionReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_receiver, "HANDSHAKE_TIMEOUT_S", 1)
    with Client(receiver.send_arguments.address) as stranger:
        assert len(stranger.recv_bytes()) > 0
        with pytest.raises((OSError, EOFError)):
            stranger.recv_bytes()
    send(receiver, 0, batch_of(1))
    assert values(receiver, 1) == [1]


def test_closing_wakes_senders_that_wait(
    receiver: PartitionReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_receiver, "HELD_BYTES_MAX", 100_000)
    large = batch_of(*range(20_000))
    send(receiver, 0, large)
    ended: list[BaseException] = []

    def send_second() -> None:
        try:
            send(receiver, 1, *([large] * 1000))
        except (OSError, EOFError) as error:
            ended.append(error)

    sender = threading.Thread(target=send_second, daemon=True)
    sender.start()
    time.sleep(0.1)
    receiver.close()
    sender.join(60)
    assert len(ended) == 1


def test_a_spool_moves_to_a_file_and_back(tmp_path: Path) -> None:
    spool = PartitionSpool(0, str(tmp_path))
    large = pa.record_batch({"n": pa.array(range(100_000), pa.int64())})
    spool.add(large.schema.serialize().to_pybytes())
    count = IN_MEMORY_BYTES_MAX // large.nbytes + 2
    for _ in range(count):
        spool.add(large.serialize().to_pybytes())
    assert spool.size > IN_MEMORY_BYTES_MAX
    assert [b.equals(large) for b in spool.batches()] == [True] * count
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    spool = PartitionSpool(0, str(tmp_path / "missing"))
    large = pa.record_batch({"n": pa.array(range(1_000_000), pa.int64())})
    spool.add(large.schema.serialize().to_pybytes())
    with pytest.raises(ExternalError, match="could not keep rows of the result in"):
        spool.add(large.serialize().to_pybytes())
