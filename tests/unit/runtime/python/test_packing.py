"""Archives of modules that are too large to be a part of a plan."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from sqlstream.errors import UserError
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.python import packing
from sqlstream.runtime.python.environment import PythonEnvironment
from sqlstream.runtime.python.packing import large_archives, pack


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "ARCHIVE_BYTES_MAX", 1000)
    monkeypatch.setattr(packing, "CONTENT_BYTES_MAX", 5000)


def archive(path: Path, **contents: str) -> str:
    with zipfile.ZipFile(path, "w") as made:
        for name, content in contents.items():
            made.writestr(name.replace("__", "/").replace("_py", ".py").replace("_so", ".so"), content)
    return str(path)


def test_archives_are_large_by_their_bytes(tmp_path: Path) -> None:
    small = archive(tmp_path / "small.zip", a_py="x = 1")
    large = archive(tmp_path / "large.zip", b_py="y = 2", b__data="z" * 2000)
    module = tmp_path / "c.py"
    module.write_text("z = 3" + " " * 2000)
    assert large_archives((small, large, str(module), str(tmp_path), large), LocalFiles()) == (large,)


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ({"a_py": "z" * 2000, "b_so": ""}, "is machine code"),
        ({"json__a_py": "z" * 2000}, 'has a module "json"'),
        ({"a_py": "z" * 6000}, "is too large"),
    ],
)
def test_a_large_archive_is_held_to_what_a_small_one_is(
    tmp_path: Path, contents: dict[str, str], said: str
) -> None:
    path = archive(tmp_path / "a.zip", **contents)
    with pytest.raises(UserError, match=said) as raised:
        large_archives((path,), LocalFiles())
    assert raised.value.code == "SS2033"
    (tmp_path / "b.zip").write_bytes(b"x" * 2000)
    with pytest.raises(UserError, match="is no zip archive"):
        large_archives((str(tmp_path / "b.zip"),), LocalFiles())


def test_modules_are_found_in_memory_and_on_the_disk(tmp_path: Path) -> None:
    small = pack((archive(tmp_path / "small.zip", a_py="x = 1", both_py="b = 1"),), LocalFiles())
    large = archive(tmp_path / "large.zip", p__q_py="y = 2", p__data="d", both_py="b = 2")
    found = PythonEnvironment(small, [large])
    assert [found.get_source(name) for name in ("a", "p.q", "both")] == ["x = 1", "y = 2", "b = 1"]
    assert found.is_package("p")
    assert found.find_spec("p.none", None) is None
    spec = PythonEnvironment(None, [large]).find_spec("p.q", None)
    assert spec is not None
    assert spec.origin is not None
    assert spec.origin.endswith("/p/q.py")
