"""One check of one case, and what checks share."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import SqlStreamError
from sqlstream.planner.dialect.parser import parse_type
from sqlstream.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Check:
    """Called with an empty directory, it returns, or raises AssertionError that says what does not hold. `is_slow`: it takes
    seconds, as it starts processes."""

    label: str
    run: Callable[[Path], None]
    is_slow: bool = False

    def __call__(self, directory: Path) -> None:
        self.run(directory)

    def __str__(self) -> str:
        return self.label


class Case(Protocol):
    def checks(self) -> list[Check]: ...


def checks(*cases: Case) -> list[Check]:
    """All checks of these cases."""
    return [check for case in cases for check in case.checks()]


def columns_text(columns: Mapping[str, str]) -> str:
    """The columns as DDL has them."""
    return ", ".join(f"`{name}` {text}" for name, text in columns.items())


def table_text(name: str, columns: str, options: Mapping[str, str]) -> str:
    """CREATE TABLE."""
    return f"CREATE TABLE {name} ({columns}) WITH ({options_text(options)})"


def options_text(options: Mapping[str, str]) -> str:
    """The options as WITH has them."""
    return ", ".join(f"{_literal(key)} = {_literal(value)}" for key, value in options.items())


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def schema_of(columns: Mapping[str, str]) -> Schema:
    """Columns as SQL names their types."""
    return _schema_of(tuple(columns.items()))


@functools.lru_cache(maxsize=64)
def _schema_of(columns: tuple[tuple[str, str], ...]) -> Schema:
    return Schema.of(*((name, parse_type(text)) for name, text in columns))


def batch_of(columns: Mapping[str, str], rows: Sequence[Row]) -> pa.RecordBatch:
    import pyarrow as pa

    schema = to_arrow_schema(schema_of(columns))
    arrays = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def rows_of(statements: list[str], config: Mapping[str, str] | None = None) -> list[Row]:
    """Run statements in a session of this process; returns the rows of the last one. Its tables end."""
    import sqlstream

    with sqlstream.connect("embedded://", config=config) as connection:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        return [tuple(row) for row in cursor.fetchall()]


def expect_refused(statement: str, code: str, what: str) -> None:
    """The statement must be refused with this code, and no other exception."""
    from sqlstream.client.sessions.target_session import local_session
    from sqlstream.planner.dialect.parser import parse_statements

    with local_session() as session:
        try:
            for parsed in parse_statements(statement):
                session.execute(parsed)
        except SqlStreamError as error:
            if error.code == code:
                return
            raise AssertionError(
                f"{what}: refused with {error.code} ({error.message}) instead of {code}"
            ) from error
    raise AssertionError(f"{what}: accepted, and should be refused with {code}")


def same_rows(found: list[Row], wanted: list[Row], what: str) -> None:
    """The same rows, as often, in any order."""
    missing, extra = list(wanted), []
    for row in found:
        if row in missing:
            missing.remove(row)
        else:
            extra.append(row)
    assert not missing, f"{what}: {len(missing)} rows are lost, such as {missing[:3]}"
    assert not extra, f"{what}: {len(extra)} rows are too many, such as {extra[:3]}"
