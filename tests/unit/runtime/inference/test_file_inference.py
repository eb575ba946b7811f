"""What is inferred from files: literal text in, columns and options out."""

from __future__ import annotations

import bz2
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.catalog import InferredTable
from sqlstream.errors import UserError
from sqlstream.runtime.formats import format_of
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles
from sqlstream.runtime.inference.file_inference import LocalFileInference, paths_after
from sqlstream.runtime.inference.parquet import FOOTER_BYTES_MAX
from sqlstream.schema import Schema
from sqlstream.spi.format import ReadRequest

DEFAULTS = {"csv.header": "true", "csv.empty-string-as-null": "true"}


def infer(path: Path | str, files: Any = None, **options: str) -> InferredTable:
    inference = LocalFileInference(files or LocalFiles())
    form = options.pop("format", "") or inference.format(str(path))
    return inference.table({"connector": "filesystem", "path": str(path), "format": form, **options})


def columns(table: InferredTable) -> str:
    return ", ".join(f"{c.name} {c.type}" for c in table.columns)


def chosen(table: InferredTable) -> dict[str, str]:
    return {k: v for k, v in table.options.items() if k not in ("connector", "path", "format")}


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("text", "expected", "options"),
    [
        ("a,b\n1,2.5\n", "a BIGINT, b DOUBLE", {}),
        ("a;b\n1;x\n", "a BIGINT, b STRING", {"csv.field-delimiter": ";"}),
        ("a\tb\n1\tx\n", "a BIGINT, b STRING", {"csv.field-delimiter": "\\t"}),
        ("a,b\n'x,y',1\n'z',2\n", "a STRING, b BIGINT", {"csv.quote-character": "'"}),
        ('a,b\n"x\\"y",1\n"z,k",2\n', "a STRING, b BIGINT", {"csv.escape-character": "\\"}),
        ("# c\na,b\n1,2\n", "a BIGINT, b BIGINT", {"csv.allow-comments": "true"}),
        ("1,x\n2,y\n", "column0 BIGINT, column1 STRING", {"csv.header": "false"}),
        (
            "d,t,s,z\n2020-01-01,12:00:00,2020-01-01 12:00:00,2020-01-01T12:00:00Z\n",
            "d DATE, t TIME(3), s TIMESTAMP(6), z TIMESTAMP_LTZ(6)",
            {},
        ),
        ("b,y\ntrue,yes\nfalse,no\n", "b BOOLEAN, y STRING", {}),
        ("h,n\n99999999999999999999,1\n", "h DECIMAL(38, 0), n BIGINT", {}),
    ],
)
def test_dialect_and_types_of_csv_are_options_and_columns(
    tmp_path: Path, text: str, expected: str, options: dict[str, str]
) -> None:
    table = infer(write(tmp_path / "f.csv", text))
    assert columns(table) == expected
    assert chosen(table) == {**DEFAULTS, **options}


def test_options_that_are_given_hold(tmp_path: Path) -> None:
    path = write(tmp_path / "f.txt", "a|b\n1|-\n2|x,y\n")
    given = {"format": "csv", "csv.header": "false", "csv.field-delimiter": "|", "csv.null-literal": "-"}
    table = infer(path, **given)
    assert columns(table) == "column0 STRING, column1 STRING"
    assert chosen(table) == {
        **{k: v for k, v in given.items() if k != "format"},
        "csv.empty-string-as-null": "true",
    }


def test_json_has_nested_types_and_text_for_what_has_none(tmp_path: Path) -> None:
    text = (
        '{"a":1,"r":{"x":[1.5],"d":"2020-01-01"},"n":null,"l":[],"u":"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}\n'
        '{"a":2,"s":{"t":"31/12/2020"},"m":[{"t":"2020-01-01 00:00:00.1234567"}]}\n'
    )
    assert columns(infer(write(tmp_path / "f.ndjson", text))) == (
        "a BIGINT, r ROW<`x` ARRAY<DOUBLE>, `d` DATE>, n STRING, l ARRAY<STRING>, u STRING,"
        " s ROW<`t` STRING>, m ARRAY<ROW<`t` STRING>>"
    )


def test_lines_that_are_skipped_when_read_are_skipped_when_inferring(tmp_path: Path) -> None:
    path = write(tmp_path / "f.json", '{"a":1}\n{"a":\n{"a":2}\n')
    assert columns(infer(path, **{"json.ignore-parse-errors": "true"})) == "a BIGINT"


