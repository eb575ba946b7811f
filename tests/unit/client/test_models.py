"""Models in sessions: made, altered, shown, called, kept and refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_runs import refused, run

from sqlstream.catalog import DEFAULT_CATALOG, DEFAULT_DATABASE, ObjectPath
from sqlstream.client.catalog.catalogs import kept_catalogs
from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.gateway.kept_sessions import go_on, kept_session
from sqlstream.client.sessions.session import Session
from sqlstream.client.statements.explain import explain_plan_of
from sqlstream.effects import Permit, Right
from sqlstream.errors import SqlStreamError
from sqlstream.graph.artifacts import Artifact
from sqlstream.models import MODEL_FILE
from sqlstream.planner.dialect.parser import parse_statement

MODULE = '''
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlstream import PredictFunction, udf


class Scaled(PredictFunction):
    """Adds and scales."""

    def open(self, options):
        self.factor = float(options.get("factor", "1"))
        if "path" in options:
            self.factor = float(open(options["path"]).read())

    def predict(self, batch):
        total = pc.multiply(pc.add(batch.column("x"), batch.column("y")), self.factor)
        return {"rows": [batch.num_rows] * batch.num_rows, "total": total}


class Same(PredictFunction):
    def predict(self, batch):
        return batch.columns


class Wrong(PredictFunction):
    def open(self, options):
        self.what = options["what"]

    def predict(self, batch):
        if self.what == "raises":
            return 1 / 0
        return {"few": [[], []], "names": {"total": [1], "x": [2]}, "none": None, "one": [[1.0]],
                "number": 1.0, "empty": {"total": np.array(1.0), "rows": [1, 1]}, "number of": {"total": 1.0, "rows": [1, 1]},
                "wide": {"total": np.ones((2, 2)), "rows": [1, 1]}}[self.what]


class Idle(PredictFunction):
    pass


@udf(result_type="INT")
def one():
    return 1
'''
COLUMNS = "INPUT (x DOUBLE, y DOUBLE) OUTPUT (total DOUBLE, `rows` BIGINT)"
TABLES = """
CREATE VIEW t AS SELECT * FROM (VALUES ('a', 1, 0.5), ('b', 2, CAST(NULL AS DECIMAL(2, 1))), ('c', 3, 1.5)) AS t (k, x, y);
CREATE VIEW changing AS SELECT k, COUNT(*) AS x, SUM(y) AS y FROM t GROUP BY k;
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    import skl2onnx
    from sklearn.linear_model import LinearRegression

    (tmp_path / "model_classes.py").write_text(MODULE)
    (tmp_path / "factor.txt").write_text("10")
    x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.float32)
    made = skl2onnx.to_onnx(LinearRegression().fit(x, x @ [2, 3]), x[:1])
    (tmp_path / "linear.onnx").write_bytes(made.SerializeToString())
    return tmp_path


@pytest.fixture
def session(directory: Path) -> Iterator[Session]:
    cluster = LocalClusterClient()
    made = Session(cluster)
    run(made, TABLES)
    yield made
    cluster.close()


def python(directory: Path, name: str = "Scaled", **options: str) -> str:
    given = {
        "provider": "python",
        "class": f"model_classes.{name}",
        "files": f"{directory}/model_classes.py",
        **options,
    }
    shown = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    return f"WITH ({shown})"


def scaled(directory: Path, **options: str) -> str:
    return f"CREATE MODEL m {COLUMNS} {python(directory, **options)}"


