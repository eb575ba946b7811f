"""What an operator saves of its state."""

from __future__ import annotations

import dataclasses

import pyarrow as pa

KEY_GROUP_COLUMN = "$key_group"
"""First column, int32, of every keyed snapshot table."""


@dataclasses.dataclass
class OperatorSnapshot:
    """State as plain Arrow tables.

    `keyed` tables start with KEY_GROUP_COLUMN; `restore` gets only the rows of its own key groups, already concatenated.
    `shared` tables (small: a watermark, a flag, a source's splits) are concatenated over all old subtasks, and each new
    subtask receives all of them.
    """

    keyed: dict[str, pa.Table] = dataclasses.field(default_factory=dict)
    shared: dict[str, pa.Table] = dataclasses.field(default_factory=dict)
