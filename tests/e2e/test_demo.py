"""`sqlstream demo`, and the wheel that carries what it copies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
from command_harness import ROOT, TIMEOUT_S, run_to_end, sqlstream

NAMES = ("client", "runtime", "planner", "queries", "sqlstream")


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _carried() -> dict[str, bytes]:
    """The files of `queries/`, but for the tool that makes the data and what it has made."""
    return {
        name: text
        for name, text in _tree(ROOT / "queries").items()
        if not name.endswith((".py", ".pyc")) and not name.startswith("data/full/")
    }


def test_the_demo_copies_all_queries_and_runs_the_first(tmp_path: Path) -> None:
    done = sqlstream("demo", "a/trial", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "copied 34 files to a/trial/queries" in done.stderr
    assert "8 rows in set" in done.stdout
    assert _tree(tmp_path / "a/trial/queries") == _carried()
    assert {path.name for path in (tmp_path / "a/trial/out").iterdir()} == {
        "hourly_with_weather",
        "worst_carriers",
    }
    again = sqlstream("demo", "a/trial", cwd=tmp_path)
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr == (
        'error[SS4013]: "a/trial/out" is there, where the demo writes its tables\n'
        "hint: remove it, name another folder, or only copy with --copy-only\n"
    )
    shutil.rmtree(tmp_path / "a/trial/out")
    (tmp_path / "a/trial/queries/flights/hourly.sql").unlink()
    again = sqlstream("demo", "--copy-only", cwd=tmp_path / "a/trial")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "copied 1 file to queries\n")
    assert not (tmp_path / "a/trial/out").exists()


def test_a_file_of_another_text_is_not_replaced_and_nothing_is_copied(tmp_path: Path) -> None:
    mine = tmp_path / "queries/nexmark/q5.sql"
    mine.parent.mkdir(parents=True)
    mine.write_text("SELECT 1;")
    done = sqlstream("demo", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith('error[SS4013]: "queries/nexmark/q5.sql" is there and is not the file')
    assert _tree(tmp_path) == {"queries/nexmark/q5.sql": b"SELECT 1;"}


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = sqlstream("demo", "file", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error[SS5001]: cannot write ")


def _hide_names(folder: Path) -> None:
    """Put files that fail when they are imported beside a user's script, under names that our parts have in the repository."""
    for name in NAMES[:2]:
        (folder / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    for name in NAMES[2:4]:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise SystemExit('the wrong package')\n")


SCRIPT = """
import sqlstream
with sqlstream.connect("embedded://") as connection:
    cursor = connection.cursor()
    cursor.execute("SELECT COUNT(*) FROM (VALUES (1), (2)) AS t(n)")
    print(cursor.fetchall())
"""


def test_files_beside_a_script_that_are_named_like_our_parts_are_not_imported(tmp_path: Path) -> None:
    _hide_names(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run_to_end([sys.executable, "script.py"], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "[(2,)]\n"), done.stderr


def test_the_wheel_is_for_linux_and_the_pythons_that_are_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11,<3.14"
    versions = {name.rpartition(" ")[2] for name in project["classifiers"] if ":: 3." in name}
    assert versions == {"3.11", "3.12", "3.13"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment outside the checkout with the wheel, and the libraries of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    ignored = shutil.ignore_patterns("__pycache__", ".kernel_cache", "full", ".*_cache")
    source.mkdir()
    for name in NAMES:
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "setup.py", "README.md"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    built = run_to_end([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(source)], cwd=folder)
    if "No matching distribution found for setuptools" in built.stderr:
        pytest.skip("no package index to build with")
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    assert wheel.name == f"sqlstream-0.1.0-py3-none-manylinux_2_28_{os.uname().machine}.whl"
    shutil.rmtree(source)
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True, timeout=TIMEOUT_S
    )
    python = folder / "env/bin/python"
    put = run_to_end([*pip, "--python", str(python), "install", "--no-deps", str(wheel)], cwd=folder)
    assert put.returncode == 0, put.stderr
    (packages,) = (folder / "env/lib").glob("python*/site-packages")
    # Only the folder: a .pth there would not be read, and this checkout not be found.
    (packages / "libraries.pth").write_text("\n".join(sorted({*_library_folders()})) + "\n")
    return folder / "env"


def _library_folders() -> set[str]:
    return {path for path in sys.path if path.endswith("site-packages")} | {sysconfig.get_path("purelib")}


def _clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.mark.slow  # builds and installs a wheel
def test_an_installed_wheel_has_one_name_and_runs_its_main_job(installed: Path, tmp_path: Path) -> None:
    (packages,) = (installed / "lib").glob("python*/site-packages")
    (record,) = packages.glob("sqlstream-*.dist-info/RECORD")
    tops = {line.split("/")[0] for line in record.read_text().splitlines()}
    assert tops == {"sqlstream", record.parent.name, ".."}  # `..`: the command in bin
    assert not [path for path in (packages / "sqlstream").rglob("*") if path.is_symlink()]
    _hide_names(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run_to_end([str(installed / "bin/python"), "script.py"], cwd=tmp_path, env=_clean())
    assert (done.returncode, done.stdout) == (0, "[(2,)]\n"), done.stderr
    done = run_to_end([str(installed / "bin/sqlstream"), "demo", "trial"], cwd=tmp_path, env=_clean())
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("8 rows in set") == 2
    assert _tree(tmp_path / "trial/queries") == _carried()
    found = run_to_end(
        [str(installed / "bin/python"), "-c", "import sqlstream; print(sqlstream.__file__)"],
        cwd=tmp_path,
        env=_clean(),
    )
    assert found.stdout.strip() == str(packages / "sqlstream/__init__.py")
