"""What this release says of a data directory of the first one, before it takes it over."""

from __future__ import annotations

import json
import resource
import shutil
import threading
from pathlib import Path

import msgspec
import pytest

from sqlstream.client.configuration import load_configuration
from sqlstream.client.main import main
from sqlstream.client.server.backup import KeptPlace, back_up, restore
from sqlstream.client.server.kept_file import sealed, unsealed
from sqlstream.client.server.leaders.copied_records import LeaderStores, fill, holder, led_epoch
from sqlstream.client.server.leaders.leadership import Leadership
from sqlstream.client.server.leaders.stores import leaders
from sqlstream.client.server.upgrade import check_unused
from sqlstream.errors import UserError

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


def test_a_directory_of_something_else_and_a_backup_are_no_data_directory_and_stay_as_they_are(
    kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = tmp_path / "plain"
    foreign.mkdir(mode=0o700)
    (foreign / "notes.txt").write_text("mine")
    backup = tmp_path / "backup"
    assert main(["backup", str(backup), "--data-dir", str(kept)]) == 0
    before = sorted(tmp_path.rglob("*"))
    for place in (foreign, backup, backup / "data"):
        for words in (["upgrade"], ["upgrade", "--dry-run"], ["backup", str(tmp_path / "other")]):
            assert main([*words, "--data-dir", str(place)]) == 2
            said = capsys.readouterr().err
            assert "SS6142" in said
            assert f'"{place}" is no data directory of sqlstream' in said
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("is_there", [False, True])
def test_a_backup_that_has_no_room_leaves_nothing_and_can_be_taken_again(
    kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], is_there: bool
) -> None:
    (kept / "artifacts").mkdir()
    (kept / "artifacts" / "large").write_bytes(bytes(1 << 20))
    backup = tmp_path / "backup"
    if is_there:
        backup.mkdir()
    words = ["backup", str(backup), "--data-dir", str(kept)]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, before[1]))
    try:
        assert main(words) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    said = capsys.readouterr().err
    assert f'could not back up "{kept}" into "{backup}": file too large\n' in said
    assert "hint: see to the room" in said
    assert (list(backup.iterdir()) if backup.exists() else None) == ([] if is_there else None)
    assert main(words) == 0


def test_a_job_without_its_checkpoints_is_refused(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(kept / "checkpoints")
    assert verdicts(kept, capsys, "--dry-run", code=1)[f"job {JOB}"] == "refused"
    (kept / "jobs" / f"{JOB}.saved").unlink()
    assert verdicts(kept, capsys, "--dry-run")[f"job {JOB}"] == "recomputed"


def place_of_several(directory: Path) -> KeptPlace:
    words = ["high-availability.type=filesystem", f"high-availability.storageDir={directory}"]
    configuration = load_configuration(None, words, {"XDG_CONFIG_HOME": "/none"})
    found = leaders(configuration)
    assert found is not None
    return KeptPlace(found.directory, LeaderStores(found, configuration))


def test_the_directory_of_one_of_several_servers_is_refused_without_their_settings(
    kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = place_of_several(tmp_path / "shared")
    for directory, name in ((kept, "led"), (Path(place.root), "records")):
        (directory / name).mkdir(parents=True)
        (directory / "formats.json").write_text('{"release": "0.1.0", "formats": {}}')
    before = sorted(tmp_path.rglob("*"))
    for directory in (str(kept), place.root):
        for words in (
            ["backup", str(tmp_path / "backup")],
            ["upgrade"],
            ["upgrade", "--dry-run"],
            ["cluster", "token"],
            ["token", "add", "dashboard"],
        ):
            assert main([*words, "--data-dir", directory]) == 2
            said = capsys.readouterr()
            assert ("SS6147" in said.err, "--config or -D" in said.err, said.out) == (True, True, "")
    assert sorted(tmp_path.rglob("*")) == before
    # Where it shares none any more.
    shutil.rmtree(kept / "led")
    assert main(["cluster", "token", "--data-dir", str(kept)]) == 0


def test_the_place_of_several_servers_is_backed_up_and_leads_at_once_where_it_is_restored(
    kept: Path, tmp_path: Path
) -> None:
    place, moved = place_of_several(tmp_path / "shared"), place_of_several(tmp_path / "moved")
    assert place.stores is not None
    assert moved.stores is not None
    led = tmp_path / "led"
    led.mkdir()
    for name in ("catalog", "jobs"):
        shutil.move(kept / name, led / name)
    Path(place.root).mkdir(parents=True, mode=0o700)
    fill(place.stores, "", str(led), 6)
    for name in ("checkpoints", "tokens.json"):
        shutil.move(kept / name, Path(place.root) / name)
    record = back_up(place, str(tmp_path / "backup"), lambda: 1_000)
    assert [(job.id, job.is_copied) for job in record.jobs] == [(JOB, True)]
    restore(str(tmp_path / "backup"), moved)
    assert holder(moved.stores) == ""
    # Whoever has led since the backup has had other epochs, by which ids of checkpoints go.
    assert (led_epoch(place.stores), led_epoch(moved.stores)) == (7, 1008)
    check_unused(moved)
    with moved.fenced() as found:
        assert (Path(found) / "jobs" / f"{JOB}.job").read_bytes() == (
            led / "jobs" / f"{JOB}.job"
        ).read_bytes()
        assert (Path(found) / "catalog" / "default_catalog" / "catalog.json").exists()
    assert (Path(moved.root) / "checkpoints" / JOB / "chk-2" / "_metadata").exists()
    names = sorted(p.name for p in Path(moved.root).iterdir())
    assert names == ["checkpoints", "large", "records", "restored", "tokens.json"]
    with moved.stores.opened() as stores:
        leadership = Leadership(stores, moved.stores.leaders.times, lambda: None)
        assert leadership.wait(threading.Event())
        with pytest.raises(UserError, match="leads") as caught:
            check_unused(moved)
        assert caught.value.code == "SS4010"
        leadership.stop()
