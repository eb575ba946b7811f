"""Statements of Python functions in sessions: made, shown, called, refused, kept, and served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from session_runs import refused, run

from sqlstream.catalog import CatalogManager
from sqlstream.client.catalog.file_catalog import open_file_catalog
from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.sessions.session import Session
from sqlstream.client.statements.explain import explain_plan_of
from sqlstream.errors import SqlStreamError, UserError
from sqlstream.planner.dialect.parser import parse_statements

MODULE = (Path(__file__).parents[2] / "python_functions.py").read_text()
PEOPLE = "(VALUES (1, 'ada b'), (2, 'c'), (3, CAST(NULL AS STRING))) AS t(n, name)"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalClusterClient]:
    made = LocalClusterClient()
    yield made
    made.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "shipped.py").write_text(MODULE)
    return tmp_path


@pytest.fixture
def session(cluster: LocalClusterClient, path: Path) -> Session:
    made = Session(cluster, {"python.files": str(path / "shipped.py")})
    for sql in ("add_one", "repeated", "fetched", "failing", "draw", "words", "Mean", "Seen"):
        run(made, f"CREATE FUNCTION {sql.upper()} AS 'shipped.{sql}' LANGUAGE PYTHON")
    return made


def test_functions_are_called_as_any_other(session: Session) -> None:
    calls = (
        "Add_One(n), default_database.add_one(n + 1), repeated(name, 2), fetched(n), UPPER(repeated(name))"
    )
    query = f"SELECT {calls} FROM {PEOPLE}"
    assert run(session, query) == [
        (2, 3, "ada bada b", "v1", "ADA BADA B"),
        (3, 4, "cc", "v2", "CC"),
        (4, 5, "-", "v3", "-"),
    ]
    # Evaluated where CASE reaches it alone, and anew for each place where it is not deterministic.
    query = f"SELECT CASE WHEN n = 3 THEN -1 ELSE failing(n) END, draw() <> draw() FROM {PEOPLE}"
    assert run(session, query) == [(-5, True), (-10, True), (-1, True)]
    query = f"SELECT n, w, size FROM {PEOPLE} LEFT JOIN LATERAL TABLE(words(name)) AS r (w, size) ON TRUE"
    assert run(session, query) == [(1, "ada", 3), (1, "b", 1), (2, "c", 1), (3, None, None)]
    query = f"SELECT n, w FROM {PEOPLE}, LATERAL TABLE(words(name)) AS r (w, size) WHERE size > 1"
    assert run(session, query) == [(1, "ada")]
    assert run(session, "SELECT * FROM TABLE(words('x yy'))") == [("x", 1), ("yy", 2)]
    run(session, f"CREATE VIEW v AS SELECT n, w FROM {PEOPLE}, LATERAL TABLE(words(name)) AS r (w, size)")
    query = "SELECT COUNT(*) AS c, mean(n, 1) AS m, seen(n + 1) FILTER (WHERE n < 2) AS s FROM v"
    assert run(session, query)[-1][:3] == (3, 4 / 3, "2")
    (statement,) = parse_statements("SELECT add_one(n) FROM v")
    assert "add_one(CAST(n AS BIGINT))" in explain_plan_of(statement, session)


def test_functions_are_listed_described_and_made_again(session: Session) -> None:
    run(session, "CREATE TEMPORARY SYSTEM FUNCTION upper AS 'shipped.repeated' LANGUAGE PYTHON")
    assert run(session, "SELECT UPPER('a')") == [("aa",)]
    run(session, "DROP TEMPORARY SYSTEM FUNCTION Upper")
    assert run(session, "SELECT UPPER('a')") == [("A",)]
    assert [n for (n,) in run(session, "SHOW USER FUNCTIONS LIKE '%e%n'")] == ["mean", "seen"]
    shown = dict(run(session, "DESCRIBE FUNCTION EXTENDED mean"))
    assert shown["signature"] == "mean(v, w)"
    assert shown["accumulator"] == "ROW<`total` BIGINT, `n` BIGINT>"
    assert shown["takes updating input"] == "true"
    assert shown["description"] == "The mean of whole numbers, weighted."
    assert dict(run(session, "DESCRIBE FUNCTION repeated"))["signature"] == "repeated(s[, n])"
    ((text,),) = run(session, "SHOW CREATE FUNCTION mean")
    run(session, "DROP FUNCTION mean")
    assert refused(session, "DROP FUNCTION mean")[0] == "SS2005"
    run(session, "DROP FUNCTION IF EXISTS mean")
    run(session, text)
    assert run(session, "SHOW CREATE FUNCTION mean") == [(text,)]
    run(session, "ALTER FUNCTION mean AS 'shipped.Seen' LANGUAGE PYTHON")
    assert run(session, "SELECT mean(1)")[-1][0] == "1"


def test_a_catalog_of_files_keeps_functions(cluster: LocalClusterClient, path: Path) -> None:
    for number in range(2):
        catalog = open_file_catalog(str(path / "catalog"))
        session = Session(cluster, catalogs=CatalogManager(catalog))
        if number == 0:
            run(
                session,
                f"CREATE FUNCTION add_one AS 'shipped.add_one' LANGUAGE PYTHON USING FILE '{path}/shipped.py'",
            )
        assert run(session, "SELECT add_one(1)") == [(2,)]
        catalog.close()
    (kept,) = (path / "catalog").rglob("functions/*.json")
    kept.write_text("{")
    session = Session(cluster, catalogs=CatalogManager(open_file_catalog(str(path / "catalog"))))
    assert refused(session, "SELECT add_one(1)")[0] == "SS5020"
    run(session, "DROP FUNCTION add_one")
    assert refused(session, "SELECT add_one(1)")[0] == "SS2005"


def test_a_corrected_module_is_imported_anew(session: Session, path: Path) -> None:
    assert run(session, "SELECT add_one(1)") == [(2,)]
    (path / "shipped.py").write_text(MODULE.replace("return n + 1", "return n + 100"))
    assert run(session, "SELECT add_one(1)") == [(101,)]
    (path / "shipped.py").write_text(MODULE.replace("def add_one(n: int)", "def add_one(n: int, m: int)"))
    code, message, place = refused(session, "SELECT 1 + add_one(1)")
    assert (code, place) == ("SS5132", "add_one(1)")
    assert message == 'Python object "shipped.add_one" has changed since function add_one was created'


def create(name: str, more: str = "") -> str:
    return f"CREATE FUNCTION f AS '{name}' LANGUAGE PYTHON{more}"


@pytest.mark.parametrize(
    ("text", "code", "message", "place"),
    [
        (create("none.f"), "SS2031", 'there is no Python module "none"', "'none.f'"),
        (create("shipped.g"), "SS2031", 'Python module "shipped" has no "g"', "'shipped.g'"),
        (
            create("shipped.undecorated"),
            "SS2031",
            'Python object "shipped.undecorated" is no function',
            "'shipped.undec",
        ),
        (
            create("os.system"),
            "SS2031",
            'Python object "os.system" is no function of sqlstream',
            "'os.system'",
        ),
        (create("shipped"), "SS2031", "'shipped' names no object of a Python module", "'shipped'"),
        (
            create("shipped.no_type"),
            "SS2032",
            'shipped.no_type is declared wrongly: "BIGNUM" is no type',
            "'shipped.no",
        ),
        (
            create("m.f", " USING FILE '/no/m.py'"),
            "SS2033",
            'the Python file "/no/m.py" does not exist',
            "'/no/m.py'",
        ),
        ("CREATE FUNCTION mean AS 'm.f' LANGUAGE PYTHON", "SS2013", 'function "mean" exists already', "mean"),
        (
            "CREATE TEMPORARY SYSTEM FUNCTION a.b AS 'm.f' LANGUAGE PYTHON",
            "SS2035",
            "a system function is in no",
            "a.b",
        ),
        ("SELECT add_one(1, 2)", "SS2006", "add_one takes 1 argument, not 2", "add_one(1, 2)"),
        ("SELECT 1, add_one('a')", "SS2006", "add_one cannot be applied to (CHAR(1))", "add_one('a')"),
        ("SELECT words('a')", "SS2030", "table function words has no place here", "words('a')"),
        (
            "SELECT * FROM TABLE(add_one(1))",
            "SS2030",
            "add_one is a scalar function, and makes no rows",
            "add_one(1)",
        ),
        ("SELECT add_one(1) OVER ()", "SS2006", "add_one takes no OVER", "add_one(1) OVER ()"),
        (
            "SELECT n FROM (VALUES 1) AS t(n) WHERE mean(n, 1) > 0",
            "SS2009",
            "aggregate MEAN has no place",
            "mean(n, 1)",
        ),
        (
            "SELECT d.add_one(1)",
            "SS2005",
            'function "default_catalog.d.add_one" does not exist',
            "d.add_one(1)",
        ),
        (
            "SELECT seen(c) FROM (SELECT COUNT(*) AS c FROM (VALUES 1, 1) AS t(n) GROUP BY n)",
            "SS3011",
            "aggregate seen has no retract",
            "SELECT",
        ),
        (
            f"SELECT 1, failing(n) FROM {PEOPLE}",
            "SS5130",
            "Python function failing failed for (3)",
            "failing(n)",
        ),
        (
            "SET 'execution.runtime-mode' = 'batch'; SET 'execution.batch.engine' = 'duckdb'; "
            "SELECT mean(n, 1) FROM (VALUES 1) AS t(n)",
            "SS3301",
            "Python aggregate mean has no exact counterpart",
            "SELECT",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    session: Session, text: str, code: str, message: str, place: str
) -> None:
    found = refused(session, text)
    assert (found[0], found[1][: len(message)]) == (code, message)
    assert found[2].startswith(place)


def test_an_import_that_fails_shows_the_traceback_of_the_module(session: Session, path: Path) -> None:
    (path / "broken.py").write_text("import shipped\n\ndef f():\n    raise ValueError('no')\n\nf()\n")
    run(session, f"SET 'python.files' = '{path}/shipped.py, {path}/broken.py'")
    with pytest.raises(UserError) as caught:
        run(session, create("broken.f"))
    assert caught.value.code == "SS2031"
    assert "ValueError: no" in caught.value.message
    assert [line.split()[-1] for line in caught.value.detail.splitlines() if "File" in line] == [
        "<module>",
        "f",
    ]


def test_a_package_that_is_not_installed_is_named_with_what_to_do(session: Session, path: Path) -> None:
    late = "@udf\ndef late(n: int) -> int:\n    import no_pandas.core\n"
    (path / "needing.py").write_text("import no_polars\n")
    (path / "later.py").write_text(f"from sqlstream import udf\n{late}")
    run(session, f"SET 'python.files' = '{path}/needing.py, {path}/later.py'")
    with pytest.raises(UserError) as at_import:
        run(session, create("needing.f"))
    run(session, "CREATE FUNCTION late AS 'later.late' LANGUAGE PYTHON")
    with pytest.raises(SqlStreamError) as at_call:
        run(session, f"SELECT late(n) FROM {PEOPLE}")
    for caught, code, package in ((at_import, "SS2031", "no_polars"), (at_call, "SS5130", "no_pandas")):
        assert (caught.value.code, getattr(caught.value, "span", None) is not None) == (code, True)
        assert caught.value.hint.startswith(f"install {package} where the TaskManagers run")


def test_a_server_imports_in_a_task_and_only_where_it_is_allowed(
    cluster: LocalClusterClient, path: Path
) -> None:
    config = {"python.files": str(path)}
    session = Session(cluster, config, is_served=True, allows_python=False)
    assert refused(session, create("shipped.add_one"))[0] == "SS2034"
    session = Session(cluster, config, is_served=True)
    run(session, create("shipped.add_one"))
    assert "inspect" in {job.name for job in cluster.jobs()}
    assert run(session, "SELECT f(1)") == [(2,)]
    code, _, place = refused(session, "CREATE FUNCTION g AS 'shipped.g' LANGUAGE PYTHON")
    assert (code, place) == ("SS2031", "'shipped.g'")
