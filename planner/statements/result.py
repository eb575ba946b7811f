"""What a statement that is no query gives back: rows to show, and changes for the session to make."""

from __future__ import annotations

import dataclasses

from sqlstream import types as sql
from sqlstream.catalog import CatalogObject, ObjectPath
from sqlstream.expressions import LiteralValue
from sqlstream.schema import Schema


@dataclasses.dataclass(frozen=True)
class PutObject:
    """Add a table or view to the catalog."""

    entry: CatalogObject


@dataclasses.dataclass(frozen=True)
class RemoveObject:
    """Take a table or view out of the catalog."""

    path: ObjectPath


@dataclasses.dataclass(frozen=True)
class SetConfig:
    key: str
    value: str


@dataclasses.dataclass(frozen=True)
class ResetConfig:
    """Back to the default; None is every option."""

    key: str | None


Change = PutObject | RemoveObject | SetConfig | ResetConfig


@dataclasses.dataclass(frozen=True)
class DdlResult:
    """Rows in the encoding of `Literal.value`, and what to change; nothing is changed before the
    session does it. `done` is set when the rows are no answer but a confirmation; `note` is to be told in any case."""

    schema: Schema
    rows: tuple[tuple[LiteralValue, ...], ...]
    changes: tuple[Change, ...] = ()
    done: str = ""
    note: str = ""

    @staticmethod
    def ok(*changes: Change, done: str = "", note: str = "") -> DdlResult:
        """What only confirms: `done` says in words what is done once the changes are made."""
        return DdlResult(Schema.of(("result", sql.STRING)), (("OK",),), changes, done or "OK", note)

    @staticmethod
    def column(name: str, values: list[str]) -> DdlResult:
        return DdlResult(Schema.of((name, sql.STRING)), tuple((v,) for v in values))
