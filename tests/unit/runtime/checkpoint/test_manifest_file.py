"""A manifest is what was written, or it is refused where it is read."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from checkpoint_harness import VERTEX_ID, manifest

from sqlstream.errors import ExternalError
from sqlstream.runtime.checkpoint.manifest_file import decode_manifest, encode_manifest

_WRITTEN = msgspec.to_builtins(manifest(4))
SPLITS, COMMIT = _WRITTEN["enumerators"][VERTEX_ID], _WRITTEN["commits"][0]


def forged(**changes: Any) -> bytes:
    """A manifest with other values, under a checksum that is right."""
    file = msgspec.json.decode(encode_manifest(manifest(4)))
    checkpoint = file["checkpoint"] | {k: v for k, v in changes.items() if k != "vertex"}
    checkpoint["vertices"][0] |= changes.get("vertex", {})
    body = msgspec.json.encode(checkpoint)
    return msgspec.json.encode(
        file | {"sha256": hashlib.sha256(body).hexdigest(), "checkpoint": msgspec.Raw(body)}
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint_id": 2**70},
        {"checkpoint_id": 2**63 - 1},
        {"started_ms": -(2**64)},
        {"enumerators": {"v": {"position": 2**70}}},
        {"vertex": {"parallelism": 2**31}},
        {"vertex": {"parallelism": 2}},
        {"vertex": {"finished": []}},
        {"vertex": {"operators": []}},
        {"enumerators": {VERTEX_ID: SPLITS | {"left_out": [1.5]}}},
        {"enumerators": {VERTEX_ID: SPLITS | {"left_out": []}}},
        {"enumerators": {VERTEX_ID: SPLITS | {"unassigned": [["a", 1]]}}},
        {"commits": [COMMIT | {"checkpoint_id": -(2**63)}]},
        {"commits": [COMMIT | {"checkpoint_id": 5}]},
    ],
    ids=str,
)
def test_a_forged_manifest_is_refused_where_it_is_read(changes: dict[str, Any]) -> None:
    assert decode_manifest("p", forged()).checkpoint_id == 4
    with pytest.raises(ExternalError) as caught:
        decode_manifest("p", forged(**changes))
    assert caught.value.code == "SS6210"