def test_all_columns_of_the_table_come_before_the_outputs(session: Session, directory: Path) -> None:
    run(session, scaled(directory, **{"option.factor": "2"}))
    rows = [("a", 1, 3.0, 2), ("b", 2, None, None), ("c", 3, 9.0, 2)]
    for call in (
        "ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(x, y))",
        "ML_PREDICT(TABLE (SELECT * FROM t), MODEL default_database.m, DESCRIPTOR(x, y), MAP['async', 'false'])",
        "TABLE(ML_PREDICT(INPUT => TABLE t, MODEL => MODEL m, ARGS => DESCRIPTOR(x, y)))",
        "ml_predict(args => DESCRIPTOR(x, y), model => MODEL m, input => TABLE t)",
    ):
        assert run(session, f"SELECT k, x, total, `rows` FROM {call}") == rows, call
    call = "ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(x, y)) AS p"
    assert [row[-2:] for row in run(session, f"SELECT * FROM {call}")] == [row[-2:] for row in rows]
    assert run(session, f"SELECT p.total FROM {call} JOIN t ON t.k = p.k WHERE t.k = 'c'") == [(9.0,)]
    # Only rows that are left are given to the model, and none where nothing of it is read.
    assert run(session, f"SELECT `rows` FROM {call} WHERE k = 'a'") == [(1,)]
    assert run(session, f"SELECT SUM(total) FROM {call}") == [(12.0, 0)]
    (statement,) = [parse_statement(f"SELECT k FROM {call}")]
    assert "MLPredict" not in explain_plan_of(statement, session)
    run(
        session,
        f"CREATE MODEL named INPUT (a DOUBLE, b DOUBLE) OUTPUT (x DOUBLE) {python(directory, 'Wrong', **{'option.what': 'one'})}",
    )
    assert run(
        session,
        "SELECT x, x0 FROM ML_PREDICT(TABLE (SELECT * FROM t WHERE k = 'a'), MODEL named, DESCRIPTOR(x, y))",
    ) == [(1, 1.0)]
    run(
        session,
        f"ALTER MODEL m SET ('batch-size' = '1'); ALTER MODEL m RESET ('option.factor');"
        f" CREATE VIEW seen AS SELECT * FROM {call}",
    )
    assert run(session, "SELECT total, `rows` FROM seen WHERE k <> 'b'") == [(1.5, 1), (4.5, 1)]
    assert run(session, "ALTER MODEL m RENAME TO n; SHOW MODELS") == [("n",), ("named",)]
    assert refused(session, "SELECT * FROM seen")[0] == "SS3463"


def test_models_are_made_shown_and_dropped_as_flink_has_it(session: Session, directory: Path) -> None:
    columns = "INPUT (x DOUBLE NOT NULL, y DOUBLE COMMENT 'second') OUTPUT (total DOUBLE, `rows` BIGINT)"
    run(
        session,
        f"CREATE MODEL m {columns} COMMENT 'it''s' {python(directory, **{'option.token': 'hunter22'})}",
    )
    assert run(session, "DESCRIBE MODEL m") == [
        ("x", "DOUBLE", False, True, None),
        ("y", "DOUBLE", True, True, "second"),
        ("total", "DOUBLE", True, False, None),
        ("rows", "BIGINT", True, False, None),
    ]
    ((shown,),) = run(session, "SHOW CREATE MODEL m")
    assert "hunter22" not in shown
    assert "'option.token' = '******'" in shown
    run(session, f"DROP MODEL m; {shown}")
    assert run(session, "SHOW CREATE MODEL m") == [(shown,)]
    run(session, f"CREATE TEMPORARY MODEL m INPUT (z INT) OUTPUT (total DOUBLE) {python(directory)}")
    assert run(session, "DESCRIBE MODEL EXTENDED default_database.m")[0] == ("z", "INT", True, True)
    assert refused(session, "DROP MODEL m")[:2] == ("SS2002", '"m" is a temporary model')
    assert run(session, "DROP TEMPORARY MODEL m; DESCRIBE MODEL m")[0][0] == "x"
    run(session, f"CREATE MODEL other {COLUMNS} {python(directory)}")
    assert run(session, "SHOW MODELS FROM default_database NOT LIKE 'm%'") == [("other",)]
    run(session, f"CREATE MODEL IF NOT EXISTS m INPUT (q INT) OUTPUT (r INT) {python(directory)}")
    assert run(session, "DESCRIBE MODEL m")[0][0] == "x"
    run(session, "DROP MODEL m; DROP MODEL IF EXISTS m; ALTER MODEL IF EXISTS m SET ('batch-size' = '1')")
    # A table may have the name.
    assert run(session, "CREATE VIEW other AS SELECT 1 AS a; SELECT * FROM other") == [(1,)]


