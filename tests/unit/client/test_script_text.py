"""What is read of the file of a script."""

from __future__ import annotations

from pathlib import Path

from sqlstream.client.script_text import read_script


def test_a_byte_order_mark_is_no_part_of_the_script(tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text("\ufeffSELECT 1;", encoding="utf-8")
    assert read_script(str(script)) == "SELECT 1;"
