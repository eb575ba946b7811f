"""Java is found where users have it, and its absence says what to install."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sqlstream.errors import ExternalError
from sqlstream.runtime.host import java
from sqlstream.runtime.host.java import Java, find_java, java_home

NEW = 'openjdk version "21.0.5" 2024-10-15'
OLD = 'java version "1.8.0_292"'
ELEVEN = 'openjdk version "11.0.2" 2019-01-15'


@pytest.fixture(autouse=True)
def without_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine may have PyPI's runtime."""
    monkeypatch.setattr(java, "_PACKAGE", "no_such_package_with_java")


def make_java(home: Path, version: str, *, has_vector_module: bool = True) -> str:
    """A program that answers as a Java of that version does, and otherwise prints its arguments."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    refusal = "" if has_vector_module else "exit 1"
    program.write_text(
        "#!/bin/sh\n"
        f'case "$*" in\n *--add-modules*-version) {refusal or ":"};;\nesac\n'
        f"case \"$*\" in\n *-version) echo '{version}' >&2;;\n"
        ' *) for a do printf "[%s]" "$a"; done;;\nesac\n'
    )
    program.chmod(0o755)
    return str(home)


def test_without_java_the_error_says_what_to_install() -> None:
    with pytest.raises(ExternalError) as caught:
        find_java({"PATH": "/nonexistent"})
    assert caught.value.code == "SS5110"
    assert caught.value.message == "Spark needs Java 17 or newer, which was not found"
    assert caught.value.detail == "JAVA_HOME is not set, and there is no java on PATH"
    assert "apt-get install openjdk-17-jre-headless" in caught.value.hint
    assert "pip install 'sqlstream[java]'" in caught.value.hint
    assert "SET 'execution.batch.engine' = 'duckdb'" in caught.value.hint


def test_java_home_comes_first(tmp_path: Path) -> None:
    named = make_java(tmp_path / "named", NEW)
    on_path = make_java(tmp_path / "path", NEW)
    assert find_java({"JAVA_HOME": named, "PATH": f"{on_path}/bin"}) == Java(named, 21, True)


@pytest.mark.parametrize(("version", "number"), [(OLD, 8), (ELEVEN, 11)])
def test_a_java_that_is_too_old_is_passed_over_and_named(tmp_path: Path, version: str, number: int) -> None:
    old = make_java(tmp_path / "old", version)
    new = make_java(tmp_path / "new", NEW)
    assert find_java({"JAVA_HOME": old, "PATH": f"{new}/bin"}).home == new
    with pytest.raises(ExternalError) as caught:
        find_java({"JAVA_HOME": old, "PATH": ""})
    assert caught.value.detail == f'JAVA_HOME "{old}" is Java {number}'


@pytest.mark.parametrize(
    ("release", "found"),
    [
        ('JAVA_VERSION="25.0.1"\nMODULES="java.base jdk.incubator.vector"\n', (25, True)),
        ('MODULES="java.base"\nJAVA_VERSION="17"\n', (17, False)),
        ('JAVA_VERSION="1.8.0_292"\nMODULES=""\n', None),
        ('JAVA_VERSION="25.0.1"\n', (21, True)),
        ('JAVA_VERSION="none"\nMODULES="java.base"\n', (21, True)),
    ],
)
def test_a_java_is_run_only_where_its_release_file_says_too_little(
    tmp_path: Path, release: str, found: tuple[int, bool] | None
) -> None:
    home = make_java(tmp_path / "home", NEW)
    (tmp_path / "home" / "release").write_text(release)
    if found is None:
        with pytest.raises(ExternalError, match="Java 17"):
            find_java({"JAVA_HOME": home, "PATH": ""})
    else:
        assert find_java({"JAVA_HOME": home, "PATH": ""}) == Java(home, *found)


def test_a_java_home_without_java_is_named() -> None:
    with pytest.raises(ExternalError) as caught:
        find_java({"JAVA_HOME": "/nonexistent", "PATH": ""})
    assert caught.value.detail == 'JAVA_HOME "/nonexistent" does not run'


def test_a_link_on_the_path_leads_to_the_home(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", NEW)
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(f"{home}/bin/java")
    assert find_java({"PATH": str(links)}).home == home


def test_a_runtime_without_the_vector_module_gets_a_home_that_drops_the_argument(tmp_path: Path) -> None:
    home = make_java(tmp_path / "it's small", NEW, has_vector_module=False)
    found = find_java({"JAVA_HOME": home})
    assert found == Java(home, 21, False)
    wrapper = java_home(found, str(tmp_path / "temporary"))
    said = subprocess.run(
        [f"{wrapper}/bin/java", "-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "--add-modules=other"],
        capture_output=True,
        timeout=240,
        check=True,
    )
    assert said.stdout == b"[-Xmx1g][a b][--add-modules=other]"


def test_a_whole_runtime_is_used_as_it_is(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", NEW)
    assert java_home(find_java({"JAVA_HOME": home}), str(tmp_path / "temporary")) == home
    assert not (tmp_path / "temporary").exists()
