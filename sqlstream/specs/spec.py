"""The root of all operator specs: what an operator must do, as data that crosses the wire."""

from __future__ import annotations

import msgspec


class OperatorSpec(msgspec.Struct, frozen=True, tag_field="operator"):
    """One frozen struct an operator. Schemas, changelog modes and names belong to the node that carries the spec."""