def test_files_of_a_directory_are_sniffed_as_one(tmp_path: Path) -> None:
    write(tmp_path / "d" / "1.csv", "a,b\n1,\n")
    write(tmp_path / "d" / "2.csv", "")
    write(tmp_path / "d" / "3.csv.bz2", bz2.compress(b"a,b\n1.5,2020-01-01\n"))
    write(tmp_path / "d" / "_hidden", "x")
    assert columns(infer(tmp_path / "d")) == columns(infer(f"{tmp_path}/d/*")) == "a DOUBLE, b DATE"


def test_directories_that_name_values_are_columns(tmp_path: Path) -> None:
    for year, city in ((2020, "Bern"), (2021, "__DEFAULT_PARTITION__")):
        write(tmp_path / f"year={year}" / f"city={city}" / "f.csv", "a\n1\n")
    table = infer(tmp_path)
    assert (columns(table), table.partition_keys) == ("a BIGINT, year BIGINT, city STRING", ("year", "city"))


def test_a_name_in_the_header_may_hold_line_ends(tmp_path: Path) -> None:
    for number in (1, 2):
        write(tmp_path / "d" / f"{number}.csv", f'name,"amount\nEUR"\nx,{number}\n')
    assert (
        columns(infer(tmp_path / "d"))
        == columns(infer(tmp_path / "d" / "1.csv"))
        == "name STRING, amount\nEUR BIGINT"
    )


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-be"])
def test_text_in_utf_16_is_refused_by_its_name(tmp_path: Path, charset: str) -> None:
    mark = "\ufeff" if charset == "utf-16-be" else ""
    write(tmp_path / "f.csv", f"{mark}a\n1\n".encode(charset))
    with pytest.raises(UserError, match="it is text in UTF-16") as caught:
        infer(tmp_path / "f.csv")
    assert caught.value.hint == "convert it, as iconv -f UTF-16 -t UTF-8 does"


def test_what_hive_names_the_partition_of_null_is_null(tmp_path: Path) -> None:
    for day in ("2024-01-01", "__HIVE_DEFAULT_PARTITION__"):
        write(tmp_path / f"day={day}" / "f.csv", "a\n1\n")
    table = infer(tmp_path)
    assert columns(table) == "a BIGINT, day DATE"
    assert table.options["partition.default-name"] == "__HIVE_DEFAULT_PARTITION__"


def test_a_parquet_footer_beyond_its_bound_is_refused(tmp_path: Path) -> None:
    size = FOOTER_BYTES_MAX + 1
    with open(tmp_path / "f.parquet", "wb") as file:
        file.write(b"PAR1")
        # A hole, which takes no room on the disk.
        file.seek(size, 1)
        file.write(size.to_bytes(4, "little") + b"PAR1")
    with pytest.raises(UserError, match=f"its footer has {size} bytes") as caught:
        infer(tmp_path / "f.parquet")
    assert caught.value.code == "SS5024"


def test_parquet_has_the_types_of_its_footer(tmp_path: Path) -> None:
    table = pa.table(
        {
            "u": pa.array([1], pa.uint64()),
            "t": pa.array([1], pa.time64("us")),
            "ms": pa.array([1], pa.timestamp("ms")),
            "ns": pa.array([1], pa.timestamp("ns", "UTC")),
            "d": pa.array(["x"]).dictionary_encode(),
            "n": pa.nulls(1),
            "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
        }
    )
    pq.write_table(table, tmp_path / "f.parquet")
    assert columns(infer(tmp_path / "f.parquet")) == (
        "u DECIMAL(20, 0), t TIME(3), ms TIMESTAMP(3), ns TIMESTAMP_LTZ(9), d STRING, n STRING,"
        " m MAP<STRING, INT>"
    )


def test_json_names_that_differ_in_case_alone_are_columns_of_their_own(tmp_path: Path) -> None:
    lines = '{"a":1,"A":"x"}\n{"b":1,"a_1":5,"A":"y"}\n{"B":1.5}\n'
    write(tmp_path / "f.json", lines)
    found = columns(infer(tmp_path / "f.json"))
    assert found == "a BIGINT, A STRING, b BIGINT, a_1 BIGINT, B DOUBLE"


