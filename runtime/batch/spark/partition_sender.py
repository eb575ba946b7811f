"""Sends the rows of one partition to the process of the statement. Runs within a worker of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing.connection import Client

import msgspec
import pyarrow as pa

from sqlstream.runtime.batch.spark.task_arguments import SendArguments


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
