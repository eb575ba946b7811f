"""Spec of a source that infers a table from files, and the shape of its answer."""

from __future__ import annotations

import msgspec

from sqlstream.catalog.objects import InferredTable
from sqlstream.errors import ErrorInfo
from sqlstream.schema import Schema
from sqlstream.specs.spec import OperatorSpec
from sqlstream.types import STRING

ANSWER = Schema.of(("answer", STRING))


class InferTableSpec(OperatorSpec, frozen=True, tag="infer_table"):
    """Output: one row of `ANSWER`, an `InferenceAnswer` as JSON. `options` are those of the table, with its `path`. Without
    `format` it is found by the suffix of the files."""

    options: dict[str, str]


class InferenceAnswer(msgspec.Struct, frozen=True):
    """The format and the table, or the error that says why there is none. A table that cannot be inferred is no error where only
    the format was asked for."""

    format: str = ""
    table: InferredTable | None = None
    error: ErrorInfo | None = None
