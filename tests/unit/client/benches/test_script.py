"""What benchmarks share: tables that are pointed elsewhere, answers that are compared, and files that are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.catalog import CatalogTable, ObjectPath
from sqlstream.client.benches.script import (
    QUERIES_DIR,
    answer_of,
    checksum_text,
    is_same_answer,
    nexmark_options,
    nexmark_queries,
    nexmark_text,
)
from sqlstream.client.commands.bench import cells_line, check_writable, chosen, write_json
from sqlstream.errors import UserError


def table(**options: str) -> CatalogTable:
    return CatalogTable(path=ObjectPath("c", "d", "t"), columns=(), options=options)


def test_every_query_has_its_file_in_order_of_its_number() -> None:
    found = nexmark_queries()
    assert found[:3] == ["q0", "q1", "q2"]
    assert found.index("q3") < found.index("q12")
    assert all("INSERT INTO" in nexmark_text(query) for query in found)


def test_tables_are_pointed_at_the_events_and_the_sink() -> None:
    made = nexmark_options(table(connector="nexmark", **{"nexmark.rate": "1", "x": "y"}), 500, 20, "checksum")
    assert made == {"connector": "nexmark", "nexmark.events": "500", "nexmark.rate": "20", "x": "y"}
    for connector in ("blackhole", "checksum"):
        assert nexmark_options(table(connector=connector, a="b"), 5, 2, "print") == {
            "connector": "print",
            "a": "b",
        }
    files = table(connector="filesystem", path="somewhere", format="csv")
    assert nexmark_options(files, 5, 2, "print") == {"connector": "print"}
    written = nexmark_options(files, 5, 2, "print", "/made")
    assert written == {"connector": "filesystem", "path": "/made/t", "format": "csv"}
    side = nexmark_options(table(connector="duckdb", path="some/where/side.duckdb"), 5, 2, "print")
    assert side == {"connector": "duckdb", "path": str(QUERIES_DIR / "nexmark" / "side.duckdb")}
    with pytest.raises(UserError, match='table "t" of a Nexmark query reads "kafka"') as refused:
        nexmark_options(table(connector="kafka"), 5, 2, "print")
    assert refused.value.code == "SS4005"


@pytest.mark.parametrize(
    ("query", "one", "other", "is_same"),
    [
        ("q1", (5, "a"), (5, "a"), True),
        ("q1", (5, "a"), (5, "b"), False),
        ("q1", (5, "a"), (6, "a"), False),
        ("q18", (5, "a"), (5, "b"), True),
        ("q19", (5, "a"), (6, "a"), False),
        ("q12", (5, "a"), (5, "a"), None),
    ],
)
def test_answers_agree_as_far_as_the_query_defines_them(
    query: str, one: tuple[int, str], other: tuple[int, str], is_same: bool | None
) -> None:
    assert is_same_answer(query, one, other) is is_same


def test_an_answer_is_a_number_of_rows_and_a_checksum_of_64_bits() -> None:
    assert answer_of({"resultRows": 7, "resultChecksum": 2**63}) == (7, "8000000000000000")
    assert answer_of({}) == (0, "0000000000000000")
    assert checksum_text(2**64 + 255) == "00000000000000ff"


def test_names_are_chosen_of_those_there_are() -> None:
    available = ["q0", "q1", "q12"]
    assert chosen("", available, "query") == available
    assert chosen(" q12, q0 ,,q12", available, "query") == ["q12", "q0"]
    with pytest.raises(UserError, match='there is no query "q2"') as refused:
        chosen("q0,q2", available, "query")
    assert (refused.value.code, "q12" in refused.value.hint) == ("SS4005", True)
    with pytest.raises(UserError) as refused:
        chosen("elephant", available, "query")
    assert refused.value.hint == "choose of q0, q1, q12"


def test_figures_are_written_where_they_were_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(None, {"a": 1})
    assert capsys.readouterr().out == ""
    write_json("-", {"a": 1})
    assert capsys.readouterr().out == '{\n  "a": 1\n}\n'
    path = tmp_path / "figures.json"
    check_writable(None)
    check_writable("-")
    check_writable(str(path))
    write_json(str(path), {"a": 1})
    check_writable(str(path))
    assert (path.read_text(), capsys.readouterr().out) == ('{\n  "a": 1\n}\n', "")
    with pytest.raises(UserError, match="cannot write") as refused:
        check_writable(str(tmp_path / "none" / "figures.json"))
    assert (refused.value.code, "no such file" in refused.value.message) == ("SS5001", True)


def test_cells_stand_in_columns() -> None:
    assert cells_line(("a", "bc"), 4) == "   a  bc"
    assert cells_line(("a",)) == " " * 17 + "a"
