"""The base of all operator specs, which are data that can be sent in messages."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class StateBound(NamedTuple):
    """The size of kept state follows from `by`. `is_finite`: it does not grow for as long as new keys or rows come. `per` says of
    what there is an entry."""

    by: str
    is_finite: bool
    per: str = "row"


class OperatorSpec(msgspec.Struct, frozen=True, tag_field="operator"):
    """One frozen struct per operator. Schemas, changelog modes and names belong to the node that carries the spec."""

    def kept_state(self) -> str:
        """For EXPLAIN: what the operator keeps and when it drops it; empty for an operator without state."""
        return ""

    def state_bound(self) -> StateBound:
        """For EXPLAIN STATE: what the size of that follows from."""
        return StateBound("what the operator is given", False)


def keys_or_ttl(has_keys: bool, ttl_ms: int) -> StateBound:
    """The bound of state with a number of rows per key."""
    if not has_keys:
        return StateBound("one key", True, "key")
    if ttl_ms:
        return StateBound(f"the number of keys that come within {ttl_ms} ms", True, "key")
    return StateBound("the number of distinct keys", False, "key")


def until_ttl(ttl_ms: int) -> str:
    """When an entry with a time to live is dropped; 0 is no time."""
    return f"{ttl_ms} ms after the last change" if ttl_ms else "never"
