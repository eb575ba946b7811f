"""Models that CREATE MODEL … AS trains, in sessions: their weights, what calls them, and what is refused."""

from __future__ import annotations

import math
import os
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from file_servers import running
from session_runs import refused, run

from sqlstream import types as sql
from sqlstream.catalog import DEFAULT_CATALOG, DEFAULT_DATABASE, ObjectPath
from sqlstream.changelog import ChangelogMode
from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.sessions.outcomes import Job, Text
from sqlstream.client.sessions.session import Session
from sqlstream.errors import SqlStreamError, UserError
from sqlstream.models import ModelRef
from sqlstream.planner.dialect.parser import parse_statement
from sqlstream.runtime.connectors.model_weights import ModelWeights
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.models.trained_model import TrainedModel
from sqlstream.runtime.models.weights import decode_weights, encode_weights
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec
from sqlstream.specs.train_model import INTERCEPT, PUBLISHED, WEIGHTS
from sqlstream.spi.connector import ConnectorContext

TABLES = """
CREATE VIEW t AS SELECT * FROM (VALUES
    (1E0, 2, 8E0), (2E0, 0, 7E0), (CAST(NULL AS DOUBLE), 1, 1E0), (0E0, 1, 4E0)) AS t (x, z, y);
CREATE VIEW points AS SELECT * FROM (VALUES (0E0, 0E0), (0E0, 1E0), (9E0, 9E0), (9E0, 8E0)) AS t (a, b);
CREATE VIEW changing AS SELECT x, COUNT(*) AS label FROM t GROUP BY x;
"""
LINEAR = "'algorithm' = 'linear-regression', 'label' = 'y', 'weights.path' = 'w.json'"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    cluster = LocalClusterClient()
    made = Session(cluster)
    run(made, TABLES)
    yield made
    cluster.close()


def test_a_model_is_trained_by_a_query_and_predicts(session: Session) -> None:
    from sklearn.linear_model import SGDRegressor

    created = f"CREATE MODEL m WITH ({LINEAR}, 'mini-batch-size' = '1', 'learning-rate' = '0.05', 'standardize' = 'false')"
    run(session, f"{created} AS SELECT x, z, y FROM t")
    theirs = SGDRegressor(learning_rate="constant", eta0=0.05, alpha=0, shuffle=False)
    theirs.partial_fit([[1, 2], [2, 0], [0, 1]], [8, 7, 4])
    expected = [*theirs.coef_, theirs.intercept_[0]]
    weights = run(session, "SELECT feature, weight, `rows`, skipped FROM m$weights")
    assert [(row[0], *row[2:]) for row in weights] == [(f, 3, 1) for f in ("x", "z", INTERCEPT)]
    np.testing.assert_allclose([row[1] for row in weights], expected)
    said = run(session, "SELECT x, y0 FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(x, z)) WHERE z < 2")
    assert said[1] == (None, None)
    np.testing.assert_allclose([said[0][1], said[2][1]], theirs.predict([[2, 0], [0, 1]]))
    measured = "ML_EVALUATE(TABLE t, MODEL m, DESCRIPTOR(y), DESCRIPTOR(x, z), 'regression')"
    assert run(session, f"SELECT `rows`, mae > 0 FROM {measured}")[-1][:2] == (3, True)


def test_a_classifier_returns_the_label_and_its_probability(session: Session) -> None:
    run(
        session,
        "CREATE MODEL m WITH ('algorithm' = 'logistic-regression', 'weights.path' = 'w.json', 'mini-batch-size' = '2') "
        "AS SELECT a, b, a > 5 AS label FROM points",
    )
    query = "SELECT label, probability > 0.5 FROM ML_PREDICT(TABLE points, MODEL m, DESCRIPTOR(a, b))"
    assert run(session, query) == [(False, False)] * 2 + [(True, True)] * 2
    assert [row[:2] for row in run(session, "DESCRIBE MODEL m")] == [
        ("a", "DOUBLE"),
        ("b", "DOUBLE"),
        ("label", "BOOLEAN"),
        ("probability", "DOUBLE"),
    ]
    evaluated = (
        "ML_EVALUATE(TABLE (SELECT *, a > 5 AS label FROM points), MODEL m, DESCRIPTOR(label), "
        "DESCRIPTOR(a, b), 'classification')"
    )
    assert run(session, f"SELECT `rows`, accuracy FROM {evaluated}")[-1][:2] == (4, 1.0)


