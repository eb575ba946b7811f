"""What the options of a table name."""

from __future__ import annotations

import pytest

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.duckdb.options import Place, PlaceKind, read_place
from sqlstream.runtime.connectors.sql_tables import check_address

FILES = (PlaceKind.CSV, PlaceKind.JSON, PlaceKind.PARQUET)
SERVERS = (PlaceKind.POSTGRES, PlaceKind.MYSQL)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/a/shop.duckdb", PlaceKind.DUCKDB),
        ("/a/shop.ddb", PlaceKind.DUCKDB),
        ("/a/SHOP.DB", PlaceKind.DUCKDB),
        ("/a/shop.sqlite", PlaceKind.SQLITE),
        ("/a/shop.sqlite3", PlaceKind.SQLITE),
        ("/a/*.csv", PlaceKind.CSV),
        ("/a/x.csv.gz", PlaceKind.CSV),
        ("/a/x.tsv.zst", PlaceKind.CSV),
        ("/a/x.json", PlaceKind.JSON),
        ("/a/x.jsonl.gz", PlaceKind.JSON),
        ("/a/x.ndjson", PlaceKind.JSON),
        ("/a/x.parquet", PlaceKind.PARQUET),
    ],
)
def test_the_ending_says_what_is_there(path: str, kind: PlaceKind) -> None:
    place = read_place("t", {"path": path})
    assert (place.kind, place.path, place.schema, place.table) == (kind, path, "", "t")


def test_files_and_servers_are_kinds_apart() -> None:
    assert tuple(kind for kind in PlaceKind if kind.is_files) == FILES
    assert tuple(kind for kind in PlaceKind if kind.is_server) == SERVERS


def test_everything_that_is_given_is_read() -> None:
    options = {"path": "/a/x", "type": "CSV", "csv.header": "false", "csv.field-delimiter": "\\t"}
    assert read_place("t", options) == Place(PlaceKind.CSV, "/a/x", "", "t", "", "", False, "\t")
    server = {
        "path": "dbname=shop",
        "type": "postgres",
        "username": "me",
        "password": "x",
        "table-name": "s.t2",
    }
    place = read_place("t", server)
    assert place == Place(PlaceKind.POSTGRES, "dbname=shop", "s", "t2", "me", "x")
    assert (place.name, read_place("t", {"path": "a.db"}).name) == ('"s.t2"', '"t"')


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({"path": "/a/x"}, "SS4005", 'the path of table "t" does not say what is there'),
        ({"path": "/a/*.duckdb"}, "SS4002", 'option "path" is a pattern, but a duckdb database is one file'),
        ({"path": "/a/*.sqlite"}, "SS4002", "a sqlite database is one file"),
        ({"path": "/a.csv", "csv.field-delimiter": ";;"}, "SS4002", 'takes one character, not ";;"'),
        ({"path": "/a.csv", "csv.field-delimiter": ""}, "SS4002", 'takes one character, not ""'),
        (
            {"path": "/a.db", "csv.header": "true"},
            "SS4003",
            '"csv.header" has no use for a table of type duckdb',
        ),
        ({"path": "/a.json", "csv.field-delimiter": ","}, "SS4003", "no use for a table of type json"),
        ({"path": "/a.db", "username": "me"}, "SS4003", '"username" has no use'),
        ({"path": "/a.csv", "password": "x"}, "SS4003", '"password" has no use for a table of type csv'),
        ({"path": "/a.csv", "table-name": "x"}, "SS4003", '"table-name" has no use for a table of type csv'),
        (
            {"path": "host=h", "type": "mysql", "csv.header": "true"},
            "SS4003",
            "no use for a table of type mysql",
        ),
    ],
)
def test_options_that_do_not_fit_each_other_are_refused(
    options: dict[str, str], code: str, words: str
) -> None:
    with pytest.raises(UserError) as caught:
        read_place("t", options)
    assert caught.value.code == code
    assert words in caught.value.message


@pytest.mark.parametrize(
    "address",
    ["", "  ", "host=localhost port=5432", "host = 'a b' dbname='it\\'s'", " dbname=shop ", "user=me"],
)
def test_an_address_is_keywords_with_values(address: str) -> None:
    check_address("postgres", address)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("postgres://localhost/shop", "is no address of a postgres server"),
        ("host", "is no address"),
        ("host=a b", "is no address"),
        ("host='a'port=1", "is no address"),
        ("host='a", "is no address"),
        ("PassWord=secret", "contains a password"),
        ("host=a passwd=secret", "contains a password"),
        ("host=a service=x", 'contains "service", which an address of a postgres server may not have'),
        ("HOST=a", 'contains "HOST"'),
        ("database=shop", 'contains "database"'),
    ],
)
def test_any_other_address_is_refused_without_its_values(address: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        check_address("postgres", address)
    assert caught.value.code == "SS4002"
    assert words in caught.value.message
    assert "secret" not in f"{caught.value.message} {caught.value.hint}"


def test_each_kind_of_server_has_its_own_keywords() -> None:
    check_address("mysql", "database=shop ssl_mode=required")
    with pytest.raises(UserError, match="dbname"):
        check_address("mysql", "dbname=shop")
