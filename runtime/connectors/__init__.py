"""The hand-written list of connectors: one line each. A module is imported when its connector is first asked
for."""

from __future__ import annotations

import functools
import importlib

from sqlstream.errors import UserError, did_you_mean
from sqlstream.spi.connector import Connector, ConnectorDescriptor

CONNECTORS: dict[str, str] = {
    "blackhole": "runtime.connectors.blackhole:Blackhole",
    "checksum": "runtime.connectors.checksum:Checksum",
    "collect": "runtime.connectors.collect:Collect",
    "datagen": "runtime.connectors.datagen:Datagen",
    "filesystem": "runtime.connectors.filesystem:Filesystem",
    "nexmark": "runtime.connectors.nexmark:Nexmark",
    "print": "runtime.connectors.print:Print",
}
"""Identifier, as in `'connector' = '…'`, to `module:Class`."""


@functools.cache
def connector(identifier: str) -> Connector:
    """The connector of that name. UserError SS4003 with a suggestion when there is none."""
    found = CONNECTORS.get(identifier)
    if found is None:
        hint = did_you_mean(identifier, list(CONNECTORS)) or f"choose one of {', '.join(sorted(CONNECTORS))}"
        raise UserError("SS4003", f'unknown connector "{identifier}"', hint=hint)
    module, _, name = found.partition(":")
    made: Connector = getattr(importlib.import_module(module), name)()
    return made


def descriptors() -> dict[str, ConnectorDescriptor]:
    """What the planner is told of every connector."""
    return {identifier: connector(identifier).descriptor for identifier in CONNECTORS}
