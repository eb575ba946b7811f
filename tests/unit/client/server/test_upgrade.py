"""What this release says of a data directory of the first one, before it takes it over."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from sqlstream.client.main import main
from sqlstream.client.server.backup import KeptPlace, back_up, restore
from sqlstream.client.server.kept_file import sealed, unsealed
from sqlstream.client.server.leadership import Leadership, newest_epoch

RELEASED = Path(__file__).parents[3] / "released" / "0.1.0"
JOB = next((RELEASED / "server" / "jobs").glob("*.job")).stem


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A data directory as 0.1.0 has left it, with two tokens."""
    place = tmp_path / "data"
    shutil.copytree(RELEASED / "server", place)
    tokens = [{"name": name, "role": "admin", "sha256": "0" * 64} for name in ("a", "b")]
    (place / "tokens.json").write_text(json.dumps(tokens))
    for path in [place, *place.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    return place


def verdicts(kept: Path, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, str]:
    capsys.readouterr()
    assert main(["upgrade", "--data-dir", str(kept), "--json", *words]) == code
    found = json.loads(capsys.readouterr().out)["findings"]
    return {f"{each['kind']} {Path(each['name']).name[:32]}": each["verdict"] for each in found}


def test_all_of_the_first_release_is_taken_over_after_a_backup(
    kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    savepoint = str(RELEASED / "savepoint")
    before = sorted((path, path.stat().st_mtime_ns) for path in kept.rglob("*"))
    found = verdicts(kept, capsys, "--dry-run", "--savepoint", savepoint)
    assert found == {
        "directory data": "kept",
        f"job {JOB}": "kept",
        "savepoint savepoint": "kept",
        "catalog catalog": "kept",
        "tokens tokens.json": "recomputed",
    }
    assert sorted((path, path.stat().st_mtime_ns) for path in kept.rglob("*")) == before
    verdicts(kept, capsys, "--backup", str(tmp_path / "backup"))
    assert json.loads((kept / "tokens.json").read_text())["version"] == 1
    assert (kept / "formats.json").exists()
    assert verdicts(kept, capsys, "--dry-run")["tokens tokens.json"] == "kept"
    # The way back.
    assert main(["restore", str(tmp_path / "backup"), "--data-dir", str(tmp_path / "old")]) == 0
    assert isinstance(json.loads((tmp_path / "old" / "tokens.json").read_text()), list)
    assert not (tmp_path / "old" / "formats.json").exists()


def test_what_cannot_be_read_is_named_and_then_nothing_is_changed(
    kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = kept / "jobs" / f"{JOB}.job"
    content = msgspec.msgpack.decode(unsealed(job.read_bytes()))
    job.write_bytes(sealed(msgspec.msgpack.encode({**content, "version": 9, "release": "3.0.0"})))
    table = next(kept.rglob("sums.json"))
    table.write_text('{"format": 8}')
    found = verdicts(kept, capsys, "--dry-run", "--savepoint", str(tmp_path), code=1)
    assert (
        found[f"job {JOB}"]
        == found["catalog sums.json"]
        == found[f"savepoint {tmp_path.name[:32]}"]
        == "refused"
    )
    assert main(["upgrade", "--data-dir", str(kept), "--backup", str(tmp_path / "backup")]) == 2
    said = capsys.readouterr()
    assert "use sqlstream 3.0.0 or a later release" in said.out
    assert "SS6146" in said.err
    assert not (tmp_path / "backup").exists()
    assert not (kept / "formats.json").exists()


def test_a_job_without_its_checkpoints_is_refused(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(kept / "checkpoints")
    assert verdicts(kept, capsys, "--dry-run", code=1)[f"job {JOB}"] == "refused"
    (kept / "jobs" / f"{JOB}.saved").unlink()
    assert verdicts(kept, capsys, "--dry-run")[f"job {JOB}"] == "recomputed"


def test_the_place_of_several_servers_is_backed_up_and_leads_at_once_where_it_is_restored(
    kept: Path, tmp_path: Path
) -> None:
    root, moved = tmp_path / "shared", tmp_path / "moved"
    epoch = root / "leader" / "epoch-7-host-1f"
    epoch.mkdir(parents=True, mode=0o700)
    for path in (root, root / "leader"):
        path.chmod(0o700)
    for name in ("catalog", "jobs"):
        shutil.move(kept / name, epoch / name)
    for name in ("checkpoints", "tokens.json"):
        shutil.move(kept / name, root / name)
    (epoch / "beat").write_text("host 3")
    assert newest_epoch(str(root)) == str(epoch)
    record = back_up(KeptPlace(str(root), True), str(tmp_path / "backup"), lambda: 1_000)
    assert [(job.id, job.is_copied) for job in record.jobs] == [(JOB, True)]
    restore(str(tmp_path / "backup"), KeptPlace(str(moved), True))
    leadership = Leadership(str(moved), 3_600, lambda: None)
    assert leadership._is_free(Path(newest_epoch(str(moved))).name)
    fenced = Path(newest_epoch(str(moved)))
    assert (fenced / "jobs" / f"{JOB}.job").read_bytes() == (epoch / "jobs" / f"{JOB}.job").read_bytes()
    assert (moved / "checkpoints" / JOB / "chk-2" / "_metadata").exists()
    assert sorted(p.name for p in moved.iterdir()) == ["checkpoints", "leader", "restored", "tokens.json"]
