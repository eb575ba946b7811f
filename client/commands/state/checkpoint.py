"""The checkpoint that a command of `sqlstream state` is given, and its rows as text."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlstream.client.arguments import add_configuration_arguments, configuration_of
from sqlstream.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.runtime.checkpoint.saved_tables import SavedTables


def add_checkpoint_arguments(parser: argparse.ArgumentParser, *names: str) -> None:
    """Arguments for checkpoints of these names, and for the settings of the command."""
    for name in names:
        parser.add_argument(
            name,
            metavar=name.upper(),
            help="the directory of a checkpoint or savepoint, or its _metadata; of a job's checkpoints the newest",
        )
    add_configuration_arguments(parser)


def settings_of(arguments: argparse.Namespace) -> Mapping[str, str]:
    configuration = configuration_of(arguments)
    for note in configuration.notes:
        print(note, file=sys.stderr)
    return configuration.for_target


def open_checkpoint(path: str, settings: Mapping[str, str]) -> SavedTables:
    """Of a job's directory the newest one, which a job that runs replaces all the time: standard error says which, and what is
    newer and torn. UserError SS6212 for a path without a checkpoint, ExternalError SS6210 for a torn one."""
    from sqlstream.runtime.checkpoint.checkpoint_directory import CheckpointDirectory, load_checkpoint
    from sqlstream.runtime.checkpoint.checkpoint_store import checkpoint_files
    from sqlstream.runtime.checkpoint.saved_tables import SavedTables
    from sqlstream.runtime.connectors.files.file_paths import table_path

    place = table_path(path)
    files = checkpoint_files(place, settings)
    try:
        return SavedTables(files, load_checkpoint(files, place))
    except UserError as error:
        if error.code != "SS6212":
            raise
        retained = CheckpointDirectory(files, place).retained()
        if not retained.checkpoints:
            if retained.faults:
                raise retained.faults[0].error from error
            raise
        newest = retained.checkpoints[0]
        for fault in retained.faults:
            if fault.checkpoint_id > newest.manifest.checkpoint_id:
                print(f"checkpoint {fault.checkpoint_id} is left out: {fault.error.message}", file=sys.stderr)
        print(f"read: {newest.path}", file=sys.stderr)
        return SavedTables(files, newest)


def write_rows(batches: Any, schema: pa.Schema, format_name: str) -> None:
    """Arrow rows in one of the formats of results; values of types that SQL does not have as text."""
    from sqlstream.arrow import to_arrow_schema
    from sqlstream.client.rendering.render import make_renderer
    from sqlstream.client.rendering.tables import Look
    from sqlstream.client.rendering.terminal import columns_of
    from sqlstream.runtime.formats.columnar.stored_types import sql_type
    from sqlstream.schema import Schema
    from sqlstream.types import STRING

    fields = Schema.of(*((field.name, sql_type(field.type) or STRING) for field in schema))
    target = to_arrow_schema(fields)
    renderer = make_renderer(
        format_name,
        Look(fields, columns=columns_of(sys.stdout)),
        with_op=False,
        wraps=format_name == "table",
    )
    for batch in batches:
        renderer.write(_cast(batch, target))
    renderer.finish()


def _cast(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    columns = []
    for column, field in zip(batch.columns, target, strict=True):
        if pa.types.is_string(field.type) and not pa.types.is_string(column.type):
            columns.append(_texts(column))
        else:
            columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _texts(column: pa.Array) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_large_string(column.type) or pa.types.is_dictionary(column.type):
        return column.cast(pa.string())
    return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
