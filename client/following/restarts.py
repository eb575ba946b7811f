"""What is told of a job that has failed and goes on: why, when, and from where."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sqlstream.messages.rpc import RestartRecord
from sqlstream.terminal_text import shown

RESTARTS_SHOWN_MAX = 3
BEGINNING = "note: the job was restarted "


def restarts_text(restarts: Sequence[RestartRecord], count: int) -> list[str]:
    """A line on the restarts of a job, newest first in `restarts`, and one on each of the last RESTARTS_SHOWN_MAX."""
    if not count:
        return []
    times = "once" if count == 1 else f"{count:,} times"
    lines = [f"{BEGINNING}{times}"]
    last = restarts[:RESTARTS_SHOWN_MAX]
    if len(last) < count:
        lines[0] += f"; the last {len(last)}:"
    return [*lines, *(restart_text(restart) for restart in reversed(last))]


def restart_text(restart: RestartRecord) -> str:
    """When it failed, what it goes on from, and why; in local time."""
    moment = time.strftime("%H:%M:%S", time.localtime(restart.failed_ms / 1000))
    task = f"{restart.task}: " if restart.task else ""
    cause = f"{task}error[{restart.error.code}]: {shown(restart.error.message)}"
    return f"  failed at {moment}{_origin(restart.checkpoint_id)}: {cause}"


def _origin(checkpoint_id: int) -> str:
    if checkpoint_id < 0:
        return ""
    return f", went on from checkpoint {checkpoint_id}" if checkpoint_id else ", began again"
