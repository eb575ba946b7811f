"""Reads tests/sql/*.test: tables, queries over them, and the rows that each query leaves.

    # What the file is about.
    table clicks (who STRING, n INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '1' SECOND)
    ["ann", 3, "2024-01-01 00:00:01"]
    split
    ["bob", null, "2024-01-01 00:00:00"]

    given
    CREATE VIEW many AS SELECT * FROM clicks WHERE n > 2

    query counts duckdb
    SELECT who, COUNT(*) AS n FROM clicks GROUP BY who
    ----
    who STRING | n BIGINT NOT NULL
    ["ann", 1]
    ["bob", 1]

`like FILE` takes the tables and `given` of another file. A table with `split` behind rows is read in these parts; any
other is cut anywhere. Rows are in order of time. `table NAME endless` is planned as if it never ended, and a table that is
`unmarked` gets its watermarks from an operator. The words behind a query's name are its freedoms:

    arrival             its rows depend on the order in which rows come: every table is one split
    late                some rows are late: one split, row by row
    count               which rows there are is open: only their number is held
    refused=SS2003      planning fails with this code
    duckdb              DuckDB has these rows for the text, or for another text behind a line `duckdb:`
    duckdb=about        the same with numbers up to six digits
    no-batch            the plan is not lowered to a batch engine
    key                 the table that it is written to has a key, whatever its kind
    set.KEY=VALUE       a setting
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from sqlstream.schema import Schema

DIRECTORY = Path(__file__).parent / "sql"
FILES = sorted(DIRECTORY.glob("*.test"))
Row = tuple[Any, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class CaseTable:
    """`rows` are JSON values; `parts` says where each split ends, when the file says it. `kind` is empty, a connector of
    moved_jobs.py, or the options of another one."""

    name: str
    kind: str
    columns: str
    rows: tuple[list[Any], ...]
    parts: tuple[int, ...] = ()

    @property
    def is_of_events(self) -> bool:
        """Whether its columns say more than what rows have: times of processing, a watermark, a key."""
        return bool(re.search(r"WATERMARK|PROCTIME|PRIMARY KEY|\bAS\b", self.columns))


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A query of a file. `expected` are its rows as text, below a line of names and types; empty before the first --rewrite."""

    file: str
    name: str
    tables: Mapping[str, CaseTable]
    given: tuple[str, ...]
    sql: str
    words: Mapping[str, str]
    duckdb_sql: str
    expected: tuple[str, ...]
    batch_sql: str = ""
    """What a batch engine is to answer, where that is another query."""

    def __str__(self) -> str:
        return f"{self.file}:{self.name}"

    def is_free(self, word: str) -> bool:
        return word in self.words

    @property
    def settings(self) -> dict[str, str]:
        return {word.removeprefix("set."): v for word, v in self.words.items() if word.startswith("set.")}

    @property
    def script(self) -> str:
        """The query behind what is given."""
        return ";\n".join((*self.given, self.sql))

    @property
    def rows_of_tables(self) -> dict[str, tuple[str, list[Row]]]:
        """As `oracle.Tables`: columns and rows by name."""
        return {t.name: (t.columns, [tuple(row) for row in t.rows]) for t in self.tables.values()}

    @property
    def used_tables(self) -> list[CaseTable]:
        """Those that the query may read."""
        text = " ".join((*self.given, self.sql))
        return [t for t in self.tables.values() if re.search(rf"\b{t.name}\b", text)]


def cases_of(stem: str) -> dict[str, Case]:
    return {case.name: case for case in read_cases(DIRECTORY / f"{stem}.test")}


def read_cases(path: Path) -> list[Case]:
    tables: dict[str, CaseTable] = {}
    given: list[str] = []
    found = []
    for head, lines in _blocks(path.read_text()):
        kind, _, rest = head.partition(" ")
        match kind:
            case "like":
                like = read_cases(path.parent / rest)[0]
                tables |= like.tables
                given += like.given
            case "table":
                table = _table(rest, lines)
                tables[table.name] = table
            case "given":
                given.append("\n".join(lines))
            case "query":
                found.append(_case(path.stem, rest, lines, tables, given))
            case _:
                raise ValueError(f"{path}: {head}")
    return found


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    for block in re.split(r"\n\n+", text.strip("\n")):
        lines = [line for line in block.split("\n") if not line.startswith("# ")]
        if lines:
            yield lines[0], lines[1:]


