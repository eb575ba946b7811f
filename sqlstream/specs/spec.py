"""The base of all operator specs, which are data that can be sent in messages."""

from __future__ import annotations

import msgspec


class OperatorSpec(msgspec.Struct, frozen=True, tag_field="operator"):
    """One frozen struct per operator. Schemas, changelog modes and names belong to the node that carries the spec."""

    def kept_state(self) -> str:
        """For EXPLAIN: what the operator keeps and when it drops it; empty for an operator without state."""
        return ""


def until_ttl(ttl_ms: int) -> str:
    """When an entry with a time to live is dropped; 0 is no time."""
    return f"{ttl_ms} ms after the last change" if ttl_ms else "never"
