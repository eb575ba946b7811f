"""What Spark ships to its workers by value: it checks what is installed there, finds our packages, and starts a TaskManager.

The packages are there only as an archive that comes with the job, so this file imports none of them.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

from pyspark import SparkFiles, TaskContext


def make_launch(
    options: str, packages: dict[str, str], archive: str | None
) -> Callable[[Iterator[Any]], Iterator[str]]:
    """The function of a task that runs one TaskManager and gives what became of it (LaunchResult) as JSON.

    `packages` are those that it needs, with their versions here; `archive` is the directory of our packages among the files of a
    Spark job, None where workers inherit the import path."""

    def launch(rows: Iterator[Any]) -> Iterator[str]:
        del rows
        task = TaskContext.get()
        assert task is not None
        if task.attemptNumber() > 0:
            # Spark restarts a task whose executor it has lost; the JobManager knows only the first attempt's resource id.
            return iter([json.dumps({"is_restarted": True})])
        problems = []
        for name, needed in packages.items():
            try:
                found = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                problems.append(f"{name} {needed} is not installed")
                continue
            if found != needed:
                problems.append(f"{name} is {found}, not {needed}")
        if problems:
            place = f"{sys.executable}, Python {platform.python_version()}"
            return iter([json.dumps({"host": socket.gethostname(), "python": place, "problems": problems})])
        if archive is not None:
            directory = os.path.join(SparkFiles.getRootDirectory(), archive)
            if directory not in sys.path:
                sys.path.insert(0, directory)
        from sqlstream.runtime.providers.spark.launch import launch_task_manager

        return iter([launch_task_manager(options)])

    return launch


def make_arrow_launch(
    options: str, packages: dict[str, str], archive: str
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The same for `mapInArrow`."""
    launch = make_launch(options, packages, archive)

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            del batch
        yield pa.record_batch([pa.array(list(launch(iter(()))), pa.string())], names=["result"])

    return run
