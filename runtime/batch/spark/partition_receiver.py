"""Receives the partitions of a query's result from Spark's tasks, and gives them in order."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from typing import IO

import msgspec
import pyarrow as pa

from sqlstream.errors import JobError, SqlStreamError
from sqlstream.runtime.batch.spark.task_arguments import SendArguments
from sqlstream.runtime.host.files import file_error
from sqlstream.runtime.host.random import random_token

IN_MEMORY_BYTES_MAX = 4 * 1024 * 1024
"""What is larger waits in a file."""

_LENGTH_BYTES = 8


class PartitionSpool:
    """The rows of one partition, as one attempt has sent them, until the partition's turn comes.

    They are messages in order, in memory or in a file without a name. State: these, until `close`."""

    def __init__(self, attempt: int, directory: str) -> None:
        self.attempt = attempt
        self.size = 0
        self._directory = directory
        self._schema: pa.Schema | None = None
        # Closed by `close`: it outlives this call.
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(  # noqa: SIM115
            IN_MEMORY_BYTES_MAX, dir=directory
        )

    def add(self, message: bytes) -> int:
        """Keep a message; returns by how many bytes the spool has grown. ExternalError SS5001 for a full disk."""
        if self._schema is None:
            self._schema = pa.ipc.read_schema(pa.py_buffer(message))
            return 0
        try:
            self._file.write(len(message).to_bytes(_LENGTH_BYTES, "big"))
            self._file.write(message)
        except OSError as error:
            raise file_error("keep rows of the result in", self._directory, error) from error
        self.size += len(message)
        return len(message)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches in order, once."""
        self._file.seek(0)
        while length := self._file.read(_LENGTH_BYTES):
            message = self._file.read(int.from_bytes(length, "big"))
            yield pa.ipc.read_record_batch(pa.py_buffer(message), self._schema)

    def close(self) -> None:
        self._file.close()


logger = logging.getLogger(__name__)

HELD_BYTES_MAX = 256 * 1024 * 1024
"""Rows that wait in memory and files before senders wait too."""

SPOOLED_BYTES_MAX = 64 * 1024 * 1024 * 1024
"""Rows that wait in files at most while the next partition is missing, when no sender can be made to wait."""

CONNECTIONS_MAX = 1024
"""Tasks that send at a time; more wait to be accepted."""

HANDSHAKE_TIMEOUT_S = 30
"""How long a sender may be silent before it has shown the secret."""

MESSAGE_BYTES_MAX = 1 << 31
BACKLOG = 64

_TICK_S = 0.1


