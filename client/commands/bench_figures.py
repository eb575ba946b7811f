"""What the workloads of `sqlstream bench` share: which queries, with which settings, and figures as text and JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlstream.errors import UserError, did_you_mean


def check_writable(path: str | None) -> None:
    """Check before minutes of work that `path` can be written. UserError SS5001."""
    if path is None or path == "-":
        return
    try:
        with open(path, "a", encoding="utf-8"):
            return
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            "SS5001", f'cannot write "{path}": {reason}', hint="give the path of a file to write"
        ) from error


def add_json_argument(parser: argparse.ArgumentParser, what: str) -> None:
    """--json FILE, which `write_json` obeys. `what` is written there."""
    parser.add_argument("--json", metavar="FILE", help=f"write {what} to FILE (- for standard output)")


def write_json(path: str | None, figures: Any) -> None:
    """Write what --json asks for: to a file, to standard output for `-`, and nothing for None."""
    if path is None:
        return
    text = json.dumps(figures, indent=2)
    if path == "-":
        print(text)
    else:
        Path(path).write_text(text + "\n", encoding="utf-8")


def bench_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """The settings of --set. UserError for a wrong one, or one for another target."""
    from sqlstream.client.configuration import settings_of_words
    from sqlstream.client.sessions.target_session import refuse_target

    settings = settings_of_words(arguments.set)
    refuse_target(settings, "sqlstream bench")
    return settings


def chosen(text: str, available: list[str] | tuple[str, ...], kind: str) -> list[str]:
    """The names of a comma-separated list, all for an empty one. UserError SS4005 for one that is not there."""
    if not text:
        return list(available)
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in available:
            hint = did_you_mean(name, available) or f"choose of {', '.join(available)}"
            raise UserError("SS4005", f'there is no {kind} "{name}"', hint=hint)
    return list(dict.fromkeys(names))


def cells_line(cells: Sequence[str], width: int = 18) -> str:
    return "".join(f"{cell:>{width}}" for cell in cells)