def _table(head: str, lines: list[str]) -> CaseTable:
    # The columns go on until their parenthesis closes.
    text = "\n".join([head, *lines])
    names, _, rest = text.partition("(")
    name, _, kind = names.strip().partition(" ")
    rest = f"({rest}"
    depths = itertools.accumulate((letter == "(") - (letter == ")") for letter in rest)
    end = next(place for place, depth in enumerate(depths) if depth == 0)
    rows: list[list[Any]] = []
    parts: list[int] = []
    for line in rest[end + 1 :].split("\n"):
        if line == "split":
            parts.append(len(rows))
        elif line:
            rows.append(json.loads(line))
    if parts and parts[-1] < len(rows):
        parts.append(len(rows))
    return CaseTable(name, kind, rest[1:end], tuple(rows), tuple(parts))


def _case(
    file: str, head: str, lines: list[str], tables: Mapping[str, CaseTable], given: Iterable[str]
) -> Case:
    name, *words = head.split(" ")
    pairs = (word.partition("=") for word in words)
    at = lines.index("----") if "----" in lines else len(lines)
    sql, expected = lines[:at], lines[at + 1 :]
    other = sql.index("duckdb:") if "duckdb:" in sql else len(sql)
    return Case(
        *(file, name, dict(tables), tuple(given), "\n".join(sql[:other])),
        *({key: value for key, _, value in pairs}, "\n".join(sql[other + 1 :]), tuple(expected)),
    )


def rewrite(path: Path, expected: Mapping[str, list[str]]) -> None:
    """Put other rows behind the queries of a file."""
    text = path.read_text()
    blocks = re.split(r"\n\n+", text.strip("\n"))
    made = []
    for block in blocks:
        lines = block.split("\n")
        head = next((line for line in lines if not line.startswith("# ")), "")
        name = head.split(" ")[1] if head.startswith("query ") else ""
        if name in expected:
            at = lines.index("----") if "----" in lines else len(lines)
            lines = [*lines[:at], "----", *expected[name]]
        made.append("\n".join(lines))
    path.write_text("\n\n".join(made) + "\n")


def today() -> int:
    """The number of the day, with which draws change."""
    return datetime.datetime.now(datetime.UTC).date().toordinal()


# --- values


def decoded(value: Any, t: pa.DataType) -> Any:
    """A JSON value as Arrow takes it for this type."""
    if value is None:
        return None
    if pa.types.is_map(t):
        return [(decoded(k, t.key_type), decoded(v, t.item_type)) for k, v in value]
    if pa.types.is_list(t):
        return [decoded(v, t.value_type) for v in value]
    if pa.types.is_struct(t):
        return {field.name: decoded(value[field.name], field.type) for field in t}
    if pa.types.is_timestamp(t):
        moment = datetime.datetime.fromisoformat(value)
        return moment.replace(tzinfo=datetime.UTC) if t.tz else moment
    if pa.types.is_date(t):
        return datetime.date.fromisoformat(value)
    if pa.types.is_time(t):
        return datetime.time.fromisoformat(value)
    if pa.types.is_decimal(t):
        return Decimal(str(value))
    if pa.types.is_floating(t):
        return float(value)
    return bytes.fromhex(value) if pa.types.is_binary(t) or pa.types.is_fixed_size_binary(t) else value


def encoded(value: Any) -> Any:
    """The JSON value for what Arrow has: times and decimals as text, bytes as hex digits, a map as sorted pairs."""
    match value:
        case float():
            return value if abs(value) < float("inf") else str(value)
        case Decimal():
            return format(value, "f")
        case datetime.datetime():
            return value.replace(tzinfo=None).isoformat(" ")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            return value.total_seconds()
        case bytes():
            return value.hex()
        case dict():
            return {key: encoded(each) for key, each in value.items()}
        case list() if value and all(isinstance(each, tuple) for each in value):
            return sorted(([encoded(k), encoded(v)] for k, v in value), key=repr)
        case list():
            return [encoded(each) for each in value]
    return value


def table_of(case_table: CaseTable, schema: pa.Schema) -> pa.Table:
    """The rows of a table in these columns."""
    columns = [
        pa.array([decoded(row[place], field.type) for row in case_table.rows], field.type)
        for place, field in enumerate(schema)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def rows_of(table: pa.Table) -> list[list[Any]]:
    columns = [column.to_pylist() for column in table.columns]
    return [[encoded(value) for value in row] for row in zip(*columns, strict=True)]


def written(schema: Schema, rows: Iterable[list[Any]], is_ordered: bool) -> list[str]:
    """The lines behind `----`."""
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    return [header(schema), *(lines if is_ordered else sorted(lines))]


def header(schema: Schema) -> str:
    return " | ".join(f"{field.name} {field.type}" for field in schema.fields)
