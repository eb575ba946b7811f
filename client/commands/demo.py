"""`sqlstream demo [FOLDER]`: the queries that come with sqlstream, in a folder of the user's, and the first of them run."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

import sqlstream
from sqlstream.errors import UserError

CARRIED = Path(sqlstream.__file__).parent / "queries"
"""In a checkout a link to the folder `queries` at its top."""

PATTERNS = ("*.sql", "*/*.sql", "*/*.csv", "*/*.md")
FIRST = "queries/getting_started.sql"
OUTPUT = "out"
"""Where the first script writes its tables, as its text says."""

EPILOG = """\
examples:
  sqlstream demo
  sqlstream demo trial
  sqlstream demo --copy-only trial

The folder gets `queries` with scripts and their data: New York's flights and weather, and the Nexmark queries. Then
queries/getting_started.sql runs there, and writes two tables of Parquet files below `out`. Paths in the scripts begin at the
folder, so the next one runs by

  cd trial && sqlstream run queries/flights/hourly.sql

A file that is there already and has another text is not replaced, and nothing is copied then.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "folder", nargs="?", default=".", help="where to copy to; made if needed (default: the current one)"
    )
    parser.add_argument("--copy-only", action="store_true", help="run nothing")


def execute(arguments: argparse.Namespace) -> int:
    """The exit code of `sqlstream run`; 0 for a copy alone."""
    if not arguments.folder:
        raise UserError(
            "SS4001", "the name of the folder is empty", hint="name one, as in: sqlstream demo trial"
        )
    folder = Path(arguments.folder)
    if not arguments.copy_only:
        _refuse_earlier_output(folder)
    copied = copy_queries(folder)
    print(f"copied {copied} file{'' if copied == 1 else 's'} to {folder / 'queries'}", file=sys.stderr)
    if arguments.copy_only:
        return 0
    from sqlstream.client.commands import run

    os.chdir(folder)
    print(f"$ sqlstream run {FIRST}", file=sys.stderr)
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    return run.execute(parser.parse_args([FIRST]))


def copy_queries(folder: Path) -> int:
    """Copy what comes with sqlstream into `folder / "queries"`; returns the number of files that were not there.

    UserError SS4013 for a file of another text in the way, before anything is copied; SS5001 where nothing can be written.
    """
    sources = sorted(path for pattern in PATTERNS for path in CARRIED.glob(pattern))
    targets = {source: folder / "queries" / source.relative_to(CARRIED) for source in sources}
    try:
        there = [source for source, target in targets.items() if target.exists()]
        for source in there:
            if not targets[source].is_file() or targets[source].read_bytes() != source.read_bytes():
                raise UserError(
                    "SS4013",
                    f'"{targets[source]}" is there and is not the file of that name that comes with sqlstream',
                    hint="name another folder, as in: sqlstream demo trial",
                )
        missing = [source for source in sources if source not in there]
        for source in missing:
            targets[source].parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, targets[source])
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            "SS5001", f'cannot write "{error.filename}": {reason}', hint="name a folder of your own"
        ) from error
    return len(missing)


def _refuse_earlier_output(folder: Path) -> None:
    """UserError SS4013 when a run has left its tables there: another one would append the same rows to them."""
    if (folder / OUTPUT).exists():
        raise UserError(
            "SS4013",
            f'"{folder / OUTPUT}" is there, where the demo writes its tables',
            hint="remove it, name another folder, or only copy with --copy-only",
        )
