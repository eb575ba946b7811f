"""Integers that come from outside have bounds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import inspect

from sqlstream.bounds import COUNT_MAX, Count, Int64
from sqlstream.client.server.job_store import (
    _StoredBlame,
    _StoredCommits,
    _StoredEnd,
    _StoredJob,
    _StoredRequest,
)
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.client_rpc import ClientReply, ClientRequest
from sqlstream.messages.manifest import CheckpointManifest
from sqlstream.messages.rpc import ControlMessage

READ_BY_TASKS_ALONE = (
    "sqlstream.specs.",
    "sqlstream.expressions",
    "sqlstream.types",
    "sqlstream.function_ref",
    "sqlstream.spi.connector",
)
"""What a JobManager passes on: a wrong one fails the task that is made of it, and msgpack carries 64 bits at most."""

TAKEN_IN = (
    CheckpointManifest,
    JobGraph,
    ControlMessage,
    ClientRequest,
    ClientReply,
    _StoredJob,
    _StoredCommits,
    _StoredEnd,
    _StoredRequest,
    _StoredBlame,
)


def unbounded(kind: Any, place: str, seen: set[Any]) -> list[str]:
    match kind:
        case inspect.IntType():
            return [place] if kind.ge is None or kind.le is None else []
        case inspect.StructType() | inspect.DataclassType():
            if kind.cls in seen:
                return []
            seen.add(kind.cls)
            name = f"{kind.cls.__module__}.{kind.cls.__name__}"
            if name.startswith(READ_BY_TASKS_ALONE):
                return []
            return [p for f in kind.fields for p in unbounded(f.type, f"{name}.{f.name}", seen)]
    inner = [getattr(kind, a, None) for a in ("type", "item_type", "key_type", "value_type")]
    inner += [*getattr(kind, "item_types", ()), *getattr(kind, "types", ())]
    return [p for each in inner if isinstance(each, inspect.Type) for p in unbounded(each, place, seen)]


@pytest.mark.parametrize("kind", TAKEN_IN)
def test_every_integer_that_a_job_manager_takes_in_has_bounds(kind: Any) -> None:
    assert unbounded(inspect.type_info(kind), str(kind), set()) == []


def test_what_is_computed_from_a_count_can_be_sent() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(str(COUNT_MAX + 1), type=Count)
    assert (
        msgspec.msgpack.decode(msgspec.msgpack.encode(COUNT_MAX * 1000 + 1), type=Int64)
        == COUNT_MAX * 1000 + 1
    )
