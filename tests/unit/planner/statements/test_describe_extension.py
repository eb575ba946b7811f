"""SHOW and DESCRIBE of connectors, formats and functions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from planner_harness import Planner

from sqlstream.errors import UserError
from sqlstream.functions import CALLABLE, SCALAR_FUNCTIONS
from sqlstream.functions.placed import PLACED, PlacedFunction
from sqlstream.functions.signature import AGGREGATED
from sqlstream.planner.bind.expressions.calls import INTERNAL, callable_names, is_operator


def test_connectors_and_formats_are_listed_and_filtered(bare: Planner) -> None:
    shown = bare.ddl("SHOW CONNECTORS LIKE 'files'")
    assert shown.schema.names == ("connector name", "reads", "writes", "needs format")
    assert shown.rows == (("files", True, True, True),)
    assert ("csv",) in bare.ddl("SHOW FORMATS").rows
    assert bare.ddl("SHOW FORMATS NOT LIKE '%'").rows == ()


@pytest.mark.parametrize("name", ["files", "`files`", "'files'"])
def test_the_options_of_a_connector_are_those_of_its_descriptor(bare: Planner, name: str) -> None:
    described = bare.ddl(f"DESCRIBE CONNECTOR {name}")
    assert described.schema.names == ("option", "type", "default", "required", "meaning")
    assert described.rows[1:3] == (
        ("path", "String", None, True, "Where the files are."),
        ("monitor-interval", "Duration", None, False, "How often to look for new files."),
    )
    assert described.rows[0][0] == "format"
    assert described.rows[3][:3] == ("scan.watermark.emit.strategy", "Enum", "on-periodic")


def test_choices_are_told_and_a_sink_has_no_watermark(bare: Planner) -> None:
    rows = {row[0]: row[4] for row in bare.ddl("DESC CONNECTOR datagen").rows}
    assert rows["fields.#.kind"] == "How. One of random, sequence."
    assert bare.ddl("DESCRIBE CONNECTOR blackhole").rows[0][0] == "slot-sharing-group"


def test_options_of_a_format_have_its_prefix(bare: Planner) -> None:
    assert all(str(row[0]).startswith("csv.") for row in bare.ddl("DESCRIBE FORMAT csv").rows)


def test_a_function_is_described_by_signature_sentence_and_example(bare: Planner) -> None:
    assert bare.ddl("DESCRIBE FUNCTION Left").rows == (
        ("signature", "LEFT(string, length)"),
        ("description", "The first characters of a text."),
        ("example", "LEFT('stream', 3) gives str"),
    )
    assert bare.ddl("DESCRIBE FUNCTION EXTENDED rand").rows[2:] == (
        ("example", "RAND() < 1 gives TRUE"),
        ("kind", "SCALAR"),
        ("is deterministic", "false"),
    )
    assert bare.ddl("DESC FUNCTION avg").rows[2] == ("example", f"AVG(v) FROM {AGGREGATED} gives 2")
    assert ("takes updating input", "true") in bare.ddl("DESC FUNCTION EXTENDED sum").rows


def test_a_function_with_a_clause_of_its_own_is_described_in_it_and_listed(bare: Planner) -> None:
    assert bare.ddl("DESCRIBE FUNCTION lag").rows == (
        ("signature", "LAG(value[, offset[, default]]) OVER (PARTITION BY key ORDER BY column)"),
        ("description", "The value that many rows earlier, by default one; else the default, or NULL."),
        ("documentation", "docs/sql/over.md"),
    )
    shown = {row[0] for row in bare.ddl("SHOW FUNCTIONS").rows}
    assert {"row_number", "tumble", "session_start", "grouping", "classifier"} <= shown


@pytest.mark.parametrize("function", PLACED.values(), ids=PLACED)
def test_the_page_of_a_function_tells_of_it(function: PlacedFunction) -> None:
    name = re.sub("^(TUMBLE|HOP|SESSION)_", "_", function.name)
    assert name in (Path(__file__).resolve().parents[4] / function.page).read_text()


def test_every_function_that_can_be_called_has_an_example() -> None:
    assert {name for name in callable_names() if not CALLABLE[name].example} == {
        "CURRENT_WATERMARK",
        "PROCTIME",
    }
    without = {name for name, f in SCALAR_FUNCTIONS.items() if not f.description and not is_operator(name)}
    assert without == INTERNAL


@pytest.mark.parametrize(
    ("statement", "code", "hint"),
    [
        ("DESCRIBE CONNECTOR fyles", "SS4004", 'did you mean "files"?'),
        ("DESCRIBE FORMAT cvs", "SS4004", 'did you mean "csv"?'),
        ("DESCRIBE FUNCTION uper", "SS2005", 'did you mean "UPPER"?'),
        ("DESCRIBE FUNCTION CASE", "SS2005", "write CASE WHEN condition THEN"),
        ("DESCRIBE FUNCTION", "SS2001", "name one, as in: DESCRIBE FUNCTION name"),
        ("DESCRIBE CONNECTOR", "SS2001", "name one, as in: DESCRIBE CONNECTOR name"),
        ("SHOW FUNCTION", "SS1001", 'did you mean "FUNCTIONS"?'),
        ("SHOW JOB", "SS1001", 'did you mean "JOBS"?'),
    ],
)
def test_what_is_not_there_is_refused(bare: Planner, statement: str, code: str, hint: str) -> None:
    with pytest.raises(UserError) as raised:
        bare.ddl(statement)
    assert raised.value.code == code
    assert raised.value.hint.startswith(hint)
    assert raised.value.span is not None