@pytest.mark.parametrize(
    ("statement", "code", "underlined"),
    [
        ("CREATE MODEL m {columns} {python}", "SS2013", "m"),
        ("CREATE MODEL n INPUT (x INT, x INT) OUTPUT (y INT) {python}", "SS2012", "x INT"),
        ("CREATE MODEL n INPUT (x INT, y AS 2) OUTPUT (y INT) {python}", "SS3464", "y AS 2"),
        ("CREATE MODEL n {columns} WITH ('provder' = 'onnx')", "SS4005", "'provder' = 'onnx'"),
        ("CREATE MODEL n {columns} WITH ('provider' = 'onx')", "SS4004", "'onx'"),
        ("CREATE MODEL n {columns} WITH ('provider' = 'sagemaker')", "SS4004", "'sagemaker'"),
        ("CREATE MODEL n {columns} WITH ('provider' = 'onnx')", "SS4005", "'provider' = 'onnx'"),
        ("CREATE MODEL n {columns} WITH ('provider' = 'onnx', 'path' = 'nix')", "SS5088", "'nix'"),
        ("CREATE MODEL n {columns} WITH ('provider' = 'onnx', 'path' = '/proc/self/mem')", "SS5001", ""),
        ("CREATE MODEL n {columns} WITH ('provider' = 'onnx', 'pth' = 'nix')", "SS4003", "'pth'"),
        ("ALTER MODEL m SET ('batch-size' = '0')", "SS4002", "'0'"),
        ("ALTER MODEL m RESET ('batch')", "SS4003", "'batch'"),
        ("ALTER MODEL m RESET ('class')", "SS4005", "'class'"),
        ("ALTER MODEL m SET ()", "SS2011", "ALTER MODEL m SET ()"),
        ("ALTER MODEL m SET ('class' = 'Scaled')", "SS2031", "'Scaled'"),
        ("ALTER MODEL m SET ('class' = 'model_classes.one')", "SS2031", "'model_classes.one'"),
        ("ALTER MODEL m SET ('class' = 'model_classes.Idle')", "SS2031", "'model_classes.Idle'"),
        ("ALTER MODEL m SET ('files' = 'nix.py')", "SS2033", "'nix.py'"),
        ("ALTER MODEL m RENAME TO other.n", "SS2011", "other.n"),
        ("ALTER MODEL q RENAME TO n", "SS3463", "q"),
        ("DROP MODEL n", "SS3463", "n"),
        ("CREATE FUNCTION f AS 'model_classes.Scaled' LANGUAGE PYTHON {files}", "SS2031", "'model_classes.Scaled'"),
        ("SELECT * FROM ML_PREDICT(TABLE t, MODEL n, DESCRIPTOR(x, y))", "SS3463", "MODEL n"),
        ("SELECT * FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(x))", "SS3465", "DESCRIPTOR(x)"),
        ("SELECT * FROM ML_PREDICT(TABLE t, DESCRIPTOR(x, y))", "SS3465", "DESCRIPTOR(x, y)"),
        ("SELECT * FROM ML_PREDICT(TABLE t, MODEL m)", "SS3465", "ML_PREDICT(TABLE t, MODEL m)"),
        ("SELECT * FROM ML_PREDICT(input => TABLE t, MODEL m)", "SS3465", "MODEL m"),
        ("SELECT * FROM ML_PREDICT(nput => TABLE t)", "SS3465", "nput => TABLE t"),
        ("SELECT * FROM ML_PREDICT(TABLE t PARTITION BY k, MODEL m, DESCRIPTOR(x, y))", "SS3465", "TABLE t PARTITION BY k"),
        ("SELECT * FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(x, k))", "SS3466", "k"),
        ("SELECT * FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(x, z))", "SS2003", "z"),
        ("SELECT * FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(x, y), MAP['async', 'true'])", "SS3465", "'async'"),
        ("SELECT * FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(x, y), MAP['timeout', '1 s'])", "SS3465", "'timeout'"),
        ("SELECT * FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(x, y), MAP['asnc', '1 s'])", "SS3465", "'asnc'"),
        ("SELECT * FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(x, y), 'async')", "SS3465", "'async'"),
        ("SELECT * FROM ML_EVALUATE(TABLE t, MODEL m, DESCRIPTOR(x), DESCRIPTOR(x, y))", "SS3465", "{evaluated})"),
        ("SELECT * FROM {evaluated}, 'clustering')", "SS3465", "'clustering'"),
        ("SELECT * FROM {evaluated}, 'regression')", "SS3465", "DESCRIPTOR(x)"),
        ("SELECT * FROM {one}, DESCRIPTOR(k), DESCRIPTOR(x), 'regression')", "SS3466", "DESCRIPTOR(k)"),
        ("SELECT * FROM {one}, DESCRIPTOR(k), DESCRIPTOR(x), 'classification')", "SS3466", "DESCRIPTOR(k)"),
        ("SELECT * FROM {one}, DESCRIPTOR(x, y), DESCRIPTOR(x), 'regression')", "SS3465", "DESCRIPTOR(x, y)"),
        (
            "SELECT total FROM ML_PREDICT(TABLE changing, MODEL m, DESCRIPTOR(x, y))",
            "SS3011",
            "ML_PREDICT(TABLE changing, MODEL m, DESCRIPTOR(x, y))",
        ),
        ("SET 'execution.runtime-mode' = 'batch'; {duckdb}; SELECT total FROM {call}", "SS3301", "{call}"),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused_at_its_place(
    session: Session, directory: Path, statement: str, code: str, underlined: str
) -> None:
    run(session, scaled(directory))
    run(session, f"CREATE MODEL one INPUT (x INT) OUTPUT (total DOUBLE) {python(directory)}")
    parts = {
        "one": "ML_EVALUATE(TABLE t, MODEL one",
        "evaluated": "ML_EVALUATE(TABLE t, MODEL m, DESCRIPTOR(x), DESCRIPTOR(x, y)",
        "columns": COLUMNS,
        "python": python(directory),
        "files": f"USING FILE '{directory}/model_classes.py'",
        "duckdb": "SET 'execution.batch.engine' = 'duckdb'",
        "call": "ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(x, y))",
    }
    found = refused(session, statement.format(**parts))
    assert (found[0], found[2]) == (code, underlined.format(**parts)), found


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ("raises", "SS5130", "Python function bad.predict failed: ZeroDivisionError"),
        ("few", "SS5433", 'model "bad" returned 0 values of "total" for 2 rows'),
        ("names", "SS5433", 'model "bad" returned columns total, x, and OUTPUT has total, rows'),
        ("none", "SS5433", 'model "bad" returned NoneType'),
        ("one", "SS5433", 'model "bad" returned 1 columns'),
        ("number", "SS5433", 'model "bad" returned float'),
        ("number of", "SS5131", 'output "total" of model bad is a value of type float, which is no column'),
        ("empty", "SS5131", 'output "total" of model bad is a value of type ndarray, which is no column'),
        ("wide", "SS5131", 'output "total" of model bad returned'),
    ],
)
def test_what_a_class_does_wrong_is_said(
    session: Session, directory: Path, what: str, code: str, said: str
) -> None:
    run(session, f"CREATE MODEL bad {COLUMNS} {python(directory, 'Wrong', **{'option.what': what})}")
    found = refused(session, "SELECT total FROM ML_PREDICT(TABLE t, MODEL bad, DESCRIPTOR(x, y))")
    assert found[0] == code
    assert said in found[1]


