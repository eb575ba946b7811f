"""An error code has one meaning."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream import config
from sqlstream.error_codes import ErrorCode, FailureReason, Family, Retry, error_code, parse_code, sections
from sqlstream.errors import ExternalError, JobError, UserError
from sqlstream.models import PROVIDERS

ROOT = Path(__file__).parents[2]
TABLE_OPTIONS = (
    "lookup.full-cache.max-rows",
    "lookup.cache",
    "changelog.op-column",
    "scan.watermark.emit.strategy",
    *(option.key for provider in PROVIDERS.values() for option in provider.options),
)

CLASSES = {
    "UserError": {Family.USER},
    "ExternalError": {Family.OUTSIDE},
    "JobError": {Family.JOB},
    "error_info": set(Family),
}
CODES = {found.code: found for codes in sections().values() for found in codes}


@functools.cache
def _trees() -> dict[str, ast.Module]:
    """Every module of the product that names a code, by its path."""
    paths = [p for root in ("client", "planner", "runtime", "sqlstream") for p in (ROOT / root).rglob("*.py")]
    found = {str(p.relative_to(ROOT)): p.read_text() for p in paths if "/testing/" not in str(p)}
    return {path: ast.parse(text) for path, text in found.items() if '"SS' in text}


def _codes(*nodes: ast.expr) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and re.fullmatch(r"SS\d{4}", str(node.value)):
            yield str(node.value)


def _beginning(message: ast.expr) -> str:
    """Of a message, up to its first value."""
    first = message.values[0] if isinstance(message, ast.JoinedStr) else message
    return str(first.value) if isinstance(first, ast.Constant) else ""


def _calls() -> Iterator[tuple[str, str, ast.Call]]:
    """The code, the module and the call that makes an error of it."""
    for path, tree in _trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                named = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
                yield from ((code, path, node) for code in _codes(*node.args[:1], *named))


@functools.cache
def _raised() -> dict[str, set[str]]:
    """The packages that make an error of each code."""
    found: dict[str, set[str]] = defaultdict(set)
    for code, path, _ in _calls():
        found[code].add("/".join(Path(path).parts[:2]))
    return found


def test_every_code_stands_in_the_table_and_every_code_of_the_table_is_used() -> None:
    used = {code for tree in _trees().values() for node in ast.walk(tree) for code in _codes(node)}  # type: ignore[arg-type]
    assert used == CODES.keys()


def test_an_error_is_of_a_class_that_its_code_has_in_the_table() -> None:
    wrong = [
        (code, path, call.lineno)
        for code, path, call in _calls()
        if isinstance(call.func, ast.Name) and call.func.id in CLASSES
        if not CLASSES[call.func.id] & {*CODES[code].families}
    ]
    assert wrong == []


def test_no_error_repeats_what_its_code_says() -> None:
    """A hint, reason or retry that the table fixes stands there alone."""
    repeated = []
    for code, path, call in _calls():
        said = {k.arg: ast.unparse(k.value) for k in call.keywords}
        found = CODES[code]
        reason = f"FailureReason.{found.reason.name}" if found.reason else ""
        is_repeated = said.get("reason") == reason or said.get("retry") == f"Retry.{found.retry.name}"
        if (
            isinstance(call.func, ast.Name)
            and call.func.id in CLASSES
            and (is_repeated or (found.hint and not found.has_default_hint and "hint" in said))
        ):
            repeated.append((code, path, call.lineno))
    assert repeated == []


def test_an_error_of_an_option_names_it_for_its_place() -> None:
    """A connector or format knows no positions: who knows them goes by `UserError.option`."""
    nameless = [
        (path, call.lineno)
        for code, path, call in _calls()
        if path.startswith(("runtime/connectors/", "runtime/formats/", "sqlstream/spi/lookup"))
        and code in ("SS4002", "SS4003", "SS4005")
        and _beginning(call.args[1]).startswith(('option "', 'options "', "'"))
        and not {"option", "column"} & {keyword.arg for keyword in call.keywords}
    ]
    assert nameless == []


def test_who_can_mend_an_error_is_told_how() -> None:
    """What its user or who runs something outside can mend has a hint: its own, or that of its code. Nothing is to be done after
    SS5308."""
    silent = [
        (code, path, call.lineno)
        for code, path, call in _calls()
        if isinstance(call.func, ast.Name)
        and call.func.id in ("UserError", "ExternalError")
        and not (CODES[code].hint or {"hint", None} & {keyword.arg for keyword in call.keywords})
    ]
    assert {code for code, _, _ in silent} == {"SS5308"}, silent
    # The hints of streams are those of their codes.
    assert [c for c, found in CODES.items() if c.startswith("SS53") and not found.hint] == ["SS5308"]
    assert UserError("SS5345", "too large").hint.startswith("ask for less at once")
    assert UserError("SS5345", "too large", hint="this one").hint == "this one"


def test_the_hint_of_a_statement_that_is_refused_is_not_empty() -> None:
    """A hint that is searched for, as "did you mean", may be found empty. The words of SS1001 say what was expected."""
    refusals = [
        (path.name, refusal)
        for path in (ROOT / "tests" / "golden" / "errors").rglob("*.out")
        for refusal in re.findall(r"(?ms)^error\[.*?(?=^error\[|\Z)", path.read_text())
        if not refusal.startswith("error[SS1001]")
    ]
    assert len(refusals) > 500
    assert [(name, text) for name, text in refusals if "\nhint: " not in text] == []


@pytest.mark.parametrize("code", CODES.values(), ids=list(CODES))
def test_meaning_and_remedy_are_sentences_that_name_options_there_are(code: ErrorCode) -> None:
    assert code.families
    assert all(re.fullmatch(r"\S.*\.", text) for text in (code.meaning, code.remedy))
    keys = re.findall(r"'([a-z][a-z0-9-]*(?:\.[a-z0-9-]+)+)'", f"{code.meaning} {code.remedy}")
    assert [key for key in keys if key not in TABLE_OPTIONS and config.option(key).description == ""] == []


def test_a_code_of_another_package_has_the_defaults() -> None:
    assert error_code("X1") is None
    assert error_code("SS") is None
    error = ExternalError("X1", "gone")
    assert (error.hint, error.retry, error.reason) == ("", Retry.NEVER, FailureReason.EXTERNAL)
    assert JobError("X1", "gone").reason is FailureReason.INTERNAL


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


def test_a_word_that_the_table_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match=r"says BACKOF of SS9999"):
        parse_code(["SS9999", "OUTSIDE", "BACKOF"], "What it means.", "What to do.")
