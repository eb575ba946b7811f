"""A scalar expression that a batch engine has the stream's own code compute."""

from __future__ import annotations

import msgspec

from sqlstream.expressions import Call
from sqlstream.types import LogicalType


class HostedFunction(msgspec.Struct, frozen=True):
    """`name` is what the engine's SQL calls it; `call` reads its arguments as columns 0, 1, … of the types `arguments`, of which
    there is at least one."""

    name: str
    call: Call
    arguments: tuple[LogicalType, ...]