class PartitionReceiver:
    """Takes the partitions that tasks send, several at a time, and gives their rows by number of the partition.

    What a task has sent counts when it is complete, so that a task which fails and is repeated gives no row twice; of several
    complete attempts at a partition the last one counts until its rows are given. When HELD_BYTES_MAX are held and the next
    partition is among them, tasks wait until the reader takes it. While the next one is still missing no task waits, for it
    may be behind them in Spark's queue; when SPOOLED_BYTES_MAX are held then, the query fails.

    State: spools of incoming and complete partitions, which partition is next, whether the reader is in the middle of one or is
    to look again, and which attempts were given."""

    def __init__(self, address: str | tuple[str, int], directory: str, host: str = "") -> None:
        """Listen at `address`: a path, or host and port. Senders are told the other `host`, if any. OSError."""
        self._directory = directory
        self._secret = random_token()
        is_path = isinstance(address, str)
        self._listener = Listener(address, "AF_UNIX" if is_path else "AF_INET", BACKLOG)
        self._host = host
        self._changed = threading.Condition()
        self._complete: dict[int, PartitionSpool] = {}
        self._given: dict[int, int] = {}
        self._next = 0
        self._is_giving = False
        self._is_to_look = False
        self._held_bytes = 0
        self._connections: set[Connection] = set()
        self._error: SqlStreamError | None = None
        self._is_closed = False
        threading.Thread(target=self._accept, name="spark-results", daemon=True).start()

    @property
    def send_arguments(self) -> SendArguments:
        """What the senders need."""
        address: str | tuple[str, int] = self._listener.address
        if self._host and not isinstance(address, str):
            address = (self._host, address[1])
        return SendArguments(address, self._secret)

    def rows(self, total: Callable[[], int | None]) -> Iterator[pa.RecordBatch | None]:
        """The batches of all partitions in order, and None at least every 100 ms while there is none to give. `total` says how
        many partitions there are once all are complete, and raises when Spark's job has failed."""
        while True:
            with self._changed:
                spool = self._complete.pop(self._next, None)
                if spool is None:
                    self._changed.wait_for(
                        lambda: self._is_to_look or self._next in self._complete or self._error, _TICK_S
                    )
                    self._is_to_look = False
                else:
                    self._given[self._next] = spool.attempt
                    self._next += 1
                    self._is_giving = True
                error = self._error
            if error is not None:
                raise error
            if spool is not None:
                yield from self._batches(spool)
                continue
            count = total()
            if count is not None and self._next >= count:
                return
            yield None

    def look_again(self) -> None:
        """Spark's job has ended, well or not: `rows` asks for the total at once."""
        with self._changed:
            self._is_to_look = True
            self._changed.notify_all()

    def check_attempts(self, attempts: dict[int, int]) -> None:
        """JobError SS6062 when a partition whose rows were given was computed once more, as Spark says; computed anew, its rows
        may be other ones."""
        differing = [p for p, attempt in attempts.items() if self._given.get(p) != attempt]
        if differing:
            raise JobError(
                "SS6062",
                f"Spark computed partition {differing[0]} of the result again after its rows had been given",
            )

    def close(self) -> None:
        """Hang up on all senders and drop what is held. Harmless when repeated."""
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            connections = list(self._connections)
            spools, self._complete = list(self._complete.values()), {}
            self._changed.notify_all()
        _wake_accept(self._listener.address)
        self._listener.close()
        for connection in connections:
            _hang_up(connection)
        for spool in spools:
            spool.close()

    def _batches(self, spool: PartitionSpool) -> Iterator[pa.RecordBatch]:
        try:
            yield from spool.batches()
        finally:
            self._is_giving = False
            self._drop(spool)

    # --- threads of senders

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except (OSError, EOFError):
                if self._is_closed:
                    return
                continue
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or len(self._connections) < CONNECTIONS_MAX)
                if not self._is_closed:
                    self._connections.add(connection)
            if self._is_closed:
                connection.close()
                return
            threading.Thread(
                target=self._serve, args=(connection,), name="spark-partition", daemon=True
            ).start()

    def _serve(self, connection: Connection) -> None:
        """One sender, until its partition is complete or it hangs up."""
        try:
            # The order of multiprocessing.connection.Client with a key.
            _limit_silence(connection, HANDSHAKE_TIMEOUT_S)
            deliver_challenge(connection, self._secret.encode())
            answer_challenge(connection, self._secret.encode())
            _limit_silence(connection, 0)
            self._receive(connection)
        except SqlStreamError as error:
            with self._changed:
                self._error = self._error or error
                self._changed.notify_all()
        except (
            Exception
        ) as error:  # a sender that ends in the middle, or a stranger: Spark repeats the task of ours
            logger.info("a sender of rows went away: %s", error or type(error).__name__)
        finally:
            with self._changed:
                self._connections.discard(connection)
                self._changed.notify_all()
            connection.close()

    def _receive(self, connection: Connection) -> None:
        head = msgspec.json.decode(connection.recv_bytes(MESSAGE_BYTES_MAX), type=PartitionHead)
        spool = PartitionSpool(head.attempt, self._directory)
        try:
            while True:
                self._wait_for_room()
                message = connection.recv_bytes(MESSAGE_BYTES_MAX)
                if not message:
                    break
                size = spool.add(message)
                with self._changed:
                    self._held_bytes += size
                    is_too_much = self._held_bytes > SPOOLED_BYTES_MAX
                if is_too_much:
                    raise _too_much(self._next)
            is_kept = self._keep(head.partition, spool)
        except BaseException:
            self._drop(spool)
            raise
        if not is_kept:
            self._drop(spool)
        connection.send_bytes(b"")

    def _wait_for_room(self) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._is_closed
                    or self._held_bytes < HELD_BYTES_MAX
                    or not (self._is_giving or self._next in self._complete)
                )
            )
            if self._is_closed:
                raise EOFError

    def _keep(self, partition: int, spool: PartitionSpool) -> bool:
        """Take a complete partition. False when its rows were given already, or nobody reads any more."""
        with self._changed:
            if self._is_closed or partition in self._given:
                return False
            before = self._complete.get(partition)
            self._complete[partition] = spool
            self._changed.notify_all()
        if before is not None:
            self._drop(before)
        return True

    def _drop(self, spool: PartitionSpool) -> None:
        spool.close()
        self._let_go(spool.size)

    def _let_go(self, size: int) -> None:
        with self._changed:
            self._held_bytes -= size
            self._changed.notify_all()


def _too_much(missing: int) -> JobError:
    return JobError(
        "SS6067",
        f"{SPOOLED_BYTES_MAX >> 30} GiB of rows wait for partition {missing} of the result, which Spark has not computed yet",
    )


def _limit_silence(connection: Connection, timeout_s: int) -> None:
    """Let reads and writes of the connection fail after this time; 0 lets them wait for ever."""
    limit = struct.pack("ll", timeout_s, 0)
    with socket.socket(fileno=os.dup(connection.fileno())) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def _wake_accept(address: str | tuple[str, int]) -> None:
    """`accept` does not return when another thread closes the socket; a connection makes it look."""
    with contextlib.suppress(OSError):
        Client(address).close()


def _hang_up(connection: Connection) -> None:
    """End the connection under the thread that reads it."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


# Sends the rows of one partition to the process of the statement. Runs within a worker of Spark.


class PartitionHead(msgspec.Struct, frozen=True):
    """The first message of a connection. Behind it come the schema and the batches, each as an Arrow IPC message; an empty
    message ends them, and is answered with an empty one once the rows are kept."""

    partition: int
    attempt: int


def send_partition(
    told: SendArguments, partition: int, attempt: int, batches: Iterator[pa.RecordBatch]
) -> None:
    """Send all batches and return when they are kept. OSError or EOFError when the other side has gone.

    The other side reads when it has room, so this waits with it."""
    with Client(told.address, authkey=told.secret.encode()) as connection:
        connection.send_bytes(msgspec.json.encode(PartitionHead(partition, attempt)))
        schema: pa.Schema | None = None
        for batch in batches:
            if schema is None:
                schema = batch.schema
                connection.send_bytes(schema.serialize())
            if batch.num_rows:
                connection.send_bytes(batch.serialize())
        if schema is None:
            connection.send_bytes(pa.schema([]).serialize())
        connection.send_bytes(b"")
        connection.recv_bytes()