def test_clusters_are_numbered_and_far(session: Session) -> None:
    run(
        session,
        "CREATE MODEL m INPUT (a DOUBLE, b DOUBLE) OUTPUT (c BIGINT, far FLOAT) COMMENT 'two' "
        "WITH ('algorithm' = 'k-means', 'clusters' = '2', 'weights.path' = 'w.json') AS SELECT a, b FROM points",
    )
    said = run(session, "SELECT c, far FROM ML_PREDICT(TABLE points, MODEL m, DESCRIPTOR(a, b))")
    assert said[0] == said[1]
    assert said[2] == said[3]
    assert {row[0] for row in said} == {0, 1}
    assert {row[1] for row in said} == {0.5}


def test_a_model_may_be_declared_that_another_session_trains(session: Session) -> None:
    run(session, f"CREATE MODEL m WITH ({LINEAR}) AS SELECT x, z, y FROM t")
    shown = run(session, "SHOW CREATE MODEL m")[0][0]
    run(session, f"DROP MODEL m; {shown}")
    assert len(run(session, "SELECT * FROM m$weights")) == 3
    declared = (
        "CREATE MODEL other INPUT (x DOUBLE) OUTPUT (y DOUBLE) WITH ('provider' = 'trained', "
        "'algorithm' = 'linear-regression', 'weights.path' = 'w.json')"
    )
    found = refused(session, f"{declared}; SELECT y0 FROM ML_PREDICT(TABLE t, MODEL other, DESCRIPTOR(x))")
    assert found[0] == "SS3534"


def test_before_the_first_version_outputs_are_null(session: Session) -> None:
    run(
        session,
        "CREATE MODEL m INPUT (x DOUBLE) OUTPUT (y DOUBLE) WITH ('provider' = 'trained', "
        "'algorithm' = 'linear-regression', 'weights.path' = 'none.json')",
    )
    assert run(session, "SELECT y0 FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(x))") == [(None,)] * 4
    assert refused(session, "SELECT * FROM m$weights")[0] == "SS5002"


def test_nothing_is_created_or_run_when_the_model_exists_or_the_query_is_wrong(session: Session) -> None:
    create = f"CREATE MODEL m WITH ({LINEAR}) AS SELECT x, z, y FROM t"
    run(session, create)
    before = os.stat("w.json").st_mtime_ns
    assert refused(session, create)[0] == "SS2013"
    run(session, create.replace("MODEL m", "MODEL IF NOT EXISTS m"))
    assert os.stat("w.json").st_mtime_ns == before
    assert refused(session, f"CREATE MODEL n WITH ({LINEAR}) AS SELECT q FROM t")[0] == "SS2003"
    path = ObjectPath(DEFAULT_CATALOG, DEFAULT_DATABASE, "n")
    assert session.catalog.model(path, False) is None


def test_explain_shows_the_training_and_what_it_keeps(session: Session) -> None:
    create = f"CREATE MODEL m WITH ({LINEAR}) AS SELECT x, z, y FROM t"
    texts = [session.execute(parse_statement(f"EXPLAIN {what}{create}")) for what in ("", "STATE ")]
    plan, state = (text.text if isinstance(text, Text) else "" for text in texts)
    assert "TrainModel(model=m, algorithm=linear-regression, features=[x, z], miniBatch=100)" in plan
    assert "table       model.weights (feature STRING, weight DOUBLE," in state
    assert "size        fixed" in state
    assert "All state is bounded." in state
    outcome = session.execute(parse_statement(create))
    assert isinstance(outcome, Job)
    assert outcome.label == "CREATE MODEL m"
    outcome.wait(60)


def test_a_training_that_never_ends_needs_checkpoints_to_publish(session: Session) -> None:
    run(session, "CREATE TABLE e (a DOUBLE) WITH ('connector' = 'datagen')")
    notes = []
    for name, interval in (("m", ""), ("n", "SET 'execution.checkpointing.interval' = '1 s'")):
        if interval:
            session.execute(parse_statement(interval))
        create = f"CREATE MODEL {name} WITH ('algorithm' = 'k-means', 'weights.path' = '{name}') AS SELECT a FROM e"
        job = session.execute(parse_statement(create))
        assert isinstance(job, Job)
        notes.append("the model is never published without checkpoints" in job.note)
        job.cancel()
        job.wait(60)
    assert notes == [True, False]


