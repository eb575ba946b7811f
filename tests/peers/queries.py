"""The queries that every engine answers, and the totals that a correct answer adds up to."""

from __future__ import annotations

from dataclasses import dataclass

COLUMNS = ("auction", "bidder", "price", "channel", "url", "dateTime", "extra")
"""A bid, as the files have it. `dateTime` is epoch milliseconds, the one form that all engines take as event time."""

WATERMARK_LAG_MS = 4_000
TUMBLE_MS = 10_000
HOP_SLIDE_MS = 2_000
HOP_SIZE_MS = 10_000


@dataclass(frozen=True)
class Query:
    """A query under one name in every engine's dialect.

    `flink` is Flink's text, which sqlstream reads as it is, over the table `bid` with the time attribute `ts`. `pyclink` reads
    its table `bid` with the event-time column `dateTime`. Results have the columns `sink`. `totals` are aggregates over the
    result's rows; `reference` is the query in DuckDB's dialect over the files as one table `bid`. `key`: the result is a
    changelog by this column, where the last row of a key counts.
    """

    name: str
    title: str
    sink: tuple[tuple[str, str], ...]
    flink: str
    pyclink: str
    reference: str
    totals: tuple[str, ...]
    key: str | None = None

    def with_totals(self, query: str) -> str:
        """A query of one row: how many rows the answer has, and sums over them."""
        return f"SELECT COUNT(*) AS result_rows, {', '.join(f'SUM({c}) AS sum_{c}' for c in self.totals)} FROM ({query})"


_BID = (
    ("auction", "BIGINT"),
    ("bidder", "BIGINT"),
    ("price", "BIGINT"),
    ("channel", "STRING"),
    ("url", "STRING"),
    ("dateTime", "BIGINT"),
    ("extra", "STRING"),
)
_COUNTS = (("auction", "BIGINT"), ("bids", "BIGINT"))


def _window(function: str) -> str:
    return (
        f"SELECT auction, COUNT(*) AS bids FROM TABLE({function}) GROUP BY auction, window_start, window_end"
    )


QUERIES: tuple[Query, ...] = (
    Query(
        name="pass",
        title="pass every bid through",
        sink=_BID,
        flink="SELECT auction, bidder, price, channel, url, `dateTime`, extra FROM bid",
        pyclink='SELECT auction, bidder, price, channel, url, "dateTime", extra FROM bid',
        reference="SELECT auction, bidder, price FROM bid",
        totals=("auction", "bidder", "price"),
    ),
    Query(
        name="group",
        title="count and sum of bids per auction, updating",
        sink=(("auction", "BIGINT"), ("bids", "BIGINT"), ("total", "BIGINT")),
        flink="SELECT auction, COUNT(*) AS bids, SUM(price) AS total FROM bid GROUP BY auction",
        pyclink="SELECT auction, COUNT(*) AS bids, SUM(price) AS total FROM bid GROUP BY auction",
        reference="SELECT auction, COUNT(*) AS bids, SUM(price) AS total FROM bid GROUP BY auction",
        totals=("auction", "bids", "total"),
        key="auction",
    ),
    Query(
        name="tumble",
        title="bids per auction in tumbling windows of 10 s",
        sink=_COUNTS,
        flink=_window(f"TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '{TUMBLE_MS // 1000}' SECOND)"),
        pyclink=f'SELECT auction, COUNT(*) AS bids FROM bid GROUP BY auction, TUMBLE("dateTime", {TUMBLE_MS})',
        reference=f'SELECT auction, COUNT(*) AS bids FROM bid GROUP BY auction, "dateTime" // {TUMBLE_MS}',
        totals=("auction", "bids"),
    ),
    Query(
        name="hop",
        title="bids per auction in hopping windows of 10 s every 2 s",
        sink=_COUNTS,
        flink=_window(
            f"HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '{HOP_SLIDE_MS // 1000}' SECOND,"
            f" INTERVAL '{HOP_SIZE_MS // 1000}' SECOND)"
        ),
        pyclink=(
            "SELECT auction, COUNT(*) AS bids FROM bid GROUP BY auction,"
            f' HOP("dateTime", {HOP_SIZE_MS}, {HOP_SLIDE_MS})'
        ),
        reference=(
            f"SELECT auction, COUNT(*) AS bids FROM bid, range({HOP_SIZE_MS // HOP_SLIDE_MS}) AS slide(back)"
            f' GROUP BY auction, "dateTime" // {HOP_SLIDE_MS} - back'
        ),
        totals=("auction", "bids"),
    ),
)


def chosen(names: str) -> tuple[Query, ...]:
    """The queries of a comma-separated list; all when it is empty. ValueError for a name that there is not."""
    known = {query.name: query for query in QUERIES}
    wanted = [name.strip() for name in names.split(",") if name.strip()] or list(known)
    for name in wanted:
        if name not in known:
            raise ValueError(f'there is no query "{name}": choose from {", ".join(known)}')
    return tuple(known[name] for name in wanted)
