"""The graph of a job that has ended, without the passwords that it ran with."""

from __future__ import annotations

from typing import Any

import msgspec

from sqlstream.graph.job_graph import JobGraph
from sqlstream.secrets import masked

_OPTIONS = ("config", "options")
"""What settings of jobs and options of tables are called, in graphs and in specs."""


def without_secrets(job_graph: JobGraph) -> JobGraph:
    graph: JobGraph = _masked(job_graph)
    return graph


def _masked(value: Any) -> Any:
    """The same object where nothing is secret."""
    if isinstance(value, tuple):
        found = tuple(_masked(each) for each in value)
        return found if any(new is not old for new, old in zip(found, value, strict=True)) else value
    if not isinstance(value, msgspec.Struct):
        return value
    changes: dict[str, Any] = {}
    for name in value.__struct_fields__:
        old = getattr(value, name)
        is_options = name in _OPTIONS and isinstance(old, dict)
        new = {key: masked(key, text) for key, text in old.items()} if is_options else _masked(old)
        if new is not old and new != old:
            changes[name] = new
    return msgspec.structs.replace(value, **changes) if changes else value
