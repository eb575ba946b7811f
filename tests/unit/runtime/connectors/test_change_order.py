"""Files of changes are named behind all that are there, whatever has named those."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.runtime.connectors.files.change_order import order_behind
from sqlstream.runtime.host.files import LocalFiles


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("part-0000000000ffaaaaaaaa-0-00000000.json", 0x100),
        ("p=1/part-0000000000ffaaaaaaaa-0-00000003-joined.json", 0x100),
        # Joined.
        ("part-0000000000ffaaaaaaaa-joined-0-00000000.json", 0x100),
        (".staging-job-1-0000000000ffaaaaaaaa/part", 0x100),
        # Of a sink that only inserts.
        ("part-0000000000ff-0-00000000.json", 5),
        ("part-ffffffffffff.json", 5),
    ],
)
def test_a_writer_begins_behind_what_is_there(tmp_path: Path, name: str, order: int) -> None:
    table = tmp_path / "t[1]"
    assert order_behind(str(table), 5, LocalFiles()) == f"{5:012x}"
    (table / name).parent.mkdir(parents=True)
    (table / name).write_text("")
    assert order_behind(str(table), 5, LocalFiles()) == f"{order:012x}"
