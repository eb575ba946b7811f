"""`sqlstream state` reads checkpoints without a cluster."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from checkpoint_harness import OPERATOR_ID, manifest

from sqlstream.client.main import main
from sqlstream.elements import Watermark
from sqlstream.messages.checkpoint import InFlightItems, SubtaskState
from sqlstream.runtime.checkpoint.checkpoint_directory import CheckpointDirectory
from sqlstream.runtime.checkpoint.state_writer import StateWriter, state_name
from sqlstream.runtime.host.private_files import PrivateFiles
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot
from sqlstream.runtime.taskmanager.checkpoints.in_flight import IN_FLIGHT, in_flight_items, in_flight_snapshot

FILES = PrivateFiles()
Row = tuple[str, int]


def groups(rows: list[Row]) -> pa.Table:
    return pa.table(
        {
            KEY_GROUP_COLUMN: pa.array([len(word) for word, _ in rows], pa.int32()),
            "$touched_ms": pa.array([n * 1_000 for _, n in rows], pa.int64()),
            "word": pa.array([word for word, _ in rows], pa.string()),
            "n": pa.array([n for _, n in rows], pa.int64()),
        }
    )


def stored(
    directory: Path, checkpoint_id: int, *subtasks: list[Row], others: dict[str, Any] | None = None
) -> str:
    """A checkpoint whose subtasks have these rows in their table `groups`, and tables `others`."""
    writer = StateWriter(FILES, str(directory))
    states = []
    for number, rows in enumerate(subtasks):
        snapshot = OperatorSnapshot(
            {"groups": groups(rows), **(others or {})}, {"w": pa.table({"w": [number]})}
        )
        saved = writer.write(state_name(f"job-0-{number}-0", checkpoint_id), {OPERATOR_ID: snapshot})
        states.append(SubtaskState(saved, ({"path": "/in/a.csv"},), 0))
    return CheckpointDirectory(FILES, str(directory)).store(manifest(checkpoint_id, *states))


def run(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["state", *words]) == code
    return capsys.readouterr().out


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_ls_names_tables_as_sql_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stored(tmp_path, 12, [("a", 1), ("b", 2)], [("c", 3)])
    found = {t["table"]: t for t in json.loads(run(capsys, "ls", "--json", path))}
    assert set(found) == {"group_aggregate.groups", "group_aggregate.w"}
    table = found["group_aggregate.groups"]
    assert (table["rows"], table["subtasks"], table["is_keyed"]) == (3, 2, True)
    assert table["columns"] == {"$key_group": "INT", "$touched_ms": "BIGINT", "word": "STRING", "n": "BIGINT"}
    assert len(table["files"]) == 2
    assert "groupBy=[k]" in run(capsys, "ls", f"{path}/_metadata")


def test_names_of_parts_need_no_quotes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stored(tmp_path, 12, [], others={"groups.EXPR$2": groups([("x", 7)])})
    assert lines(run(capsys, "sql", "--json", path, "SELECT n FROM groups_expr_2")) == [{"n": 7}]
    assert lines(run(capsys, "show", "--json", path, "Groups_EXPR_2"))[0]["n"] == 7


def test_show_says_what_a_checkpoint_is_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stored(tmp_path, 12, [("a", 1)], [("c", 3)])
    facts = json.loads(run(capsys, "show", "--json", path))
    assert (facts["kind"], facts["id"], facts["files"]) == ("CHECKPOINT", 12, 2)
    assert facts["commits"] == [{"checkpoint": 12, "table": "t", "connector": "filesystem", "parts": 1}]
    (source,) = facts["sources"].values()
    assert source["splits"] == [[{"path": "/in/a.csv"}]] * 2
    text = run(capsys, "show", path)
    assert "checkpoint 12" in text
    assert 'commits 1 parts to "t" (filesystem)' in text


def test_what_was_in_flight_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = (InFlightItems(True, 0, 1, (3, Watermark(5), 4)), InFlightItems(False, 0, 0, (2,)))
    found = manifest(12, SubtaskState(in_flight=items), SubtaskState())
    path = CheckpointDirectory(FILES, str(tmp_path)).store(found)
    text = run(capsys, "show", path)
    assert "unaligned      9 rows were under way, so it goes on with the same parallelism only" in text
    assert "rows in flight" in text
    assert json.loads(run(capsys, "show", "--json", path))["vertices"][0]["rows_in_flight"] == 9


def test_rows_in_flight_are_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One per input with columns of its own, and per output: in whatever order its channels were stored."""
    encoded = pa.table({"word": pa.array(["c"]).dictionary_encode(), "n": [3]})
    found: dict[tuple[bool, int, int], list[Any]] = {
        (False, 0, 0): [Watermark(5), *groups([("a", 1), ("b", 2)]).select(["word", "n"]).to_batches()],
        (False, 0, 2): encoded.to_batches(),
        (False, 0, 1): pa.table({"id": [7]}).to_batches(),
        (True, 1, 1): pa.table({"id": [8]}).to_batches(),
    }
    writer = StateWriter(FILES, str(tmp_path))
    (saved,) = writer.write(state_name("job-0-1-0", 12), {IN_FLIGHT: in_flight_snapshot(found)})
    subtask = SubtaskState(in_flight=in_flight_items(found, saved))
    path = CheckpointDirectory(FILES, str(tmp_path)).store(manifest(12, SubtaskState(), subtask))
    listed = {t["table"]: (t["rows"], t["subtasks"]) for t in json.loads(run(capsys, "ls", "--json", path))}
    name = "group_aggregate.in_flight_"
    assert listed == {f"{name}input": (1, 1), f"{name}input_2": (3, 1), f"{name}output_2": (1, 1)}
    rows = lines(run(capsys, "sql", "--json", path, "FROM in_flight_input_2 ORDER BY ALL"))
    assert [list(row.values()) for row in rows] == [[1, 0, "a", 1], [1, 0, "b", 2], [1, 2, "c", 3]]
    assert list(rows[0]) == ["$subtask", "$channel", "word", "n"]
    assert lines(run(capsys, "show", "--json", path, "in_flight_output_2")) == [
        {"$subtask": 1, "$channel": 1, "id": 8}
    ]
    without = stored(tmp_path, 13, [])
    compared = json.loads(run(capsys, "diff", "--json", path, without, code=1))
    assert {difference["table"] for difference in compared} == {"group_aggregate.groups", "group_aggregate.w"}
    (gone,) = json.loads(run(capsys, "diff", "--json", path, without, "in_flight_input", code=1))
    assert (gone["removed"], gone["changes"]) == (1, [{"op": "-D", "$subtask": 1, "$channel": 1, "id": 7}])


