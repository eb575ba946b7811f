"""A backup of a running server, restored elsewhere: its jobs go on, and what it has kept is there."""

from __future__ import annotations

import json
import shutil
import signal
import stat
from pathlib import Path

import pytest
from command_harness import sqlstream
from server_harness import RunningServer
from spark_harness.processes import wait_until
from standalone_harness import check_first, finish_copy, start_copy, writes_on, written


def back_up(data: Path, target: Path) -> dict[str, object]:
    found = sqlstream("backup", str(target), "--data-dir", str(data), "--json")
    assert found.returncode == 0, found.stderr
    record: dict[str, object] = json.loads(found.stdout)
    return record


def restore(backup: Path, data: Path) -> None:
    found = sqlstream("restore", str(backup), "--data-dir", str(data))
    assert found.returncode == 0, found.stderr


def are_private(place: Path) -> bool:
    modes = [stat.S_IMODE(path.stat().st_mode) for path in [place, *place.rglob("*")]]
    return not any(mode & 0o077 for mode in modes)


@pytest.mark.timeout(300)
def test_a_job_with_checkpoints_elsewhere_goes_on_with_exact_rows_after_its_server_is_lost(
    tmp_path: Path,
) -> None:
    with RunningServer(tmp_path / "data", "-D", "sqlstream.server.authentication=ALWAYS") as server:
        token = (tmp_path / "data" / "token").read_text().strip()
        server.headers = {"Authorization": f"Bearer {token}"}
        job = start_copy(
            server, tmp_path, f"SET 'execution.checkpointing.dir' = '{tmp_path / 'checkpoints'}'"
        )
        wait_until(lambda: bool(written(tmp_path)))
        record = back_up(tmp_path / "data", tmp_path / "backup")
        (saved,) = record["jobs"]  # type: ignore[misc]
        assert (saved["id"], saved["is_copied"]) == (job, False)
        writes_on(tmp_path)
        assert server.signal(signal.SIGKILL) == -signal.SIGKILL
    assert are_private(tmp_path / "backup")
    shutil.rmtree(tmp_path / "data")
    restore(tmp_path / "backup", tmp_path / "elsewhere")
    assert are_private(tmp_path / "elsewhere")
    with RunningServer(tmp_path / "elsewhere", "-D", "sqlstream.server.authentication=ALWAYS") as server:
        # The same token counts, and the same tables are there.
        server.headers = {"Authorization": f"Bearer {token}"}
        assert ["g"] in server.execute(server.open_session(), "SHOW TABLES")
        server.wait_for(job, "RUNNING")
        writes_on(tmp_path)
        finish_copy(server, job, tmp_path)


@pytest.mark.timeout(300)
def test_a_job_goes_on_from_the_checkpoint_in_the_backup_of_a_running_server(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server:
        job = start_copy(server, tmp_path)
        wait_until(lambda: bool(written(tmp_path)))
        # Checkpoints come and go meanwhile.
        record = back_up(tmp_path / "data", tmp_path / "backup")
        (saved,) = record["jobs"]  # type: ignore[misc]
        assert saved["is_copied"]
        writes_on(tmp_path)
        assert server.signal(signal.SIGKILL) == -signal.SIGKILL
    restore(tmp_path / "backup", tmp_path / "elsewhere")
    with RunningServer(tmp_path / "elsewhere") as server:
        restored = server.get(f"/jobs/{job}/checkpoints")["latest"]["restored"]
        assert saved["checkpoint"].endswith(f"chk-{restored['id']}")
        server.wait_for(job, "RUNNING")
        before = written(tmp_path)
        wait_until(lambda: max(written(tmp_path)) > max(before))
        count = server.finish(job)
    # Nothing is lost; what was written since the backup is there twice.
    rows = written(tmp_path)
    assert (len(set(rows)), len(rows) > count) == (count, True)
    check_first(sorted(set(rows)))


@pytest.mark.timeout(300)
def test_the_backup_of_a_stopped_server_is_restored_with_exact_rows(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server:
        job = start_copy(server, tmp_path)
        wait_until(lambda: bool(written(tmp_path)))
        assert server.signal(signal.SIGTERM) == 0
    back_up(tmp_path / "data", tmp_path / "backup")
    shutil.rmtree(tmp_path / "data")
    restore(tmp_path / "backup", tmp_path / "elsewhere")
    with RunningServer(tmp_path / "elsewhere") as server:
        server.wait_for(job, "RUNNING")
        writes_on(tmp_path)
        finish_copy(server, job, tmp_path)


def test_what_is_no_whole_backup_or_has_a_place_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with RunningServer(data) as server:
        server.execute(server.open_session(), "CREATE TABLE t (n BIGINT) WITH ('connector' = 'blackhole')")
        back_up(data, tmp_path / "backup")
        for words, code in (
            (["backup", str(tmp_path / "backup"), "--data-dir", str(data)], "SS6142"),
            (["backup", str(tmp_path / "b"), "--data-dir", str(tmp_path / "none")], "SS6142"),
            (["restore", str(tmp_path / "backup"), "--data-dir", str(data)], "SS6145"),
            (["restore", str(data), "--data-dir", str(tmp_path / "new")], "SS6144"),
            (["upgrade", "--data-dir", str(data), "--backup", str(tmp_path / "c")], "SS4010"),
        ):
            found = sqlstream(*words)
            assert (found.returncode, code in found.stderr) == (2, True), found.stderr
        dry = sqlstream("upgrade", "--dry-run", "--data-dir", str(data), "--json")
        assert dry.returncode == 0, dry.stderr
        assert {each["verdict"] for each in json.loads(dry.stdout)["findings"]} == {"kept"}
    (tmp_path / "backup" / "data" / "formats.json").write_text("{}")
    found = sqlstream("restore", str(tmp_path / "backup"), "--data-dir", str(tmp_path / "new"))
    assert found.returncode != 0
    assert not (tmp_path / "new").exists()
    assert not list(tmp_path.glob("*.draft"))
