"""`sqlstream job ID`: one job of a server, with its vertices and the cause of its failure."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sqlstream.client.commands.remote.server_arguments import (
    SERVER_EPILOG,
    add_arguments_of_job,
    duration_text,
    moment_text,
    print_table,
    show_job,
)

if TYPE_CHECKING:
    from sqlstream.client.connection.cluster_rest import ClusterRest

EPILOG = f"""\
examples:
  sqlstream job 4f1c
  sqlstream job 4f1c --json | jq .totals.total

ID is a job's id, or the first characters of it. --json prints an object with `job`, `exceptions` (as Flink's REST under
/jobs/ID and /jobs/ID/exceptions), `totals`, `autoscaler` and `latency` (as REST under /jobs/ID/autoscaler and …/latency).
{SERVER_EPILOG}"""

_COLUMNS = ("vertex", "parallelism", "status", "rows in", "rows out", "duration")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_arguments_of_job(parser)


def execute(arguments: argparse.Namespace) -> int:
    show_job(arguments, _all_of, _print_job)
    return 0


def _all_of(cluster: ClusterRest, job_id: str) -> dict[str, Any]:
    parts = ("totals", "exceptions", "autoscaler", "latency")
    return {"job": cluster.of_job(job_id), **{part: cluster.of_job(job_id, f"/{part}") for part in parts}}


def _print_job(found: dict[str, Any]) -> None:
    from sqlstream.client.connection.wire import failure_of
    from sqlstream.client.following.progress import size_text
    from sqlstream.errors import render_error
    from sqlstream.messages.job_state import JobStatus
    from sqlstream.terminal_text import shown, shown_lines

    job, totals = found["job"], found["totals"]
    total = totals["total"]
    facts = {
        "job": job["jid"],
        "name": shown(job["name"]),
        "status": job["state"],
        "started": moment_text(job["start-time"]),
        "duration": duration_text(job["duration"]),
        "rows read": f"{int(total.get('numRecordsRead', 0)):,}",
        "rows written": f"{int(total.get('numRecordsWritten', 0)):,}",
        "state": size_text(total.get("stateBytes", 0)),
        "checkpoints": f"{int(total.get('numberOfCompletedCheckpoints', 0)):,}",
        "restarts": f"{int(total.get('numRestarts', 0)):,}",
    }
    if "endToEndLatency_p99" in total:
        median, p99 = (f"{total[f'endToEndLatency_{stat}']:,.0f} ms" for stat in ("median", "p99"))
        facts["latency"] = f"half within {median}, 99 % within {p99}"
    for name, value in facts.items():
        print(f"{name:<14}{value}")
    rows = [
        (
            vertex["name"],
            vertex["parallelism"],
            vertex["status"],
            int(vertex["metrics"]["read-records"]),
            int(vertex["metrics"]["write-records"]),
            duration_text(max(0, vertex["duration"])),
        )
        for vertex in job["vertices"]
    ]
    print_table(_COLUMNS, rows)
    for line in (*autoscaler_lines(found["autoscaler"]), *latency_lines(found["latency"])):
        print(line)
    for line in totals["warnings"]:
        print(shown(line))
    if totals["failure"]:
        print(f"restarting after {shown_lines(totals['failure'])}")
    error = failure_of(found["exceptions"])
    if error is not None and job["state"] == JobStatus.FAILED.value:
        print(render_error(error))


def autoscaler_lines(status: dict[str, Any]) -> list[str]:
    """What the autoscaler has measured, and its decisions, the newest first; none for a job without it."""
    from sqlstream.terminal_text import shown

    if not status["enabled"]:
        return []
    facts = ["it measures"]
    if status["vertices"]:
        facts = [f"{shown(v['name'])} is busy for {v['busyRatio']:.0%}" for v in status["vertices"]]
        facts.append(f"the sources emit {status['recordsPerSecond']:,.0f} records/s")
    if "pendingRecords" in status:
        facts.append(f"{status['pendingRecords']:,.0f} are left to read")
    head = f"autoscaler: parallelism {status['parallelism']}; {', '.join(facts)}"
    decisions = (
        f"  {moment_text(d['timestamp'])}  {d['parallelism']} -> {d['wanted']}"
        f" ({'applied' if d['applied'] else 'not applied'}): {shown(d['reason'])}"
        for d in status["decisions"]
    )
    return [head, *decisions]


def latency_lines(status: dict[str, Any]) -> list[str]:
    """The target, what was chosen for it and why, and the sizes of batches, the newest first; none for a job without one."""
    from sqlstream.terminal_text import shown

    if not status["enabled"]:
        return []
    reached = f"99 % within {status['p99']:,} ms" if "p99" in status else "not measured yet"
    head = (
        f"latency: target {status['target']:,} ms, {reached}; batches of up to {status['batch-rows']:,} rows"
    )
    seen = [f"  {shown(status['reason'])}"] if status["reason"] else []
    chosen = [f"  {shown(c['key'])} = {shown(c['value'])}: {shown(c['reason'])}" for c in status["chosen"]]
    decisions = (
        f"  {moment_text(d['timestamp'])}  batches of {d['before']} -> {d['rows']} rows: {shown(d['reason'])}"
        for d in status["decisions"]
    )
    return [head, *seen, *chosen, *decisions]