@pytest.mark.parametrize(
    ("files", "path", "code", "message"),
    [
        ({}, "none.csv", "SS5002", 'there is no file or directory "{}/none.csv"'),
        ({"f.csv": ""}, "f.csv", "SS5024", '"{}/f.csv": it is empty'),
        ({"d/_x": ""}, "d", "SS5024", '"{}/d": the directory holds no files'),
        (
            {"f.txt": "x"},
            "f.txt",
            "SS5024",
            '"{}/f.txt": its suffix is none of .csv, .tsv, .parquet, .json, .ndjson, .jsonl',
        ),
        (
            {"f.csv": "junk\n\na,b,c\n1,2,3\n4,5,6\n"},
            "f.csv",
            "SS5024",
            '"{}/f.csv": its first 2 lines are no part of the table',
        ),
        (
            {"f.csv": "a,a\n1,2\n"},
            "f.csv",
            "SS5024",
            '"{}/f.csv": its header does not give every column a name of its own',
        ),
        (
            {"f.csv": "a,,c\n1,2,3\n"},
            "f.csv",
            "SS5024",
            '"{}/f.csv": its header does not give every column a name of its own',
        ),
        ({"f.csv": b"a,b\n\xe9,1\n"}, "f.csv", "SS5024", '"{}/f.csv": it is no text in UTF-8'),
        ({"f.json": '[{"a":1}]'}, "f.json", "SS5024", '"{}/f.json": it begins with a JSON array'),
        ({"f.json": '{"a":\n'}, "f.json", "SS5024", '"{}/f.json": it is not one JSON object on each line'),
        (
            {"f.json": "{}\n"},
            "f.json",
            "SS5024",
            '"{}/f.json": its objects have no fields that could be columns',
        ),
        (
            {"f.json": '{"r":{"a":1,"A":2}}\n'},
            "f.json",
            "SS5024",
            '"{}/f.json": an object within its objects has two fields that differ in case alone',
        ),
        (
            {"d/1.csv": "a\n1\n", "d/2.json": "{}"},
            "d",
            "SS5025",
            '"{}/d/2.json" does not fit to "{}/d/1.csv": it has another format',
        ),
        (
            {"d/1.csv": "a,b\n1,2\n", "d/2.csv": "b,a\n1,2\n"},
            "d",
            "SS5025",
            '"{}/d/2.csv" does not fit to "{}/d/1.csv": its header is another',
        ),
        (
            {"d/y=1/f.csv": "a\n1\n", "d/f.csv": "a\n1\n"},
            "d",
            "SS5025",
            '"{}/d/y=1/f.csv" does not fit to "{}/d/f.csv": its directories name other columns',
        ),
        (
            {"d/y=1/f.csv": "y\n1\n"},
            "d",
            "SS5024",
            '"{}/d": column "y" is in the files, and in the names of their directories',
        ),
        ({"f.parquet": "no"}, "f.parquet", "SS5011", None),
        (
            {"f.csv": b"\x1f\x8b\x08\0\0\0\0\0\0\0"},
            "f.csv",
            "SS5011",
            '"{}/f.csv" is no text: the file is compressed (gzip)',
        ),
    ],
)
def test_what_is_no_table_is_refused_with_the_reason(
    tmp_path: Path, files: dict[str, str], path: str, code: str, message: str | None
) -> None:
    for name, content in files.items():
        write(tmp_path / name, content)
    with pytest.raises(UserError) as caught:
        infer(tmp_path / path)
    assert caught.value.code == code
    assert caught.value.hint
    if message is not None:
        beginning = "no table can be inferred from " if code == "SS5024" else ""
        assert caught.value.message == beginning + message.replace("{}", str(tmp_path))


def test_a_remote_path_is_refused() -> None:
    with pytest.raises(UserError, match=r'names the file system "s3", but files must be local') as caught:
        infer("s3://bucket/f.csv")
    assert caught.value.code == "SS4002"


