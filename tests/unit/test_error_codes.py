"""An error code has one meaning."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

MEANINGS = {
    "SS1003": "a form of SQL that is not supported",
    "SS2001": "no such table",
    "SS2002": "an object of another kind",
    "SS2003": "no such column",
    "SS2005": "no such function",
    "SS2008": "a value of another type than is wanted",
    "SS2010": "a type that the place does not take",
    "SS2011": "columns or options that do not make a table",
    "SS2012": "a name given twice",
    "SS2014": "no such catalog or database",
    "SS2034": "Python functions where they are not allowed",
    "SS3001": "a feature that is not supported",
    "SS3019": "a statement that is too large",
    "SS3030": "a lookup join without a column to look up by",
    "SS3090": "keys and time zones that operators do not take",
    "SS3091": "a Top-N that keeps too many ranks",
    "SS3101": "an argument that must be a constant",
    "SS3102": "a value of a type that a function does not take",
    "SS3301": "what a batch engine has no exact counterpart for",
    "SS3452": "a clause or argument of a JSON function that has no meaning there",
    "SS4001": "no such option or nothing to run",
    "SS4002": "a value that an option does not take",
    "SS4003": "an option that has no use there",
    "SS4004": "no such connector, format or catalog type",
    "SS4005": "an option that is missing",
    "SS4006": "a format that cannot carry a column",
    "SS4015": "a package whose connector, format, catalog or function cannot be used",
    "SS4040": "an address that is wrong or missing",
    "SS5001": "a file that cannot be read or written",
    "SS5011": "data that cannot be decoded",
    "SS5030": "a path outside of the directories that a server allows",
    "SS5102": "a value of a row that a function or cast cannot take",
    "SS6003": "too few slots",
    "SS6005": "a task that does not react to its cancellation",
    "SS6009": "no such job",
    "SS6023": "a job that was cancelled, so that rows are missing",
    "SS9001": "our bug",
}
"""Codes that more than one package raises. A code that is added here has the same meaning, family and remedy in all of them."""


def _codes(call: ast.Call) -> Iterator[str]:
    values = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "code")]
    for value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            text = value.value
            if len(text) == 6 and text.startswith("SS") and text[2:].isdigit():
                yield text


@functools.cache
def _raised() -> dict[str, set[str]]:
    """The packages that make an error of each code."""
    found: dict[str, set[str]] = defaultdict(set)
    for root in ("client", "planner", "runtime", "sqlstream"):
        for path in (ROOT / root).rglob("*.py"):
            text, place = path.read_text(), path.relative_to(ROOT)
            for node in ast.walk(ast.parse(text)) if '"SS' in text else ():
                for code in _codes(node) if isinstance(node, ast.Call) else ():
                    found[code].add("/".join(place.parts[:2]))
    return found


def test_a_code_that_several_packages_raise_has_one_written_meaning() -> None:
    shared = {code: sorted(places) for code, places in _raised().items() if len(places) > 1}
    assert len(shared) > 10
    assert {code: places for code, places in shared.items() if code not in MEANINGS} == {}
    assert set(MEANINGS) - set(shared) == set()


def test_the_codes_of_the_gateway_are_its_own() -> None:
    """SQLAlchemy gives a connection up for SS6020, and clients open a session again."""
    raised = _raised()
    for code in ("SS6020", "SS6021", "SS6022", "SS6024", "SS6025", "SS6026", "SS6027", "SS6028"):
        assert raised[code] == {"client/gateway"}


def test_a_dead_connection_is_told_by_codes_of_the_connection_and_the_session() -> None:
    from sqlstream.client.sqlalchemy_dialect.dialect import _GONE

    raised = _raised()
    assert {place for code in _GONE for place in raised[code]} <= {"client/connection", "client/gateway"}


def test_functions_fail_for_rows_alone_where_they_are_computed() -> None:
    """What no row could make work is refused by the signature (`ScalarFunction.check`), before there is a task."""
    found = {code for code, places in _raised().items() if "runtime/evaluate" in places}
    assert len(found) > 5
    assert {code for code in found if not code.startswith(("SS51", "SS9"))} == set()