def test_weights_take_no_directory(session: Session, tmp_path: Path) -> None:
    (tmp_path / "w.json").mkdir()
    found = refused(session, f"CREATE MODEL m WITH ({LINEAR}) AS SELECT x, z, y FROM t")
    assert found[:2] == ("SS3533", 'model "m" cannot be published: "w.json" is a directory')


def test_two_running_jobs_publish_to_no_file_in_common(session: Session) -> None:
    run(session, "CREATE TABLE e (a DOUBLE) WITH ('connector' = 'datagen')")
    create = "CREATE MODEL {} WITH ('algorithm' = 'k-means', 'weights.path' = '{}') AS SELECT a FROM e"
    job = session.execute(parse_statement(create.format("m", "w.json")))
    assert isinstance(job, Job)
    again = create.format("n", "./w.json")
    code, message, underlined = refused(session, again)
    assert (code, underlined) == ("SS3533", "'./w.json'")
    assert message == f'job {job.id} publishes the weights of model "m" to this file'
    assert run(session, "SHOW MODELS") == [("m",)]
    job.cancel()
    job.wait(60)
    other = session.execute(parse_statement(again))
    assert isinstance(other, Job)
    other.cancel()
    other.wait(60)


def test_features_may_be_decimals_and_large_numbers(session: Session) -> None:
    features = "INPUT (x DECIMAL(10, 2), z BIGINT) OUTPUT (y DOUBLE)"
    run(session, f"CREATE MODEL m {features} WITH ({LINEAR}) AS SELECT x, z, y FROM t")
    given = "SELECT CAST(1 AS DECIMAL(10, 2)) AS x, 9007199254740993 AS z"
    [(predicted,)] = run(session, f"SELECT y FROM ML_PREDICT(TABLE ({given}), MODEL m, DESCRIPTOR(x, z))")
    assert predicted is not None


def test_weights_take_the_place_of_no_pipe(session: Session, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "w.json")
    found = refused(session, f"CREATE MODEL m WITH ({LINEAR}) AS SELECT x, z, y FROM t")
    assert (found[0], "it is a named pipe, not a file" in found[1]) == ("SS5017", True), found
    assert stat.S_ISFIFO(os.stat(tmp_path / "w.json").st_mode)


def test_in_batch_mode_a_model_is_trained_once(session: Session) -> None:
    run(
        session,
        f"SET 'execution.runtime-mode' = 'batch'; CREATE MODEL m WITH ({LINEAR}) AS SELECT x, z, y FROM t",
    )
    assert len(run(session, "SELECT * FROM m$weights")) == 3


