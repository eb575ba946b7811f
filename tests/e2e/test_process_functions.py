"""A function with state: its server is killed, its class changes between savepoints, and SQL reads what it keeps."""

from __future__ import annotations

from pathlib import Path

from command_harness import sqlstream
from server_harness import RunningServer
from spark_harness.processes import wait_until

ROWS = 2_000
KEYS = 7
NUMBERS = (
    "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', "
    "'fields.n.end' = '{rows}', 'rows-per-second' = '500')"
)
CLASS = """
import numpy as np
from sqlstream import *


class Numbered(ProcessTableFunction):
    result_type = "ROW<n BIGINT, i BIGINT>"
    input = TableArgument(SET_SEMANTIC_TABLE)
    count = ValueState("{type}", default=0)
    hundredth = SideOutput("ROW<n BIGINT, i BIGINT>")
    {more}

    def on_batch(self, ctx, batch):
        before = self.count.get(ctx.keys).to_numpy()
        self.count.put(ctx.keys, before + ctx.row_counts)
        numbers = before[ctx.groups] + ctx.row_numbers
        chosen = np.flatnonzero(numbers % 100 == 0)
        ctx.emit([batch.column("n").take(chosen), numbers[chosen]], rows=chosen, output=self.hundredth)
        return {{"n": batch.column("n"), "i": numbers}}
"""
INSERT = f"INSERT INTO out SELECT k, n, i FROM numbered(TABLE (SELECT MOD(n, {KEYS}) AS k, n FROM numbers) PARTITION BY k)"
BOTH = (
    f"EXECUTE STATEMENT SET BEGIN {INSERT}; {INSERT.replace('out', 'side')[:-1]}, output => 'hundredth'); END"
)


def table(path: Path) -> str:
    options = f"'connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv'"
    return f"CREATE TABLE {path.name} (k BIGINT, n BIGINT, i BIGINT) WITH ({options})"


def rows_in(directory: Path) -> list[tuple[int, ...]]:
    files = (
        [path for path in directory.iterdir() if not path.name.startswith(".")] if directory.exists() else []
    )
    lines = [line for path in files for line in path.read_text().split()]
    return sorted(tuple(map(int, line.split(",")))[::-1] for line in lines)


def expected(rows: int) -> list[tuple[int, ...]]:
    return sorted(((n - (n % KEYS or KEYS)) // KEYS, n, n % KEYS) for n in range(1, rows + 1))


def settings_of(directory: Path) -> tuple[str, ...]:
    return (
        "-D",
        "sqlstream.server.python-functions.enabled=true",
        "-D",
        f"sqlstream.server.file-roots={directory}",
    )


def prepare(server: RunningServer, directory: Path, rows: int = ROWS) -> str:
    session = server.open_session()
    server.execute(session, f"SET 'python.files' = '{directory}/numbering.py'")
    server.execute(session, NUMBERS.format(rows=rows))
    server.execute(session, table(directory / "out"))
    server.execute(session, table(directory / "side"))
    server.execute(session, "CREATE FUNCTION numbered AS 'numbering.Numbered' LANGUAGE PYTHON")
    return session


def test_a_killed_server_numbers_each_row_once_in_both_outputs(tmp_path: Path) -> None:
    (tmp_path / "numbering.py").write_text(CLASS.format(type="BIGINT", more=""))
    with RunningServer(tmp_path / "server", *settings_of(tmp_path)) as server:
        session = prepare(server, tmp_path)
        server.execute(session, "SET 'execution.checkpointing.interval' = '200 ms'")
        job_id = server.insert(session, BOTH)
        for rows in (200, 800):
            wait_until(lambda rows=rows: len(rows_in(tmp_path / "out")) > rows)
            server.kill()
            server.start()
        assert server.wait_for(job_id, "FINISHED", "FAILED") == "FINISHED", server.errors()
    assert rows_in(tmp_path / "out") == expected(ROWS)
    assert rows_in(tmp_path / "side") == [row for row in expected(ROWS) if row[0] % 100 == 0]


def test_a_changed_class_goes_on_from_a_savepoint_that_sql_reads(tmp_path: Path) -> None:
    (tmp_path / "numbering.py").write_text(CLASS.format(type="INT", more='old = ListState("INT")'))
    with RunningServer(tmp_path / "server", *settings_of(tmp_path)) as server:
        session = prepare(server, tmp_path)
        # It would take twenty seconds.
        server.execute(session, "ALTER TABLE numbers SET ('rows-per-second' = '100')")
        server.execute(session, f"SET 'execution.checkpointing.savepoint-dir' = '{tmp_path}/saved'")
        server.execute(session, "SET 'execution.checkpointing.interval' = '200 ms'")
        job_id = server.insert(session, INSERT)
        wait_until(lambda: len(rows_in(tmp_path / "out")) > 0)
        server.execute(session, f"STOP JOB '{job_id}' WITH SAVEPOINT")
        server.wait_for(job_id, "FINISHED")
        rows = rows_in(tmp_path / "out")
        (saved,) = [p for p in (tmp_path / "saved").rglob("savepoint-*") if p.is_dir()]
        counts = sqlstream(
            "state",
            "sql",
            str(saved),
            'SELECT CAST(SUM("count") AS BIGINT) AS total, COUNT(*) AS keys FROM "count"',
        )
        assert f"| {len(rows):>5} |" in counts.stdout, counts.stdout
        (tmp_path / "numbering.py").write_text(
            CLASS.format(type="BIGINT", more='new = MapState("INT", "STRING")')
        )
        server.execute(session, "ALTER FUNCTION numbered AS 'numbering.Numbered' LANGUAGE PYTHON")
        server.execute(session, f"SET 'execution.state-recovery.path' = '{saved}'")
        server.execute(session, "ALTER TABLE numbers SET ('rows-per-second' = '1000000')")
        server.execute(session, "SET 'parallelism.default' = '3'")
        # What is around the call has changed, too.
        again = server.insert(session, INSERT.replace("SELECT k, n, i", "SELECT k + 0, n, i"))
        assert server.wait_for(again, "FINISHED", "FAILED") == "FINISHED", server.errors()
    assert rows_in(tmp_path / "out") == expected(ROWS)
    assert 0 < len(rows) < ROWS