def test_a_failure_before_the_first_row_is_not_said_to_be_one_of_rows(
    session: Session, directory: Path
) -> None:
    run(session, f"CREATE MODEL bad {COLUMNS} {python(directory, 'Wrong')}")
    with pytest.raises(SqlStreamError, match=r"bad\.open failed: KeyError: 'what'") as caught:
        run(session, "SELECT total FROM ML_PREDICT(TABLE t, MODEL bad, DESCRIPTOR(x, y))")
    assert caught.value.hint == "correct model_classes.Wrong, or what it is given"


ROWS = st.lists(
    st.tuples(st.integers(-2, 3), st.one_of(st.none(), st.integers(-2, 3))), min_size=1, max_size=20
)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    directory = tmp_path_factory.mktemp("measured")
    (directory / "model_classes.py").write_text(MODULE)
    cluster = LocalClusterClient()
    made = Session(cluster)
    run(made, f"CREATE MODEL same INPUT (x INT) OUTPUT (x INT) {python(directory, 'Same')}")
    yield made
    cluster.close()


@settings(max_examples=15, deadline=None)
@given(ROWS)
def test_measures_are_those_of_scikit_learn(measured: Session, rows: list[tuple[int, int | None]]) -> None:
    values = ", ".join(f"({f}, CAST({'NULL' if y is None else y} AS INT))" for f, y in rows)
    table = f"(SELECT * FROM (VALUES {values}) AS t (x, y))"
    call = f"ML_EVALUATE(TABLE {table}, MODEL same, DESCRIPTOR(y), DESCRIPTOR(x)"
    known = [(f, y) for f, y in rows if y is not None]
    *_, (*found, _) = run(measured, f"SELECT * FROM {call}, 'regression')")
    *_, (*classes, _) = run(measured, f"SELECT * FROM {call}, 'classification')")
    assert found[0] == classes[0] == len(known)
    if not known:
        assert found[1:] == classes[1:] == [None] * 4
        return
    said, labels = [f for f, _ in known], [y for _, y in known]
    from sklearn import metrics

    mse = metrics.mean_squared_error(labels, said)
    assert found[1:4] == pytest.approx([metrics.mean_absolute_error(labels, said), mse, mse**0.5])
    assert found[4] == (pytest.approx(metrics.r2_score(labels, said)) if len(set(labels)) > 1 else None)
    macro = metrics.precision_recall_fscore_support(labels, said, average="macro", zero_division=0)
    assert classes[1:] == pytest.approx([metrics.accuracy_score(labels, said), *macro[:3]])


