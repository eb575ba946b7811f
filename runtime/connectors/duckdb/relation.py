"""A table of connector `duckdb` as a FROM item of DuckDB's SQL, with its columns checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlstream.errors import UserError, did_you_mean
from sqlstream.runtime.connectors.duckdb.database import Reading, table_of
from sqlstream.runtime.connectors.duckdb.options import Place, PlaceKind
from sqlstream.runtime.connectors.duckdb.types import can_read, type_name, without_length
from sqlstream.runtime.connectors.sql_filters import quote, text
from sqlstream.schema import Field
from sqlstream.specs import SourceSpec
from sqlstream.types import LogicalType, TypeRoot


@dataclass(frozen=True)
class Relation:
    """`item` stands in FROM; `columns` are the wanted ones with their declared types. `has_row_ids`: it is a table of a DuckDB
    file, whose rows can be read in ranges."""

    item: str
    columns: tuple[tuple[str, LogicalType], ...]
    has_row_ids: bool = False

    def select(self, columns: Sequence[str], prefix: str = "") -> str:
        """The SELECT list of these columns."""
        return ", ".join(f"{prefix}{quote(name)}" for name in columns)


def open_relation(place: Place, spec: SourceSpec, reading: Reading) -> Relation:
    """The relation, over which all columns of the spec can be read. UserError SS5062 for a table or column that is not there or
    has another type."""
    connection, alias, paths = reading
    types = dict(zip(spec.schema.names, spec.schema.types, strict=True))
    wanted = tuple((name, types[name]) for name in spec.columns)
    if place.kind.is_files:
        item = files_item(place, spec, connection, paths)
        return Relation(item, wanted)
    item = table_of(place, alias)
    check_table(place, connection, alias)
    stored = described(connection, item)
    check_columns(place, spec.table, wanted, stored)
    has_row_ids = place.kind is PlaceKind.DUCKDB and is_table(place, connection, alias)
    return Relation(with_texts(item, wanted, stored, has_row_ids), wanted, has_row_ids)


def with_texts(
    item: str, wanted: Iterable[tuple[str, LogicalType]], stored: dict[str, str], has_row_ids: bool = False
) -> str:
    """The FROM item with columns of text for those that are declared so. DuckDB compares a UUID or ENUM with a text by reading
    the text as one, which fails for some texts and makes others equal."""
    names = [
        (n, type_name(t)) for n, t in wanted if _is_text(t) and without_length(stored[n]) != type_name(t)
    ]
    if not names:
        return item
    texts = ", ".join(f"CAST({quote(name)} AS {of_text}) AS {quote(name)}" for name, of_text in names)
    return f"(SELECT {'rowid, ' if has_row_ids else ''}* REPLACE ({texts}) FROM {item})"


def _is_text(t: LogicalType) -> bool:
    return (t.element or t).root in (TypeRoot.CHAR, TypeRoot.VARCHAR)


def described(connection: Any, item: str) -> dict[str, str]:
    """The columns of a FROM item with DuckDB's types."""
    return {row[0]: row[1] for row in connection.execute(f"DESCRIBE SELECT * FROM {item}").fetchall()}


def check_columns(
    place: Place, table: str, wanted: Iterable[tuple[str, LogicalType]], stored: dict[str, str]
) -> None:
    """UserError SS5062 for a column that is not among the stored ones, or cannot be read as its declared type."""
    for name, declared in wanted:
        _check_column(place, table, name, declared, stored)


def files_item(place: Place, spec: SourceSpec, connection: Any, paths: Sequence[str]) -> str:
    """The files are listed one by one, so that DuckDB opens none but those that may be read."""
    listed = f"[{', '.join(text(path) for path in paths)}]"
    fields = spec.schema.fields
    if place.kind is PlaceKind.PARQUET:
        item = f"read_parquet({listed})"
        types = {f.name: f.type for f in fields}
        wanted, stored = [(n, types[n]) for n in spec.columns], described(connection, item)
        check_columns(place, spec.table, wanted, stored)
        return with_texts(item, wanted, stored)
    if place.kind is PlaceKind.JSON:
        return f"read_json({listed}, columns = {_columns(fields)}, format = 'newline_delimited')"
    syntax = f"delim = {text(place.delimiter)}, quote = '\"', escape = '\"'"
    if not place.has_header:
        return (
            f"read_csv({listed}, {syntax}, header = false, auto_detect = false, columns = {_columns(fields)})"
        )
    # By name: the file may have other columns, in another order.
    named = f"read_csv({listed}, {syntax}, header = true"
    present_columns = described(connection, f"{named}, all_varchar = true)")
    for name in spec.columns:
        if name not in present_columns:
            raise _missing(place, spec.table, name, present_columns)
    return f"{named}, types = {_columns([f for f in fields if f.name in spec.columns])})"


def _columns(fields: Sequence[Field]) -> str:
    return "{" + ", ".join(f"{text(f.name)}: {text(type_name(f.type))}" for f in fields) + "}"


def check_table(place: Place, connection: Any, alias: str) -> None:
    schema = place.schema or ("main" if place.kind is PlaceKind.DUCKDB else "")
    present = connection.execute(
        "SELECT schema_name, table_name FROM (SELECT database_name, schema_name, table_name FROM duckdb_tables()"
        " UNION ALL SELECT database_name, schema_name, view_name FROM duckdb_views()) WHERE database_name = ?",
        [alias],
    ).fetchall()
    names = [table for found, table in present if not schema or found == schema]
    if place.table not in names and place.table.lower() not in [n.lower() for n in names]:
        raise UserError(
            "SS5062",
            f'there is no table {place.name} in "{place.path}"',
            hint=did_you_mean(place.table, sorted(set(names)))
            or (
                f"its tables are {', '.join(sorted(set(names))[:20])}"
                if names
                else "the database has no tables"
            ),
        )


def is_table(place: Place, connection: Any, alias: str) -> bool:
    """Whether it is a table and not a view."""
    found = connection.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND lower(table_name) = lower(?)",
        [alias, place.schema or "main", place.table],
    ).fetchall()
    return bool(found[0][0])


def _check_column(place: Place, table: str, name: str, declared: LogicalType, stored: dict[str, str]) -> None:
    where = _where(place)
    if name not in stored:
        raise _missing(place, table, name, stored)
    if not can_read(stored[name], declared):
        raise UserError(
            "SS5062",
            f'column "{name}" of {where} has DuckDB\'s type {stored[name]}, and not {declared.with_nullable(True)}',
            hint=f'declare column "{name}" of table "{table}" with a type that fits',
        )


def _missing(place: Place, table: str, name: str, stored: dict[str, str]) -> UserError:
    return UserError(
        "SS5062",
        f'{_where(place)} has no column "{name}", which table "{table}" declares',
        hint=did_you_mean(name, list(stored)) or f"its columns are {', '.join(list(stored)[:50])}",
    )


def _where(place: Place) -> str:
    return f'"{place.path}"' if place.kind.is_files else f"table {place.name}"
