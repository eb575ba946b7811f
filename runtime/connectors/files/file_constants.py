"""Columns that have one value in all rows of a file: those that its directories stand for, and its metadata."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.runtime.connectors.files.file_options import FileOptions
from sqlstream.runtime.connectors.files.file_paths import is_in_store, partition_values
from sqlstream.runtime.formats.text_values import parse_text
from sqlstream.schema import Field
from sqlstream.specs import SourceSpec
from sqlstream.spi.files import FileStatus


class FileConstants:
    """What paths say of the columns of the table `spec`, whose directories below `root` may stand for columns. No state."""

    def __init__(self, spec: SourceSpec, root: str) -> None:
        self._spec = spec
        self._root = root

    def in_directories(self, path: str) -> dict[str, str]:
        """The columns that stand in the directories of a file, with their texts: the file itself does not have them."""
        found = partition_values(path, self._root)
        return {name: value for name, value in found.items() if name in self._spec.schema.names}

    def of(self, status: FileStatus) -> dict[str, pa.Scalar]:
        """The values of a file by column name or metadata key. UserError SS5011 for a directory that is no value of its
        column."""
        in_directories = self._partition_scalars(self.in_directories(status.path), status.path)
        return {**in_directories, **_metadata(self._spec.metadata, status)}

    def _partition_scalars(self, values: dict[str, str], path: str) -> dict[str, pa.Scalar]:
        default = FileOptions.of(self._spec.options).default_partition_name
        schema = self._spec.schema
        scalars = {}
        for name, text in values.items():
            t = schema.types[schema.index_of(name)]
            try:
                scalars[name] = parse_text(pa.array([None if text == default else text], pa.string()), t)[0]
            except pa.ArrowInvalid as error:
                raise UserError(
                    "SS5011",
                    f'the directory "{name}={text}" of "{path}" is no {t.with_nullable(True)}',
                    hint=f'declare column "{name}" with a type that fits',
                ) from error
        return scalars


def _metadata(fields: tuple[Field, ...], status: FileStatus) -> dict[str, pa.Scalar]:
    path = status.path if is_in_store(status.path) else os.path.abspath(status.path)
    values = {
        "file.path": path,
        "file.name": os.path.basename(path),
        "file.size": status.size,
        "file.modification-time": status.modified_ms,
    }
    return {f.name: _metadata_scalar(values[f.name], f) for f in fields if f.name in values}


def _metadata_scalar(value: Any, field: Field) -> pa.Scalar:
    natural = pa.timestamp("ms", "UTC") if field.name == "file.modification-time" else None
    return pa.scalar(value, natural).cast(to_arrow_type(field.type))
