"""Arrow streams from pieces of bytes."""

from __future__ import annotations

import io
import random

import pyarrow as pa
import pytest

from sqlstream.client.connection.http_result import ArrowStreamDecoder

SCHEMA = pa.schema(
    [("n", pa.int64()), ("texts", pa.list_(pa.string())), ("$row_kind", pa.int8())], metadata={"k": "v"}
)


def stream(batches: list[pa.RecordBatch], compression: str | None = None) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, SCHEMA, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return out.getvalue()


def batch(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array(range(rows), pa.int64()),
            pa.array([[str(i), None] for i in range(rows)], pa.list_(pa.string())),
            pa.array([i % 4 for i in range(rows)], pa.int8()),
        ],
        schema=SCHEMA,
    )


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_a_stream_cut_anywhere_gives_the_batches_that_were_written(compression: str | None) -> None:
    written = [batch(3), batch(0), batch(1000)]
    data = stream(written, compression)
    cuts = random.Random(7)
    for _ in range(20):
        decoder, read, position = ArrowStreamDecoder(), [], 0
        while position < len(data):
            assert not decoder.is_ended
            end = position + cuts.choice((1, 7, 8, 100, 5000))
            read += decoder.feed(data[position:end])
            position = end
        assert (read, decoder.is_ended) == (written, True)
        assert decoder.schema is not None
        assert decoder.schema.metadata == {b"k": b"v"}


def test_a_batch_is_there_with_its_last_byte() -> None:
    data, whole = stream([batch(2)]), stream([])
    end = len(data) - 8
    decoder = ArrowStreamDecoder()
    assert decoder.feed(data[: end - 1]) == []
    assert decoder.feed(data[end - 1 : end]) == [batch(2)]
    assert not decoder.is_ended
    assert whole.endswith(data[end:])


@pytest.mark.parametrize(
    "data",
    [b'{"errors":["x"]}', b"\xff\xff\xff\xff\xff\xff\xff\x7f", b"\xff\xff\xff\xff\x08\0\0\0" + b"\xff" * 8],
)
def test_what_is_no_stream_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="Arrow stream"):
        ArrowStreamDecoder().feed(data)


def test_the_metadata_of_a_last_batch_without_rows_is_kept() -> None:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, SCHEMA) as writer:
        writer.write_batch(batch(2), custom_metadata={"sqlstream": "first"})
        writer.write_batch(batch(0), custom_metadata={"sqlstream": "last"})
    decoder = ArrowStreamDecoder()
    decoder.feed(out.getvalue())
    assert decoder.end_metadata == {b"sqlstream": b"last"}
