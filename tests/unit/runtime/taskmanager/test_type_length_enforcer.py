"""A value of another length than its column is cut and padded, fails the job, or passes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

import sqlstream
from sqlstream import types as sql
from sqlstream.arrow import with_row_kinds
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.errors import UserError
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.runtime.operators.sink import TYPE_LENGTH_ENFORCER, TypeLengthEnforcer
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec
from sqlstream.specs.sink import COLLECT

SCHEMA = Schema.of(
    *(("c", sql.char(3)), ("v", sql.varchar(3)), ("s", sql.STRING)),
    *(("b", sql.binary(2)), ("w", sql.varbinary(2)), ("y", sql.BYTES)),
)
TEXTS = ("é", "éüöä", None, "abc", "")
BYTES = (b"a", b"abc", None, b"ab", b"")


def enforcer(mode: str, connector: str = "print") -> TypeLengthEnforcer:
    modes = (ChangelogMode.INSERT_ONLY,)
    context = OperatorContext((SCHEMA,), modes, SCHEMA, *modes, config={TYPE_LENGTH_ENFORCER: mode})
    return TypeLengthEnforcer(SinkSpec("t", connector, {}, SCHEMA), context)


def batch(texts: tuple[str | None, ...] = TEXTS, data: tuple[bytes | None, ...] = BYTES) -> pa.RecordBatch:
    columns = [pa.array(texts, pa.string())] * 3 + [pa.array(data, pa.binary())] * 3
    return pa.record_batch(columns, names=list("cvsbwy"))


def test_values_are_cut_and_padded_by_characters_and_bytes() -> None:
    fitted = enforcer("TRIM_PAD").enforce(batch())
    assert fitted.schema == batch().schema
    assert fitted.to_pydict() == {
        "c": ["é  ", "éüö", None, "abc", "   "],
        "v": ["é", "éüö", None, "abc", ""],
        "s": list(TEXTS),
        "b": [b"a\0", b"ab", None, b"ab", b"\0\0"],
        "w": [b"a", b"ab", None, b"ab", b""],
        "y": list(BYTES),
    }


def test_what_fits_passes_untouched_and_so_does_all_that_is_ignored_or_shown() -> None:
    fits = batch(("abc", None), (b"ab", None))
    assert enforcer("TRIM_PAD").enforce(fits) is fits
    assert enforcer("ERROR").enforce(fits) is fits
    for passing in (enforcer("IGNORE"), enforcer("ERROR", COLLECT)):
        rows = batch()
        assert passing.enforce(rows) is rows


@pytest.mark.parametrize(
    ("texts", "data", "words"),
    [
        (("ab",), (b"ab",), 'column "c" of table "t" is CHAR(3), but a value of 2 characters'),
        (("abc", "éüöä"), (b"ab", b"ab"), 'column "c" of table "t" is CHAR(3), but a value of 4 characters'),
        (("abc",), (b"",), 'column "b" of table "t" is BINARY(2), but a value of 0 bytes'),
    ],
)
def test_a_value_of_another_length_fails_and_names_the_column(
    texts: tuple[str], data: tuple[bytes], words: str
) -> None:
    with pytest.raises(UserError) as caught:
        enforcer("ERROR").enforce(batch(texts, data))
    assert words in caught.value.message
    assert TYPE_LENGTH_ENFORCER in caught.value.hint
    deleted = with_row_kinds(batch(texts, data), RowKind.DELETE)
    assert enforcer("ERROR").enforce(deleted) is deleted
    assert enforcer("TRIM_PAD").enforce(deleted).column("c").to_pylist()[-1] in ("ab ", "éüö", "abc")


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_statements_write_what_the_setting_says(tmp_path: Path, mode: str) -> None:
    """Of a source, which does not check its lengths, and of an implicit cast."""
    (tmp_path / "in.csv").write_text("abcdef,x\n")
    table = "CREATE TABLE {0} (a VARCHAR(2), b CHAR(2)) WITH ('connector'='filesystem', 'path'='{1}', 'format'='csv')"
    written = {}
    with sqlstream.connect("embedded://", config={"execution.runtime-mode": mode}) as connection:
        run = connection.cursor().execute
        run(table.format("i", tmp_path / "in.csv"))
        for value in ("IGNORE", "TRIM_PAD"):
            place = tmp_path / value
            run(f"SET '{TYPE_LENGTH_ENFORCER}' = '{value}'")
            run(table.format(value, place))
            run(f"INSERT INTO {value} SELECT * FROM i")
            written[value] = "".join(f.read_text() for f in place.iterdir() if not f.name.startswith("."))
        run(f"SET '{TYPE_LENGTH_ENFORCER}' = 'ERROR'")
        run(table.format("e", tmp_path / "e"))
        for column in ("a", "CAST(a AS STRING)"):
            with pytest.raises(sqlstream.DataError, match=r"is VARCHAR\(2\), but a value of 6 char"):
                run(f"INSERT INTO e SELECT {column}, 'xy' FROM i")
        run("INSERT INTO e SELECT 'ab', 'xy' FROM i")
        with pytest.raises(sqlstream.DataError, match=r"is VARCHAR\(2\), but a value of 3 char"):
            run("UPDATE e SET a = 'abc'")
    assert written == {"IGNORE": "abcdef,x\n", "TRIM_PAD": 'ab,"x "\n'}


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_lengths_hold_within_rows_arrays_and_maps_where_the_setting_says_so(
    tmp_path: Path, mode: str
) -> None:
    columns = "r ROW<a VARCHAR(2), b ROW<c CHAR(2)>>, l ARRAY<VARCHAR(2)>, m MAP<VARCHAR(2), VARCHAR(2)>"
    line = '{"r":{"a":"abc","b":{"c":"d"}},"l":["efg",null],"m":{"hij":"klm"}}\n'
    (tmp_path / "in.json").write_text(line)
    table = "CREATE TABLE {0} ({2}) WITH ('connector'='filesystem', 'path'='{1}', 'format'='json')"
    with sqlstream.connect("embedded://", config={"execution.runtime-mode": mode}) as connection:
        run = connection.cursor().execute
        run(table.format("i", tmp_path / "in.json", columns))
        run("SET 'table.exec.sink.nested-constraint-enforcer' = 'ROWS_AND_COLLECTIONS'")
        run(f"SET '{TYPE_LENGTH_ENFORCER}' = 'TRIM_PAD'")
        run(table.format("o", tmp_path / "o", columns))
        run("INSERT INTO o SELECT * FROM i")
        (written,) = [f.read_text() for f in (tmp_path / "o").iterdir() if not f.name.startswith(".")]
        assert json.loads(written) == {
            "r": {"a": "ab", "b": {"c": "d "}}, "l": ["ef", None], "m": {"hi": "kl"},
        }  # fmt: skip
        run(f"SET '{TYPE_LENGTH_ENFORCER}' = 'ERROR'")
        with pytest.raises(
            sqlstream.DataError, match=r'"r.a" of table "o" is VARCHAR\(2\), but a value of 3'
        ):
            run("INSERT INTO o SELECT * FROM i")
        for place, values in (
            ("l[element]", "ROW('a', ROW('bc')), ARRAY['efg'], MAP['a', 'b']"),
            ("m[value]", "ROW('a', ROW('bc')), ARRAY['e'], MAP['a', 'bcd']"),
            ("r.b.c", "ROW('a', ROW('b')), ARRAY['e'], MAP['a', 'b']"),
        ):
            with pytest.raises(sqlstream.DataError, match=re.escape(f'column "{place}" of table "o" is')):
                run(f"INSERT INTO o SELECT {values}")
        run("SET 'table.exec.sink.nested-constraint-enforcer' = 'ROWS'")
        run("INSERT INTO o SELECT ROW('a', ROW('bc')), ARRAY['efg'], MAP['a', 'bcd']")
