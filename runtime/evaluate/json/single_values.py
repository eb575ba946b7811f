"""Steps that lead from each value to one value at most."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.runtime.evaluate.json.documents import Documents, as_values
from sqlstream.runtime.evaluate.json.quoting import escaped_name
from sqlstream.runtime.kernels import json_nodes, json_tape
from sqlstream.text.json_path import Elements, Function, Members

Numbers = np.ndarray[Any, Any]


def member_of(documents: Documents, values: Numbers, name: str) -> Numbers:
    """The member of this name of each object; -1 for none."""
    out = np.empty(len(values), np.int32)
    json_nodes.members_into(out, as_values(values), documents.data, documents.tape, escaped_name(name))
    return out


def element_of(documents: Documents, values: Numbers, index: int) -> Numbers:
    """The element at this index of each array; -1 for none."""
    out = np.empty(len(values), np.int32)
    json_nodes.elements_into(out, as_values(values), documents.tape, index)
    return out


def count_of(documents: Documents, values: Numbers) -> pa.Array:
    """How many elements or members each value has, as text; NULL for scalars."""
    is_scalar = documents.kinds(values) < json_tape.ARRAY
    return pa.array(documents.counts(values), mask=is_scalar).cast(pa.string())


def steps_of(
    steps: tuple[Members | Elements | Function, ...], documents: Documents, values: Numbers
) -> tuple[Documents, Numbers]:
    """The value that these steps lead to from each value; -1 for none."""
    for step in steps:
        if isinstance(step, Members):
            values = member_of(documents, values, step.names[0])
        elif isinstance(step, Elements):
            values = element_of(documents, values, step.indexes[0])
        else:
            documents, values = documents.with_numbers(count_of(documents, values))
    return documents, values