@pytest.mark.parametrize(
    ("options", "query", "code", "place"),
    [
        (f"{LINEAR}, 'provider' = 'onnx'", "x, y FROM t", "SS3531", "'onnx'"),
        (LINEAR, "x, z FROM t", "SS3531", "SELECT x, z FROM t"),
        (LINEAR, "y FROM t", "SS3531", "SELECT y FROM t"),
        (LINEAR, "x, y, y FROM t", "SS2012", "y"),
        (LINEAR, "x, CAST(z AS STRING) AS s, y FROM t", "SS3532", "CAST(z AS STRING)"),
        (LINEAR.replace("linear", "logistic"), "x, y FROM t", "SS3532", "y"),
        (
            LINEAR.replace("'y'", "'label'"),
            "x, label FROM changing",
            "SS3011",
            "SELECT x, label FROM changing",
        ),
        (LINEAR.replace("linear-regression", "forest"), "x, y FROM t", "SS4002", "'forest'"),
        (f"{LINEAR}, 'clusters' = '3'", "x, y FROM t", "SS4003", "'clusters'"),
        (f"{LINEAR}, 'learning-rate' = 'nan'", "x, y FROM t", "SS4002", "'nan'"),
        (f"{LINEAR}, 'mini-batch-size' = '0'", "x, y FROM t", "SS4002", "'0'"),
        (f"{LINEAR}, 'mini-batch-size' = '100000000'", "x, y FROM t", "SS4002", "'100000000'"),
        (LINEAR.replace("w.json", "s3://b"), "x, y FROM t", "SS4002", "'s3://b'"),
        (LINEAR.replace("w.json", "other://b/w"), "x, y FROM t", "SS4002", "'other://b/w'"),
        (LINEAR.replace("w.json", "http://h/w"), "x, y FROM t", "SS5085", "'http://h/w'"),
        (LINEAR.replace("w.json", "sftp://h/w"), "x, y FROM t", "SS4005", "'sftp://h/w'"),
        (LINEAR.replace("w.json", "~/w"), "x, y FROM t", "SS4002", "'~/w'"),
        (LINEAR.replace("w.json", "a*"), "x, y FROM t", "SS4002", "'a*'"),
        ("'algorithm' = 'k-means', 'weights.path' = 'w', 'decay' = '2'", "x FROM t", "SS4002", "'2'"),
        ("'algorithm' = 'k-means', 'weights.path' = 'w', 'clusters' = '9000'", "x, z FROM t", "SS3532", None),
    ],
)
def test_what_cannot_be_trained_is_refused_at_its_place(
    session: Session, options: str, query: str, code: str, place: str | None
) -> None:
    found = refused(session, f"CREATE MODEL m WITH ({options}) AS SELECT {query}")
    assert found[0] == code
    assert place is None or found[2] == place


@pytest.mark.parametrize(
    ("columns", "place"),
    [
        ("INPUT (z DOUBLE) OUTPUT (y DOUBLE)", "z DOUBLE"),
        ("INPUT (x DOUBLE, z DOUBLE) OUTPUT (y DOUBLE, p DOUBLE)", None),
        ("INPUT (x DOUBLE, z DOUBLE) OUTPUT (y STRING)", None),
        ("INPUT (x DOUBLE, z STRING) OUTPUT (y DOUBLE)", None),
    ],
)
def test_declared_columns_are_those_of_the_algorithm(
    session: Session, columns: str, place: str | None
) -> None:
    found = refused(session, f"CREATE MODEL m {columns} WITH ({LINEAR}) AS SELECT x, z, y FROM t")
    assert found[0] == "SS3532"
    assert place is None or found[2] == place


def test_only_trained_models_have_weights_to_read(session: Session, tmp_path: Path) -> None:
    (tmp_path / "never.onnx").write_bytes(b"")
    model = (
        "CREATE MODEL o INPUT (x DOUBLE) OUTPUT (y DOUBLE) WITH ('provider' = 'onnx', 'path' = 'never.onnx')"
    )
    assert refused(session, f"{model}; SELECT * FROM o$weights")[0] == "SS3003"
    assert refused(session, "SELECT * FROM missing$weights")[0] == "SS2001"


# The file of weights.


def row(version: int, feature: str, weight: float, cluster: int | None = None) -> dict[str, object]:
    algorithm = "linear-regression" if cluster is None else "k-means"
    values = (version, algorithm, 5, 0, 0.5, cluster, feature, weight)
    return dict(zip(PUBLISHED.names, values, strict=True))


def written(rows: list[dict[str, object]]) -> bytes:
    return encode_weights(rows).encode()


def test_weights_that_are_written_are_read() -> None:
    regression = decode_weights(
        written([row(3, "a", 0.1), row(3, "b", 1e-300), row(3, INTERCEPT, -2.0)]), "f"
    )
    assert (regression.version, regression.features, regression.intercept) == (3, ("a", "b"), -2.0)
    assert regression.values.tolist() == [[0.1, 1e-300]]
    lines = [row(1, f, float(c), c) for c in range(3) for f in ("a", "b")]
    assert decode_weights(written(lines), "f").values.tolist() == [[0, 0], [1, 1], [2, 2]]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no json\n",
        b"{}\n",
        b"\xff\n",
        b'{"a":' + b"[" * 100_000,
        written([row(1, "a", 1.0), row(2, "b", 1.0)]),
        written([row(1, INTERCEPT, 1.0)]),
        written([row(1, "a", 1.0, 0), row(1, "b", 1.0, 0), row(1, "a", 1.0, 1)]),
        written([row(1, "a", 1.0, 0), row(1, "a", 1.0, 2)]),
    ],
)
def test_other_files_are_refused(content: bytes) -> None:
    with pytest.raises(UserError, match="holds no weights") as raised:
        decode_weights(content, "f")
    assert raised.value.code == "SS3535"


