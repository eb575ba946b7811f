"""The checksum of files of checkpoints is zlib's, whatever the processor has."""

from __future__ import annotations

import zlib

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.runtime.kernels import checksum
from sqlstream.runtime.kernels.checksum import crc32


@pytest.mark.parametrize("has_instruction", [True, False])
def test_a_checksum_is_zlibs(monkeypatch: pytest.MonkeyPatch, has_instruction: bool) -> None:
    """Of any length, at any address, and behind any other bytes."""
    if not has_instruction:
        monkeypatch.setattr(checksum, "_multiplies_without_carries", lambda: False)
    random = np.random.default_rng(1)
    for length in (0, 1, 63, 1023, 1024, 1025, 1087, 1088, 4096, 65_537, 1 << 20):
        values = random.integers(0, 256, length + 3, dtype=np.uint8)
        for offset, before in ((0, 0), (1, 1), (3, 0xFFFF_FFFF)):
            data = values[offset : offset + length]
            found = [crc32(form, before) for form in (data.tobytes(), memoryview(data), pa.py_buffer(data))]
            assert found == [zlib.crc32(data, before)] * 3


def test_each_bit_counts() -> None:
    data = bytearray(2048)
    found = {crc32(data)}
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        found.add(crc32(data))
        data[bit // 8] = 0
    assert len(found) == 8 * len(data) + 1