def test_show_prints_rows_of_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stored(tmp_path, 12, [("a", 1), ("b", 2)], [("c", 3)])
    rows = lines(run(capsys, "show", "--json", path, "groups", "--limit", "2"))
    assert [(r["word"], r["n"]) for r in rows] == [("a", 1), ("b", 2)]


def test_sql_reads_all_subtasks_under_both_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stored(tmp_path, 12, [("a", 1), ("b", 2)], [("c", 3)])
    query = 'SELECT max(n) AS m, count(*) AS c, min("$key_group") AS g FROM {}'
    for name in ("groups", "group_aggregate.groups"):
        assert lines(run(capsys, "sql", "--json", path, query.format(name))) == [{"m": 3, "c": 3, "g": 1}]


def test_sql_shows_the_tables_of_the_checkpoint_and_no_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stored(tmp_path, 12, [("a", 1)], others={'odd"; name': groups([("x", 7)])})
    assert [row["name"] for row in lines(run(capsys, "sql", "--json", path, "SHOW TABLES"))] == [
        "groups",
        "odd_name",
        "w",
    ]


def test_sql_writes_every_type_in_every_format(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = stored(tmp_path, 12, [("a", 1)])
    query = (
        "SELECT sum(n) AS h, word, [n] AS l, {'x': n} AS r, MAP {word: n} AS m, DATE '2024-02-29' AS d, INTERVAL 1 DAY AS i, "
        "'x'::ENUM('x') AS e, n::UBIGINT AS u, NULL AS z FROM groups GROUP BY word, n"
    )
    for name in ("table", "vertical", "json", "csv", "arrow"):
        assert main(["state", "sql", "--format", name, path, query]) == 0
        out = capsysbinary.readouterr().out
        assert out
        if name == "json":
            row = json.loads(out)
            assert (row["h"], row["l"], row["r"], row["m"], row["d"], row["e"]) == (
                1,
                [1],
                {"x": 1},
                {"a": 1},
                "2024-02-29",
                "x",
            )
        if name == "arrow":
            assert pa.ipc.open_stream(io.BytesIO(out)).read_all().num_rows == 1


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "COPY groups TO '{out}'",
        "INSTALL httpfs",
        "SELECT nothing FROM groups",
        "SELECT 1; SELECT 2",
    ],
)
def test_sql_reaches_nothing_but_the_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], query: str
) -> None:
    path = stored(tmp_path / "c", 12, [("a", 1)])
    assert main(["state", "sql", path, query.format(out=tmp_path / "out")]) == 2
    assert "error[SS6213]" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["c"]


