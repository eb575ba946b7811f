"""Jobs with models are killed: each row has the answer of the model that the job began with, once."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from command_harness import TIMEOUT_S
from http_harness import Asked, Reply, http_server
from model_server_harness import answer_to, chat, openai
from server_harness import RunningServer
from spark_harness.processes import wait_until

ROWS = 2_000
WAITING_ROWS = 60


def write_model(path: Path, factor: int) -> None:
    """A model that multiplies."""
    import skl2onnx
    from sklearn.linear_model import LinearRegression

    x = np.arange(4, dtype=np.float64).reshape(-1, 1)
    made = skl2onnx.to_onnx(LinearRegression().fit(x, x[:, 0] * factor), x[:1])
    path.write_bytes(made.SerializeToString())


def lines_in(directory: Path) -> list[list[str]]:
    files = (
        [path for path in directory.iterdir() if not path.name.startswith(".")] if directory.exists() else []
    )
    return [line.split(",") for path in files for line in path.read_text().splitlines()]


def rows_in(directory: Path) -> list[tuple[int, int]]:
    return sorted((int(n), round(float(v))) for n, v in lines_in(directory))


def texts_in(directory: Path) -> list[tuple[int, str]]:
    return sorted((int(n), text) for n, text in lines_in(directory))


def test_a_killed_server_goes_on_with_the_model_that_the_job_began_with(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", 3)
    options = f"'connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'csv'"
    insert = "INSERT INTO out SELECT n, v FROM ML_PREDICT(TABLE numbers, MODEL m, DESCRIPTOR(n))"
    with RunningServer(tmp_path / "server", "-D", f"sqlstream.server.file-roots={tmp_path}") as server:
        session = server.open_session()
        for statement in (
            "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', "
            f"'fields.n.start' = '1', 'fields.n.end' = '{ROWS}', 'rows-per-second' = '500')",
            f"CREATE TABLE out (n BIGINT, v DOUBLE) WITH ({options})",
            f"CREATE MODEL m INPUT (x DOUBLE) OUTPUT (v DOUBLE) WITH ('provider' = 'onnx', 'path' = '{tmp_path}/m.onnx')",
            "SET 'execution.checkpointing.interval' = '200 ms'",
        ):
            server.execute(session, statement)
        job_id = server.insert(session, insert)
        for rows in (200, 800):
            wait_until(lambda rows=rows: len(rows_in(tmp_path / "out")) > rows)
            write_model(tmp_path / "m.onnx", 5)
            server.kill()
            server.start()
        assert server.wait_for(job_id, "FINISHED", "FAILED") == "FINISHED", server.errors()
    assert rows_in(tmp_path / "out") == [(n, 3 * n) for n in range(1, ROWS + 1)]


def test_checkpoints_do_not_wait_for_a_server_and_a_killed_job_asks_again_for_the_rows_that_waited(
    tmp_path: Path,
) -> None:
    """All rows are read at once, and the server answers one by one: most rows wait in the state when the job is killed."""
    (tmp_path / "in.csv").write_text("".join(f"{n},text {n}\n" for n in range(WAITING_ROWS)))
    options = "'connector' = 'filesystem', 'format' = 'csv'"
    insert = "INSERT INTO out SELECT n, said FROM ML_PREDICT(TABLE texts, MODEL m, DESCRIPTOR(x), MAP['async', 'false'])"
    answered = threading.Semaphore(0)

    def slow(asked: Asked) -> Reply:
        assert answered.acquire(timeout=TIMEOUT_S)
        return openai(asked)

    settings = [
        f"sqlstream.server.file-roots={tmp_path}",
        "sqlstream.server.database-servers.enabled=true",
        "sqlstream.server.private-addresses.enabled=true",
    ]
    words = [word for setting in settings for word in ("-D", setting)]
    with http_server(slow) as models, RunningServer(tmp_path / "server", *words) as server:
        session = server.open_session()
        for statement in (
            f"CREATE TABLE texts (n BIGINT, x STRING) WITH ({options}, 'path' = '{tmp_path}/in.csv')",
            f"CREATE TABLE out (n BIGINT, said STRING) WITH ({options}, 'path' = '{tmp_path}/out')",
            chat(models.url),
            "SET 'execution.checkpointing.interval' = '200 ms'",
        ):
            server.execute(session, statement)
        job_id = server.insert(session, insert)
        for least in (5, 12):
            for _ in range(10):
                answered.release()
            # Rows are in committed files while the task has read its input and others wait.
            wait_until(lambda least=least: len(texts_in(tmp_path / "out")) >= least)
            server.kill()
            server.start()
        for _ in range(10 * WAITING_ROWS):
            answered.release()
        assert server.wait_for(job_id, "FINISHED", "FAILED") == "FINISHED", server.errors()
        asked = len(models.asked)
    assert texts_in(tmp_path / "out") == [(n, answer_to(f"text {n}")) for n in range(WAITING_ROWS)]
    # What was answered and committed before a kill is not asked again.
    assert WAITING_ROWS <= asked < 3 * WAITING_ROWS


def test_a_killed_job_goes_on_to_search_the_vectors_of_its_table(tmp_path: Path) -> None:
    vectors = pa.array([[float(i), 1.0] for i in range(7)], pa.list_(pa.float32()))
    pq.write_table(pa.table({"id": pa.array(range(7), pa.int64()), "v": vectors}), tmp_path / "docs.parquet")
    rows = 900
    search = "VECTOR_SEARCH(TABLE docs, DESCRIPTOR(v), ARRAY[1E0 * MOD(n, 7), 1E0], 1, MAP['metric', 'l2'])"
    with RunningServer(tmp_path / "server", "-D", f"sqlstream.server.file-roots={tmp_path}") as server:
        session = server.open_session()
        for statement in (
            "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', "
            f"'fields.n.start' = '1', 'fields.n.end' = '{rows}', 'rows-per-second' = '300')",
            "CREATE TABLE docs (id BIGINT, v ARRAY<FLOAT>) WITH ('connector' = 'filesystem', "
            f"'path' = '{tmp_path}/docs.parquet', 'format' = 'parquet')",
            "CREATE TABLE out (n BIGINT, id DOUBLE) WITH ('connector' = 'filesystem', "
            f"'path' = '{tmp_path}/out', 'format' = 'csv')",
            "SET 'execution.checkpointing.interval' = '200 ms'",
        ):
            server.execute(session, statement)
        insert = f"INSERT INTO out SELECT n, CAST(id AS DOUBLE) FROM numbers, LATERAL TABLE({search}) AS d (id, v, score)"
        job_id = server.insert(session, insert)
        wait_until(lambda: len(rows_in(tmp_path / "out")) > 100)
        server.kill()
        server.start()
        assert server.wait_for(job_id, "FINISHED", "FAILED") == "FINISHED", server.errors()
    assert rows_in(tmp_path / "out") == [(n, n % 7) for n in range(1, rows + 1)]