def test_the_file_of_a_model_goes_with_its_job_by_its_digest(session: Session, directory: Path) -> None:
    linear = directory / "linear.onnx"
    run(
        session,
        f"CREATE MODEL p INPUT (a DOUBLE, b DOUBLE) OUTPUT (v DOUBLE) WITH ('provider' = 'onnx', 'path' = '{linear}')",
    )
    text = "SELECT ROUND(v, 3) FROM ML_PREDICT(TABLE (SELECT * FROM t WHERE k <> 'b'), MODEL p, DESCRIPTOR(x, y))"
    version = hashlib.sha256(linear.read_bytes()).hexdigest()
    assert f"version={version[:12]}" in explain_plan_of(parse_statement(text), session)
    plan = session.compile(parse_statement(text))
    assert plan.job_graph.artifacts == (Artifact(MODEL_FILE + version, version, linear.stat().st_size),)
    # What was planned goes on with the file that it was planned with.
    linear.write_bytes(b"no model")
    job = session.submit(plan)
    rows = [row for batch in job.rows() for row in batch.to_pylist()]
    assert [tuple(row.values()) for row in rows] == [(3.5,), (10.5,)]
    assert refused(session, text)[0] == "SS5431"
    run(session, scaled(directory, path=f"{directory}/factor.txt"))
    assert run(session, "SELECT total FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(x, y)) WHERE k = 'a'") == [
        (15.0,)
    ]


def test_state_behind_a_model_is_that_of_its_next_version(session: Session, directory: Path) -> None:
    run(session, scaled(directory, path=f"{directory}/factor.txt"))
    text = "SELECT k, SUM(total) FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(x, y)) GROUP BY k"

    def states() -> list[str]:
        graph = session.compile(parse_statement(text)).job_graph
        return [o.state.id for v in graph.vertices for o in v.operators if o.state is not None]

    before = states()
    (directory / "factor.txt").write_text("11")
    assert states() == before != []
    run(session, "ALTER MODEL m RENAME TO n")
    text = text.replace("MODEL m", "MODEL n")
    assert states() != before


def test_models_are_kept_in_files_and_with_sessions(directory: Path, tmp_path: Path) -> None:
    cluster = LocalClusterClient()
    try:
        first = Session(cluster, catalogs=kept_catalogs(str(tmp_path / "kept")))
        run(first, f"CREATE CATALOG c WITH ('type' = 'file', 'path' = '{tmp_path}/c'); USE CATALOG c")
        run(first, "CREATE DATABASE d; CREATE DATABASE e; USE d")
        run(first, f"{scaled(directory)}; CREATE MODEL gone {COLUMNS} {python(directory)}; DROP MODEL gone")
        run(first, "ALTER MODEL m RENAME TO n; ALTER MODEL n SET ('batch-size' = '5')")
        run(first, f"CREATE TEMPORARY MODEL mine {COLUMNS} {python(directory)}")
        assert "is not empty" in refused(first, "USE e; DROP DATABASE d")[1]
        run(first, "USE d")
        kept = kept_session(first, first.config, ({}, {}), "s", 0)
        second = Session(cluster, catalogs=kept_catalogs(str(tmp_path / "kept")))
        go_on(second, kept)
        assert run(second, "SHOW MODELS") == [("mine",), ("n",)]
        assert "'batch-size' = '5'" in run(second, "SHOW CREATE MODEL n")[0][0]
        (file,) = (tmp_path / "c").rglob("n.json")
        file.write_text('{"format": 1, "kind": "MODEL"}')
        third = Session(cluster, catalogs=kept_catalogs(str(tmp_path / "kept")))
        run(third, "USE CATALOG c; USE d")
        assert run(third, "SHOW MODELS") == []
        assert refused(third, "DESCRIBE MODEL n")[0] == "SS5020"
        run(third, "DROP MODEL n")
        assert not file.exists()
    finally:
        cluster.close()


def test_a_model_needs_the_rights_for_what_it_is_made_of(session: Session, directory: Path) -> None:
    statements = {
        Right.FILES: f"CREATE MODEL q {COLUMNS} WITH ('provider' = 'onnx', 'path' = '{directory}/linear.onnx')",
        Right.PYTHON: scaled(directory),
        Right.OBJECTS: "DROP MODEL had",
    }
    run(session, f"CREATE MODEL had {COLUMNS} {python(directory)}")
    for right, statement in statements.items():
        with session.permitted(Permit("ann", frozenset(Right) - {right})):
            assert refused(session, statement)[:2] == ("SS2037", f"ann may not {right.value}")
    assert session.catalog.model(ObjectPath(DEFAULT_CATALOG, DEFAULT_DATABASE, "q"), False) is None
