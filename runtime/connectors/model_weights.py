"""Connector `model-weights`: the sink behind the training of a model, whose commits replace the file of the weights."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.files.file_paths import named_paths, table_path, with_absolute_paths
from sqlstream.runtime.host.file_systems import FILE_OPTIONS, check_options, files_of, require_writable_table
from sqlstream.runtime.host.files import file_error
from sqlstream.runtime.models.weights import encode_weights
from sqlstream.specs.train_model import WEIGHTS
from sqlstream.spi.committable import Committable, in_order
from sqlstream.spi.connector import (
    ConnectorContext,
    ConnectorDescriptor,
    OptionDescriptor,
    OptionType,
    Place,
    Writing,
)
from sqlstream.spi.one_sided import SinkOnlyConnector

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.changelog import ChangelogMode
    from sqlstream.schema import Schema
    from sqlstream.specs import SinkSpec
    from sqlstream.spi.files import Files

_PATHS = ("path",)


class ModelWeights(SinkOnlyConnector):
    """The file at `path` is JSON lines, one for each weight (specs.train_model.PUBLISHED), and is replaced at once."""

    descriptor = ConnectorDescriptor(
        WEIGHTS,
        options=(
            OptionDescriptor("path", OptionType.STRING, "The file of the weights.", is_required=True),
            *FILE_OPTIONS,
        ),
        writing=Writing(),
        place=Place(options=_PATHS),
        is_internal=True,
    )

    def validate(
        self, table: str, schema: Schema, options: dict[str, str], partition_keys: tuple[str, ...] = ()
    ) -> None:
        """UserError SS4002 for a path of no file system, SS5085 for one that is only read."""
        table_path(options["path"])
        require_writable_table(options["path"], table)
        check_options(table, options)

    def sink(self, spec: SinkSpec, mode: ChangelogMode, context: ConnectorContext) -> WeightsWriter:
        path, files = table_path(spec.options["path"]), files_of(spec.options, context.files)
        status = files.status(path)
        if status is not None and status.is_directory:
            message = f'model "{spec.table}" cannot be published: "{path}" is a directory'
            hint = "name a file in 'weights.path'; each version takes the place of the one before"
            raise UserError("SS3533", message, hint=hint)
        if status is not None:
            # No pipe or device: the first version would take its place.
            files.open_read(path).close()
        files.require_writable(os.path.dirname(path) or ".")
        return WeightsWriter(context)

    def commit(
        self, spec: SinkSpec, checkpoint_id: int, committables: list[Committable], files: Files
    ) -> None:
        """The newest version alone: those before it were never needed."""
        if committables:
            newest = in_order(committables)[-1]
            path = table_path(spec.options["path"])
            content = str(newest.content["weights"]).encode()
            _replace(path, content, newest.key, files_of(spec.options, files))

    def paths(self, options: Mapping[str, str]) -> tuple[str, ...]:
        return named_paths(options, _PATHS)

    def with_absolute_paths(self, options: Mapping[str, str], directory: str) -> Mapping[str, str]:
        return with_absolute_paths(options, _PATHS, directory)


def _replace(path: str, content: bytes, key: str, files: Files) -> None:
    directory, name = os.path.split(path)
    staged = os.path.join(directory, f".{name}.{key.replace('/', '-')}")
    try:
        with files.open_write(staged) as stream:
            stream.write(content)
            stream.flush()
            files.sync(stream)
    except OSError as error:
        raise file_error("write", staged, error) from error
    files.publish(staged, path)
    files.sync_directory(directory or ".")


class WeightsWriter:
    """State: the rows of the newest version that came since the last checkpoint."""

    def __init__(self, context: ConnectorContext) -> None:
        self._context = context
        self._rows: list[dict[str, Any]] = []

    def write(self, batch: pa.RecordBatch) -> None:
        rows = [*self._rows, *batch.to_pylist()]
        newest = max((row["version"] for row in rows), default=0)
        self._rows = [row for row in rows if row["version"] == newest]

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        rows, self._rows = self._rows, []
        if not rows:
            return []
        around = self._context
        content = {"weights": encode_weights(rows)}
        return [Committable(around.job_id, checkpoint_id, around.writer_name, around.subtask, content)]

    def abort(self) -> None:
        """Nothing was written."""
