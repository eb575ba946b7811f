"""The result of a statement that runs no job: rows to show, and changes that the session makes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlstream import types as sql
from sqlstream.catalog import CatalogChange
from sqlstream.expressions import LiteralValue
from sqlstream.schema import Schema
from sqlstream.secrets import masked


@dataclasses.dataclass(frozen=True)
class SetConfig:
    key: str
    value: str


@dataclasses.dataclass(frozen=True)
class ResetConfig:
    """Reset an option to its default; None resets all."""

    key: str | None


Change = CatalogChange | SetConfig | ResetConfig


@dataclasses.dataclass(frozen=True)
class DdlResult:
    """Rows in the encoding of `Literal.value`, and the changes, which the session makes. `done` is a confirmation, set when
    there is no answer in rows; `note` is shown to the user in any case."""

    schema: Schema
    rows: tuple[tuple[LiteralValue, ...], ...]
    changes: tuple[Change, ...] = ()
    done: str = ""
    note: str = ""

    @staticmethod
    def ok(*changes: Change, done: str = "", note: str = "") -> DdlResult:
        """The result of a statement without an answer in rows: `done` describes the changes once they are made."""
        return DdlResult(Schema.of(("result", sql.STRING)), (("OK",),), changes, done or "OK", note)

    @staticmethod
    def info(rows: list[tuple[str, str | None]]) -> DdlResult:
        """Properties by name, in the columns of Flink's DESCRIBE CATALOG."""
        return DdlResult(Schema.of(("info name", sql.STRING), ("info value", sql.STRING)), tuple(rows))

    @staticmethod
    def column(name: str, values: list[str]) -> DdlResult:
        return DdlResult(Schema.of((name, sql.STRING)), tuple((v,) for v in values))


# Names and texts as SQL writes them.


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def options_clause(options: Mapping[str, str]) -> str:
    """WITH as SHOW CREATE has it: keys in order, values of secrets masked."""
    written = ",\n".join(f"  {literal(k)} = {literal(masked(k, v))}" for k, v in sorted(options.items()))
    return f"WITH (\n{written}\n)\n"
