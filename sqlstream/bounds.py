"""The integers of messages, plans and manifests, with bounds that msgspec holds when it decodes: what is computed from one that
is taken in, such as the next id or a sum of sizes, can be sent on."""

from __future__ import annotations

from typing import Annotated

import msgspec

from sqlstream.graph.key_groups import MAX_PARALLELISM_BOUND

COUNT_MAX = 2**53
"""JSON's readers keep integers up to this one, and 1,000 times it still fits into 64 bits."""

Count = Annotated[int, msgspec.Meta(ge=-1, le=COUNT_MAX)]
"""An id, a number of things or a size in bytes; -1 stands for none."""

Parallelism = Annotated[int, msgspec.Meta(ge=1, le=MAX_PARALLELISM_BOUND)]
"""How many subtasks or key groups a vertex has."""

Millis = Annotated[int, msgspec.Meta(ge=-COUNT_MAX, le=COUNT_MAX)]
"""A time of a clock, or a duration, in milliseconds."""

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Event time and figures, which have the range of a BIGINT."""
