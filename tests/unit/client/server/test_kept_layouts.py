"""What is kept on disks changes its fields only so that files of earlier releases are read, or under another version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from released import layouts

from sqlstream.kept_formats import OF_A_PLACE, TABLE_LOGS

RELEASED = Path(__file__).parents[3] / "released"
VERSIONS = sorted(path.parent.name for path in RELEASED.glob("*/layouts.json"))


@pytest.mark.parametrize("version", VERSIONS)
def test_files_of_an_earlier_release_are_read(version: str) -> None:
    """Where this fails, raise the number in sqlstream/kept_formats.py and read the version before too."""
    assert layouts.problems(layouts.read(RELEASED / version / "layouts.json"), layouts.layouts()) == []


def test_a_change_of_what_is_kept_or_sent_is_seen(golden: Callable[[Path, str], None]) -> None:
    """With `--rewrite` the new layouts are taken: files of the last commit are to be read as well, or have another version. Of a
    message that means something else raise PROTOCOL_VERSION."""
    golden(RELEASED / "layouts.txt", layouts.digests({**layouts.layouts(), **layouts.messages()}))


def test_the_versions_are_those_of_the_table() -> None:
    known = {one.name: one.version for one in (*OF_A_PLACE, TABLE_LOGS)}
    found = {name: layout["version"] for name, layout in layouts.layouts().items()}
    assert found == {name: known[name] for name in found}


STRUCT = {"tag": "t", "refuses_others": False, "fields": {"a": {"type": ["int"], "is_required": True}}}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"fields": {**STRUCT["fields"], "b": {"type": ["int"], "is_required": False}}}, None),
        ({"fields": {"a": {"type": ["int", "none"], "is_required": True}}}, None),
        ({"fields": {}}, None),
        ({"fields": {}, "refuses_others": True}, "x: S.a is refused"),
        ({"fields": {"a": {"type": ["str"], "is_required": True}}}, "x: S.a is ['str'] and was ['int']"),
        (
            {"fields": {**STRUCT["fields"], "b": {"type": ["int"], "is_required": True}}},
            "x: S.b is new and has no default",
        ),
        ({"tag": "u"}, "x: S has another tag"),
    ],
)
def test_changes_that_earlier_files_do_not_survive_are_told(
    change: dict[str, object], problem: str | None
) -> None:
    old = {"x": {"version": 1, "types": {"S": STRUCT, "E": {"values": ["A"]}}}}
    new = {"x": {"version": 1, "types": {"S": {**STRUCT, **change}, "E": {"values": ["A", "B"]}}}}
    assert layouts.problems(old, new) == ([problem] if problem else [])
    assert layouts.problems(new, old)[-1:] != []  # an enumeration has lost a value
    assert layouts.problems(old, {"x": {"version": 2, "types": {}}}) == []
