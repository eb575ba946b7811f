"""Tables whose files must be seen by several machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runtime.connectors import connector
from sqlstream import config as options
from sqlstream.errors import UserError
from sqlstream.specs import InferTableSpec, SinkSpec, SourceSpec
from sqlstream.spi.connector import NamesPaths

Table = SourceSpec | SinkSpec | InferTableSpec

FILES_ARE_SHARED = "execution.batch.spark-files-are-shared"


def refuse_local_files(specs: Iterable[Table], config: Mapping[str, str]) -> None:
    """UserError SS4057 for a table whose files executors on other machines do not see, unless the user says that they do."""
    if options.get(config, FILES_ARE_SHARED):
        return
    for spec in specs:
        named = connector(spec.options["connector"] if isinstance(spec, InferTableSpec) else spec.connector)
        if isinstance(named, NamesPaths) and named.paths(spec.options):
            name = spec.options["path"] if isinstance(spec, InferTableSpec) else spec.table
            raise UserError(
                "SS4057",
                f'table "{name}" has files of this machine, and the Spark cluster has other machines',
                hint=f"put the files where all of them see them under the same path, and SET '{FILES_ARE_SHARED}' = 'true'",
            )