def test_a_commit_publishes_the_newest_version_and_may_be_repeated(tmp_path: Path) -> None:
    path, files = tmp_path / "in" / "w.json", LocalFiles()
    spec = SinkSpec("m", WEIGHTS, {"connector": WEIGHTS, "path": str(path)}, PUBLISHED)
    context = ConnectorContext(
        "j", "v", 0, 1, 0, 100, {}, lambda: 0, lambda name, n: None, files, writer_name="w/1"
    )
    writer = ModelWeights().sink(spec, ChangelogMode.INSERT_ONLY, context)
    found = []
    for checkpoint, version in enumerate((1, 2, 3), 1):
        rows = [row(version, "a", version / 3), row(version, INTERCEPT, 0.0)]
        writer.write(pa.RecordBatch.from_pylist(rows))
        found += writer.prepare_commit(checkpoint)
        assert writer.prepare_commit(checkpoint) == []
    assert not path.exists()
    ModelWeights().commit(spec, 1, found[:1], files)
    assert decode_weights(path.read_bytes(), "f").version == 1
    for _ in range(2):
        ModelWeights().commit(spec, 3, [found[2], found[1]], files)
        assert decode_weights(path.read_bytes(), "f").values.tolist() == [[1.0]]
    assert os.listdir(path.parent) == ["w.json"]


def test_predictions_take_new_weights_once_in_an_interval(tmp_path: Path) -> None:
    path, now = tmp_path / "w.json", [0]
    schema = Schema.of(("a", sql.INT))
    options = {"algorithm": "linear-regression", "weights.path": "w.json", "refresh-interval": "100 ms"}
    ref = ModelRef("c.d.m", "trained", schema, Schema.of(("y", sql.FLOAT)), options)
    model = TrainedModel(ref, str(path), LocalFiles(), lambda: now[0])

    def said() -> list[float | None]:
        [outputs] = model.predict(pa.record_batch({"a": pa.array([1, 2], pa.int32())}))
        values: list[float | None] = outputs.to_pylist()
        return values

    assert said() == [None, None]
    path.write_bytes(written([row(1, "a", 2.0), row(1, INTERCEPT, 1.0)]))
    now[0] = 99
    assert said() == [None, None]
    now[0] = 100
    assert said() == [3.0, 5.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        [outputs] = model.predict(pa.record_batch({"a": [1.0, math.inf, math.nan]}))
    assert outputs.to_pylist()[:2] == [3.0, math.inf]
    os.remove(path)
    path.write_bytes(written([row(2, "a", 20.0), row(2, INTERCEPT, 1.0)]))
    assert said() == [3.0, 5.0]
    now[0] = 200
    assert said() == [21.0, 41.0]
    path.write_bytes(b"torn")
    now[0] = 300
    with pytest.raises(SqlStreamError, match="holds no weights"):
        said()


@pytest.mark.parametrize("scheme", ["sftp", "webhdfs"])
def test_weights_are_published_to_other_file_systems_and_read_from_there(
    session: Session, tmp_path: Path, scheme: str
) -> None:
    (tmp_path / "served").mkdir()
    with running(scheme, tmp_path / "served") as server:
        for key, value in server.login.items():
            run(session, f"SET '{key}' = '{value}'")
        options = LINEAR.replace("w.json", f"{server.root}/w.json")
        run(session, f"CREATE MODEL m WITH ({options}) AS SELECT x, z, y FROM t")
        assert [row[0] for row in run(session, "SELECT feature FROM m$weights")] == ["x", "z", INTERCEPT]
        run(
            session,
            f"CREATE MODEL n INPUT (x DOUBLE, z DOUBLE) OUTPUT (y0 DOUBLE) WITH ('provider' = 'trained', {options})",
        )
        for name in ("m", "n"):
            said = run(
                session, f"SELECT y0 FROM ML_PREDICT(TABLE t, MODEL {name}, DESCRIPTOR(x, z)) WHERE z = 0"
            )
            assert said[0][0] is not None
