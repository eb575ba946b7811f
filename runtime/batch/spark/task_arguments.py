"""What the tasks in Spark's workers are told, as JSON text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from sqlstream import config as options
from sqlstream.batch_plan import BatchTable
from sqlstream.errors import UserError
from sqlstream.runtime.host.rooted_files import FilePlaces
from sqlstream.specs import InferTableSpec, SinkSpec, SourceSpec
from sqlstream.spi.connector import NamesPaths


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


# Tables, checkpoints and savepoints whose files must be seen by several machines. Workers never ask, and load nothing for it.


Table = SourceSpec | SinkSpec | InferTableSpec

FILES_ARE_SHARED = "execution.files-are-shared"


def refuse_local_files(specs: Iterable[Table], config: Mapping[str, str]) -> None:
    """UserError SS4057 for a table whose files executors on other machines do not see, unless the user says that they do."""
    if options.get(config, FILES_ARE_SHARED):
        return
    from sqlstream.runtime.connectors import connector

    for spec in specs:
        named = connector(spec.options["connector"] if isinstance(spec, InferTableSpec) else spec.connector)
        if isinstance(named, NamesPaths) and named.paths(spec.options):
            name = spec.options["path"] if isinstance(spec, InferTableSpec) else spec.table
            raise _refusal(f'table "{name}" has files of this machine')


def refuse_local_checkpoints(config: Mapping[str, str]) -> None:
    """UserError SS4057 for a directory of checkpoints or savepoints, or one to go on from, that executors on other machines do
    not see, unless the user says that they do."""
    from sqlstream.runtime.checkpoint.places import PLACE_KEYS

    for key in PLACE_KEYS:
        if options.get(config, key):
            refuse_local_directory(f'option "{key}"', options.get(config, key), config)


def refuse_local_directory(what: str, path: str, config: Mapping[str, str]) -> None:
    """The same for one path; `what` names it in the error."""
    from sqlstream.runtime.host.file_systems import is_in_store

    if not is_in_store(path) and not options.get(config, FILES_ARE_SHARED):
        raise _refusal(f'{what} is the directory "{path}" of this machine')


def _refusal(what: str) -> UserError:
    return UserError(
        "SS4057",
        f"{what}, and the cluster has other machines",
        hint=f"put the files where all of them see them under the same path, and SET '{FILES_ARE_SHARED}' = 'true'",
    )