def test_diff_of_a_keyed_table_knows_changed_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = stored(tmp_path, 1, [("a", 1), ("b", 2)], [("c", 3)])
    after = stored(tmp_path, 2, [("a", 1), ("b", 5), ("c", 3), ("d", 3)])
    found = {d["table"]: d for d in json.loads(run(capsys, "diff", "--json", before, after, code=1))}
    table = found["group_aggregate.groups"]
    assert [table[n] for n in ("before", "after", "added", "removed", "changed")] == [3, 4, 1, 0, 1]
    assert table["key"] == ["word"]
    assert table["changes"] == [
        {"op": "-U", "word": "b", "n": 2},
        {"op": "+U", "word": "b", "n": 5},
        {"op": "+I", "word": "d", "n": 3},
    ]
    assert found["group_aggregate.w"]["removed"] == 1
    text = run(capsys, "diff", before, after, "groups", code=1)
    assert "group_aggregate.groups by word" in text


def test_diff_of_rows_without_a_key_counts_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = stored(tmp_path, 1, [("a", 1), ("a", 1), ("b", 2)])
    after = stored(tmp_path, 2, [("b", 2), ("a", 1), ("b", 2), ("b", 2)])
    (table,) = json.loads(run(capsys, "diff", "--json", before, after, "groups", code=1))
    assert [table[n] for n in ("added", "removed", "changed", "key")] == [2, 1, 0, None]
    assert [row["op"] for row in table["changes"]] == ["-D", "+I", "+I"]


def test_diff_tells_its_own_columns_from_those_of_the_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def named(n: int) -> dict[str, pa.Table]:
        columns = {"a": [1], "op": ["x"], "b": [n], "B": [0], "n": [7], "times": [8]}
        return {"odd": pa.table({KEY_GROUP_COLUMN: pa.array([0], pa.int32()), **columns})}

    before, after = stored(tmp_path, 1, [], others=named(1)), stored(tmp_path, 2, [], others=named(2))
    (table,) = json.loads(run(capsys, "diff", "--json", before, after, "odd", code=1))
    kept = {"a": 1, "op": "x", "B_2": 0, "n": 7, "times": 8}
    assert [{**kept, **row} for row in table["changes"]] == table["changes"]
    assert [(row["$op"], row["b"]) for row in table["changes"]] == [("-U", 1), ("+U", 2)]


def test_diff_of_equal_state_at_another_parallelism_is_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("a", 1), ("b", 2), ("c", 3)]
    before, after = stored(tmp_path, 1, rows), stored(tmp_path, 2, rows[:1], rows[2:], rows[1:2])
    assert "| group_aggregate.groups |      3 |     3 |" in run(capsys, "diff", before, after, "groups")


def test_diff_shows_a_table_that_only_one_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = stored(tmp_path, 1, [("a", 1)], others={"old": groups([("x", 1)])})
    after = stored(tmp_path, 2, [("a", 1)], others={"fresh": groups([("y", 1), ("z", 2)])})
    found = {d["table"]: d for d in json.loads(run(capsys, "diff", "--json", before, after, code=1))}
    assert found["group_aggregate.old"]["removed"] == 1
    assert found["group_aggregate.fresh"]["added"] == 2


def test_the_directory_of_a_job_stands_for_its_newest_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(tmp_path, 2, [("a", 1)])
    stored(tmp_path, 12, [("a", 7)])
    assert '"n":7' in run(capsys, "sql", "--json", str(tmp_path), "SELECT n FROM groups").replace(" ", "")