def test_parquet_files_have_the_columns_of_all_and_the_wider_types(tmp_path: Path) -> None:
    i32, i64 = pa.int32(), pa.int64()
    old = pa.table({"a": pa.array([1], i32), "l": pa.array([[1]], pa.list_(i32)), "n": pa.nulls(1)})
    new = pa.table(
        {"s": ["x"], "a": pa.array([2**40], i64), "l": pa.array([[2**40]], pa.list_(i64)), "n": [1.5]}
    )
    types = {"a": "a BIGINT", "l": "l ARRAY<BIGINT>", "n": "n DOUBLE", "s": "s STRING"}
    for number, tables in enumerate(([old, new], [new, old])):
        (tmp_path / f"{number}").mkdir()
        for name, table in zip("12", tables, strict=True):
            pq.write_table(table, tmp_path / f"{number}" / f"{name}.parquet")
        names = dict.fromkeys(name for table in tables for name in table.column_names)
        assert columns(infer(tmp_path / f"{number}" / "*.parquet")) == ", ".join(types[n] for n in names)
        inferred = infer(tmp_path / f"{number}")
        schema = Schema.of(*[(c.name, c.type) for c in inferred.columns])
        rows: list[dict[str, Any]] = []
        for path in (tmp_path / f"{number}").iterdir():
            with open(path, "rb") as stream:
                reader = format_of("parquet").reader(
                    ReadRequest(stream, str(path), schema, schema.names, {}, 100)
                )
                rows += [row for batch, _ in reader.batches() for row in batch.to_pylist()]
        first, last = sorted(rows, key=lambda row: row["a"])
        assert first == {"a": 1, "s": None, "l": [1], "n": None}
        assert last == {"a": 2**40, "s": "x", "l": [2**40], "n": 1.5}


def test_parquet_files_of_other_columns_or_types_do_not_fit(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "2.parquet")
    with pytest.raises(UserError, match=r'2\.parquet" does not fit .*: column "a" is STRING, not BIGINT'):
        infer(tmp_path)
    pq.write_table(pa.table({"a": [1], "b": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": [1], "A": [1]}), tmp_path / "2.parquet")
    with pytest.raises(UserError, match=r'2\.parquet" does not fit .*: column "A" is written "a" there'):
        infer(tmp_path)
    pq.write_table(pa.table({"c": [1]}), tmp_path / "2.parquet")
    with pytest.raises(UserError, match=r'2\.parquet" does not fit .*: it has other columns'):
        infer(tmp_path)


@pytest.mark.parametrize(
    ("value", "what"),
    [("INTERVAL 1 DAY", "an interval"), ("uuid()", "a UUID"), ("{'x': uuid()}", "a UUID")],
)
def test_a_parquet_column_without_sql_type_is_named(tmp_path: Path, value: str, what: str) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 1 AS a, {value} AS odd) TO '{tmp_path}/f.parquet'")
    with pytest.raises(UserError, match=f'column "odd" is {what}, which has no SQL type'):
        infer(tmp_path / "f.parquet")


def test_files_outside_of_the_allowed_directories_are_not_looked_at(tmp_path: Path) -> None:
    write(tmp_path / "in" / "f.csv", "a\n1\n")
    write(tmp_path / "out" / "s.csv", "secret\n1\n")
    (tmp_path / "in" / "link.csv").symlink_to(tmp_path / "out" / "s.csv")
    (tmp_path / "in" / "links").symlink_to(tmp_path / "out")
    files = RootedFiles(FilePlaces((str(tmp_path / "in"),)))
    assert columns(infer(tmp_path / "in" / "f.csv", files)) == "a BIGINT"
    for path in ("in/../out/s.csv", "in/link.csv", "in/links/s.csv", "in/*.csv", "in", "out"):
        with pytest.raises(UserError) as caught:
            infer(tmp_path / path, files)
        assert caught.value.code == "SS5030"
    assert paths_after(f"{tmp_path}/in/", files) == [
        (f"{tmp_path}/in/f.csv", "csv"),
        (f"{tmp_path}/in/link.csv", "csv"),
        (f"{tmp_path}/in/links/", "directory"),
    ]
    for prefix in ("in/links/", "out/", ""):
        with pytest.raises(UserError):
            paths_after(f"{tmp_path}/{prefix}", files)


def test_a_row_of_times_is_of_texts_when_one_of_them_would_lose_a_digit(tmp_path: Path) -> None:
    line = '{"r": {"x": "12:00:00%s", "y": "2024-01-01 00:00:00.5"}}\n'
    kept, cut = (columns(infer(write(tmp_path / "t.json", line % digits))) for digits in ("", ".1234567"))
    assert kept == "r ROW<`x` TIME(3), `y` TIMESTAMP(6)>"
    assert cut == "r ROW<`x` STRING, `y` STRING>"


def test_objects_of_ever_new_names_are_maps_of_times_or_of_texts(tmp_path: Path) -> None:
    lines = "".join(f'{{"m":{{"k{i}":"12:00:00%s"}}}}\n' for i in range(400))
    kept, cut = (
        columns(infer(write(tmp_path / "t.json", lines.replace("%s", d)))) for d in (".123", ".1234")
    )
    assert (kept, cut) == ("m MAP<STRING, TIME(3)>", "m MAP<STRING, STRING>")
