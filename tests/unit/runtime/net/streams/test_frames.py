"""Frames are what was sent, however the bytes arrive."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.runtime.net.streams.frames import (
    FROM_CONSUMERS,
    FROM_PRODUCERS,
    SMALL_BODY_MAX,
    BadFrame,
    FrameKind,
    FrameReader,
    SharedPlace,
    decode_place,
    encode_header,
    encode_place,
)

SMALL = st.tuples(st.sampled_from([FrameKind.ELEMENT, FrameKind.GONE]), st.binary(max_size=200))
LARGE = st.tuples(
    st.sampled_from([FrameKind.SCHEMA, FrameKind.BATCH]),
    st.integers(0, 3).map(lambda n: bytes(range(251)) * (n * n)),
)


def read(reader: FrameReader, data: bytes, pieces: list[int]) -> list[tuple[int, int, int, int, bytes]]:
    found, at, turn = [], 0, 0
    while at < len(data):
        target = reader.target()
        assert len(target) > 0
        size = min(len(target), pieces[turn % len(pieces)], len(data) - at)
        target[:size] = data[at : at + size]
        at, turn = at + size, turn + 1
        for frame in reader.received(size):
            body = frame.body.to_pybytes() if isinstance(frame.body, pa.Buffer) else frame.body
            found.append((*frame[:4], body))
    return found


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.one_of(SMALL, LARGE), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)), max_size=8
    ),
    st.lists(st.integers(1, 3_000), min_size=1, max_size=6),
)
def test_frames_come_out_whole_and_in_order_however_their_bytes_are_cut(frames, pieces) -> None:
    sent = [(int(kind), channel, size, size // 2, body) for (kind, body), channel, size in frames]
    data = b"".join(encode_header(FrameKind(k), c, len(b), s, g) + b for k, c, s, g, b in sent)
    assert read(FrameReader(FROM_PRODUCERS), data, pieces) == sent


def test_a_batch_larger_than_what_is_received_at_once_is_put_together() -> None:
    body = bytes(range(250)) * 1_000
    data = (
        encode_header(FrameKind.BATCH, 7, len(body), 1, 2) + body + encode_header(FrameKind.GONE, 7, 0, 0, 0)
    )
    expected = [(FrameKind.BATCH, 7, 1, 2, body), (FrameKind.GONE, 7, 0, 0, b"")]
    assert read(FrameReader(FROM_PRODUCERS), data, [10**9]) == expected


@pytest.mark.parametrize(
    ("limits", "kind", "size"),
    [
        (FROM_PRODUCERS, FrameKind.ELEMENT, SMALL_BODY_MAX + 1),
        (FROM_PRODUCERS, FrameKind.BATCH, 2**40),
        (FROM_PRODUCERS, FrameKind.OPEN, 0),
        (FROM_CONSUMERS, FrameKind.OPEN, SMALL_BODY_MAX + 1),
        (FROM_CONSUMERS, FrameKind.GRANT, 1),
        (FROM_CONSUMERS, FrameKind.BATCH, 10),
    ],
)
def test_a_frame_that_is_too_large_or_of_the_other_direction_is_refused_at_its_header(
    limits, kind, size
) -> None:
    with pytest.raises(BadFrame):
        read(FrameReader(limits), encode_header(kind, 0, size, 0, 0), [100])


def test_a_place_in_shared_memory_survives_its_encoding_and_nothing_else_is_one() -> None:
    place = SharedPlace(1 << 40, 12, 4095, True)
    assert decode_place(encode_place(place)) == place
    with pytest.raises(BadFrame):
        decode_place(b"short")