def test_of_a_jobs_directory_torn_checkpoints_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older, torn = stored(tmp_path, 2, [("a", 1)]), Path(stored(tmp_path, 12, [("a", 7)]))
    (torn / "_metadata").write_bytes(b"{")
    assert main(["state", "show", "--json", str(tmp_path), "groups"]) == 0
    captured = capsys.readouterr()
    assert [row["n"] for row in lines(captured.out)] == [1]
    left_out, read = captured.err.splitlines()
    assert left_out.startswith("checkpoint 12 is left out: ")
    assert read == f"read: {older}"
    (Path(older) / "_metadata").unlink()
    assert main(["state", "ls", str(tmp_path)]) == 1
    assert "error[SS6210]" in capsys.readouterr().err


def test_a_wrong_path_and_a_wrong_table_say_what_there_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stored(tmp_path, 12, [("a", 1)])
    assert main(["state", "ls", str(tmp_path / "chk-11")]) == 2
    assert f'hint: write "{path}"' in capsys.readouterr().err
    assert main(["state", "show", path, "group"]) == 2
    assert 'has no table "group"' in capsys.readouterr().err
    assert main(["state", "ls", str(tmp_path / "none")]) == 2
    assert "error[SS6212]" in capsys.readouterr().err


def test_a_flipped_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stored(tmp_path, 12, [("a", 1)])
    (file,) = (tmp_path / "shared").iterdir()
    data = bytearray(file.read_bytes())
    data[300] ^= 1
    file.write_bytes(data)
    assert main(["state", "sql", path, "FROM groups"]) == 1
    assert f'error[SS6210]: could not use the file "{file}"' in capsys.readouterr().err


def increments(directory: Path) -> str:
    """A chain of two segments: of the entries a, b and c, b has changed and c is gone."""

    def keyed(rows: list[tuple[int, int, str, int]]) -> pa.Table:
        slots, versions, words, numbers = zip(*rows, strict=True)
        return pa.table(
            {
                KEY_GROUP_COLUMN: pa.array([0] * len(rows), pa.int32()),
                "$slot": pa.array(slots, pa.int32()),
                "$version": pa.array(versions, pa.int64()),
                "word": words,
                "n": pa.array(numbers, pa.int64()),
            }
        )

    writer = StateWriter(FILES, str(directory))
    chain = [
        keyed([(0, 0, "a", 1), (1, 0, "b", 2), (2, 0, "c", 3)]),
        keyed([(1, 2, "b", 5), (2, -2, "c", 0)]),
    ]
    saved = []
    for n, table in enumerate(chain, 1):
        snapshot = OperatorSnapshot({"groups": table}, {}, {"groups": 1} if n > 1 else {})
        saved.append(writer.write(state_name("job-0-0-0", n), {OPERATOR_ID: snapshot}))
    segments = tuple(s for (operator,) in saved for table in operator.tables for s in table.segments)
    assert [s.is_increment for s in segments] == [False, True]
    ((operator,), _) = saved
    merged = msgspec.structs.replace(
        operator, tables=(msgspec.structs.replace(operator.tables[0], segments=segments),)
    )
    return CheckpointDirectory(FILES, str(directory)).store(manifest(2, SubtaskState((merged,))))


def test_increments_replace_and_delete_what_was_saved_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = increments(tmp_path)
    rows = lines(run(capsys, "show", "--json", path, "groups"))
    assert rows == [
        {"$key_group": 0, "$slot": 0, "word": "a", "n": 1},
        {"$key_group": 0, "$slot": 1, "word": "b", "n": 5},
    ]
    (table,) = json.loads(run(capsys, "ls", "--json", path))
    assert (table["rows"], table["increments"]) == (5, 1)


def test_the_program_in_the_documentation_reads_a_chain_with_pyarrow_alone(tmp_path: Path) -> None:
    increments(tmp_path)
    page = (Path(__file__).parents[4] / "docs" / "state.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    found: dict[str, Any] = {}
    exec(program.replace("checkpoints/JOB_ID", str(tmp_path)).replace("chk-12", "chk-2"), found)
    assert [[row["n"] for row in rows] for rows in found["entries"].values()] == [[1], [5], []]
