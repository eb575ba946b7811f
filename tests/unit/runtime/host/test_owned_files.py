"""What a server that stands still removes late is of itself, or of servers before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.errors import ExternalError
from sqlstream.messages.checkpoint import STATE_DIRECTORY
from sqlstream.runtime.checkpoint.checkpoint_directory import CheckpointDirectory
from sqlstream.runtime.host.owned_files import owned
from sqlstream.runtime.host.private_files import PrivateFiles
from sqlstream.spi.files import Files


class Place:
    """Whether this server leads, and how often it was asked. `on_asked` happens at each."""

    def __init__(self) -> None:
        self.leads, self.asked = True, 0

    def check(self) -> None:
        self.asked += 1
        if not self.leads:
            raise ExternalError("SS6077", "this server leads no longer")


def files_in(directory: Path, *names: str) -> None:
    directory.mkdir(exist_ok=True)
    for name in names:
        (directory / name).write_text("x")


def test_what_was_seen_is_removed_once_the_server_has_led_after_it_looked(tmp_path: Path) -> None:
    place = Place()
    files = owned(PrivateFiles(), place.check)
    files_in(tmp_path, "a", "b")
    seen = files.list_names(str(tmp_path), 10)
    # It stands still from here on, and another one writes.
    files.remove(str(tmp_path / "a"))
    place.leads = False
    files_in(tmp_path, "c")
    for name, _ in seen:
        files.remove(str(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert place.asked == 1


@pytest.mark.parametrize("look", ["list_names", "list_files", "match_glob"])
def test_what_is_seen_behind_the_end_of_its_lead_stays(tmp_path: Path, look: str) -> None:
    place = Place()
    files = owned(PrivateFiles(), place.check)
    files_in(tmp_path, "a")
    files.remove(str(tmp_path / "none"))
    place.leads = False
    match look:
        case "list_names":
            files.list_names(str(tmp_path), 10)
        case "list_files":
            files.list_files(str(tmp_path))
        case _:
            files.match_glob(str(tmp_path / "*"))
    for remove in (files.remove, files.remove_directory_if_empty):
        with pytest.raises(ExternalError, match="leads no longer"):
            remove(str(tmp_path / "a"))
    assert (tmp_path / "a").exists()


def test_files_of_another_store_are_guarded_too_and_none_of_a_server_that_is_alone(tmp_path: Path) -> None:
    place = Place()
    alone = PrivateFiles()
    assert owned(alone, None) is alone
    alone.require_owner()
    assert alone.guarding(alone) is alone
    other: Files = owned(alone, place.check).guarding(PrivateFiles())
    place.leads = False
    with pytest.raises(ExternalError):
        other.remove(str(tmp_path / "a"))
    with pytest.raises(ExternalError):
        other.require_owner()


def test_a_server_that_stands_still_sweeps_no_files_that_tasks_of_the_next_one_write(tmp_path: Path) -> None:
    place = Place()
    state = tmp_path / "job" / STATE_DIRECTORY
    state.parent.mkdir()
    files_in(state, "2000000-a")
    place.leads = False
    with pytest.raises(ExternalError, match="leads no longer"):
        CheckpointDirectory(owned(PrivateFiles(), place.check), str(tmp_path / "job")).sweep()
    assert (state / "2000000-a").exists()
    place.leads = True
    CheckpointDirectory(owned(PrivateFiles(), place.check), str(tmp_path / "job")).sweep()
    assert not state.exists()
