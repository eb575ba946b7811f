"""The media types and the metadata that the gateway writes and its clients read."""

from __future__ import annotations

DETAILED = "application/vnd.sqlstream+json"
"""Named in a request's Accept header, it adds the member `error` to an error's body. Flink's own client accepts no other
member beside `errors`."""

ARROW_STREAM = "application/vnd.apache.arrow.stream"

METADATA_KEY = b"sqlstream"
"""The key of the JSON object in the metadata of an Arrow stream's schema, and of the batch that ends an endless stream."""
