"""What the tasks in Spark's workers are told, as JSON text."""

from __future__ import annotations

import msgspec

from sqlstream.batch_plan import BatchTable
from sqlstream.runtime.host.rooted_files import FilePlaces
from sqlstream.specs import SinkSpec


class ReadArguments(msgspec.Struct, frozen=True):
    """Read the share of a table that the rows of the task's input name by number. `places`: where files may lie."""

    job_id: str
    attempt: str
    parallelism: int
    config: dict[str, str]
    places: FilePlaces | None
    table: BatchTable


class WriteArguments(msgspec.Struct, frozen=True):
    """Write the rows of the task to a table."""

    job_id: str
    attempt: str
    config: dict[str, str]
    places: FilePlaces | None
    sink: SinkSpec


class SendArguments(msgspec.Struct, frozen=True):
    """Send the task's rows to the process of the statement, at `address`: a path, or host and port."""

    address: str | tuple[str, int]
    secret: str


def encode_arguments(arguments: ReadArguments | WriteArguments | SendArguments) -> str:
    return msgspec.json.encode(arguments).decode()
