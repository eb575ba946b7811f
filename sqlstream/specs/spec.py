"""The base of all operator specs, which are data that can be sent in messages."""

from __future__ import annotations

import msgspec


class OperatorSpec(msgspec.Struct, frozen=True, tag_field="operator"):
    """One frozen struct per operator. Schemas, changelog modes and names belong to the node that carries the spec."""
