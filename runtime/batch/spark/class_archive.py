"""Spark's classes as an archive of Java (class data sharing), which one process of this user writes and later ones map.

A JVM that loads 15,000 classes from jars parses and verifies each of them. Where the setting CLASS_ARCHIVE asks for it, Java
records what it loads and writes it when it ends, which takes more than it saves in one start. The name of the file carries a
digest of all that must be the same: the Java runtime, Spark's jars and what else is on the class path. Java itself checks this
once more, and goes without an archive that it cannot use. A file that was cut off would end it, so the name carries the size too.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from sqlstream.runtime.batch.spark.settings import CLASS_ARCHIVE
from sqlstream.runtime.host.cache_directory import is_safe, user_directories, writable_directory

logger = logging.getLogger(__name__)

_NAME = "java"
_SUFFIX = ".jsa"
_DIGEST_CHARACTERS = 32
_OWNER_ALONE = 0o700

_ARCHIVES_MAX = 2
"""Archives that are kept, those written last: each has 160 MB."""

_CLASS_PATH_VARIABLES = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
_CLASS_PATH_SETTINGS = ("spark.driver.extraClassPath",)

_QUIET = "-Xlog:cds*=off"
"""What Java says of classes that it leaves out, and of archives that it cannot use, concerns nobody."""


class ClassArchive:
    """The archive for one start of Spark. State: where it is, or the directory that it is to be written to; neither where there
    is none."""

    def __init__(self, java_home: str, spark_home: str, settings: Mapping[str, str]) -> None:
        self._name = _digest(java_home, spark_home, settings)
        use = settings.get(CLASS_ARCHIVE, "read")
        directories = user_directories(_NAME)
        self._found: Path | None = None
        self._target: Path | None = None
        if use == "read":
            # Java runs code from it.
            self._found = next((found for d in directories for found in self._usable(d)), None)
        elif use == "write":
            directory = writable_directory(directories, _OWNER_ALONE)
            self._target = directory
            if directory is None:
                logger.warning(
                    "no archive of classes: none of %s can be written", list(map(str, directories))
                )
        self._partial = Path(f"{self._target}/{self._name}.{os.getpid()}")

    @property
    def is_written(self) -> bool:
        """Whether Java writes one when it ends."""
        return self._target is not None

    @property
    def java_options(self) -> list[str]:
        """For the JVM of Spark's driver."""
        if self._target is not None:
            return [f"-XX:ArchiveClassesAtExit={self._partial}", _QUIET]
        if self._found is not None:
            return [f"-XX:SharedArchiveFile={self._found}", _QUIET]
        return []

    def keep(self) -> None:
        """The JVM has ended by itself: let later ones find what it has written."""
        if self._target is None:
            return
        try:
            self._partial.chmod(_OWNER_ALONE & 0o666)
            with self._partial.open("rb") as written:
                os.fsync(written)
            # A process that starts meanwhile finds all of it or nothing.
            os.replace(self._partial, self._target / f"{self._name}-{self._partial.stat().st_size}{_SUFFIX}")
            found = sorted(self._target.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime_ns)
            for path in found[:-_ARCHIVES_MAX]:
                path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("Java has written no archive of classes: %s", error)

    def _usable(self, directory: Path) -> list[Path]:
        """Archives of this name that are whole and that nobody else can have written, the last one first."""
        if not is_safe(directory):
            return []
        found = [path for path in directory.glob(f"{self._name}-*{_SUFFIX}") if is_safe(path)]
        found = [path for path in found if path.stem == f"{self._name}-{path.stat().st_size}"]
        return sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)

    def drop(self) -> None:
        """Forget what the JVM may have written."""
        if self._target is not None:
            self._partial.unlink(missing_ok=True)


def _digest(java_home: str, spark_home: str, settings: Mapping[str, str]) -> str:
    """Of what an archive depends on."""
    home = os.path.realpath(java_home)
    said: list[object] = [home, spark_home]
    said += [os.environ.get(name) for name in _CLASS_PATH_VARIABLES]
    said += [settings.get(key) for key in _CLASS_PATH_SETTINGS]
    for path in (Path(home, "release"), Path(home, "lib", "server", "libjvm.so"), Path(spark_home, "jars")):
        with contextlib.suppress(OSError):
            said.append(_status(path))
            if path.is_dir():
                said += sorted((file.name, _status(file)) for file in path.iterdir())
    return hashlib.sha256(repr(said).encode()).hexdigest()[:_DIGEST_CHARACTERS]


def _status(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
