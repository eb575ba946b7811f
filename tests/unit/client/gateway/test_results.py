"""Pages of a result by token."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from sqlstream.client.gateway.results import ResultPages
from sqlstream.client.sessions.outcomes import LiteralResults
from sqlstream.errors import UserError
from sqlstream.runtime.net.channels import ChannelClosed
from sqlstream.runtime.net.results import ResultStore

TIMEOUT_S = 60
JOB = "j"


def numbers(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(values, pa.int64())})


def values(pages: ResultPages, token: int) -> list[int]:
    return [n for batch in pages.page(token).batches for n in batch.column(0).to_pylist()]


def store(capacity_bytes: int = 1 << 20) -> ResultStore:
    found = ResultStore(capacity_bytes, lambda *_: None)
    found.open(JOB)
    return found


def put(target: ResultStore, *batches: pa.RecordBatch) -> None:
    for batch in batches:
        target.put_rows(JOB, 0, batch, lambda: False)


def test_the_current_token_brings_new_rows_and_the_one_before_brings_its_rows_again() -> None:
    pages = ResultPages(LiteralResults((numbers(1, 2), numbers(3, 4))), 2, 1 << 20)
    assert values(pages, 0) == [1, 2]
    assert values(pages, 0) == [1, 2]
    assert values(pages, 1) == [3, 4]
    assert values(pages, 1) == [3, 4]
    assert pages.page(2).is_end
    assert pages.page(2).is_end
    assert values(pages, 1) == [3, 4]


@pytest.mark.parametrize("token", [-1, 1, 2**40])
def test_no_other_token_is_accepted_at_first(token: int) -> None:
    pages = ResultPages(LiteralResults((numbers(1),)), 9, 1 << 20)
    with pytest.raises(UserError, match=f"expecting token to be 0, but found {token}"):
        pages.page(token)
    assert values(pages, 0) == [1]


def test_a_token_that_is_too_old_is_refused() -> None:
    pages = ResultPages(LiteralResults((numbers(1), numbers(2))), 1, 1 << 20)
    pages.page(0)
    pages.page(1)
    with pytest.raises(UserError, match="expecting token to be 2 or 1, but found 0"):
        pages.page(0)


def test_a_page_is_empty_while_nothing_is_there_and_its_token_counts() -> None:
    source = store()
    pages = ResultPages(source.reader(JOB), 9, 1 << 20)
    assert values(pages, 0) == []
    put(source, numbers(1))
    assert values(pages, 1) == [1]


def test_a_page_gathers_batches_up_to_its_rows_and_splits_one_that_is_too_long() -> None:
    pages = ResultPages(LiteralResults((numbers(1), numbers(2, 3, 4, 5, 6), numbers(7))), 3, 1 << 20)
    assert [values(pages, token) for token in range(3)] == [[1, 2, 3], [4, 5, 6], [7]]
    assert pages.page(3).is_end


def test_a_page_has_no_more_bytes_than_allowed_but_a_row_at_least() -> None:
    wide = pa.RecordBatch.from_pydict({"s": ["x" * 1000] * 10})
    pages = ResultPages(LiteralResults((wide,)), 100, 2500)
    counts = []
    while not (page := pages.page(len(counts))).is_end:
        counts.append(sum(batch.num_rows for batch in page.batches))
    assert sum(counts) == 10
    assert max(counts) <= 3
    pages = ResultPages(LiteralResults((wide,)), 100, 10)
    assert [pages.page(token).batches[0].num_rows for token in range(10)] == [1] * 10


def test_rows_are_left_with_the_job_until_a_page_is_asked_for() -> None:
    source = store(capacity_bytes=100)
    pages = ResultPages(source.reader(JOB), 1000, 1 << 20)
    put(source, numbers(*range(20)))
    blocked = threading.Thread(target=put, args=(source, numbers(1)), daemon=True)
    blocked.start()
    blocked.join(0.3)
    assert blocked.is_alive()
    # The row behind them may have come as soon as there was room.
    assert values(pages, 0)[:20] == list(range(20))
    blocked.join(TIMEOUT_S)
    assert not blocked.is_alive()


def test_whoever_waits_is_called_when_rows_come_at_the_end_and_at_close() -> None:
    source = store()
    pages = ResultPages(source.reader(JOB), 9, 1 << 20)
    called: list[str] = []
    pages.when_ready(lambda: called.append("rows"))
    pages.when_ready(lambda: called.append("rows, too"))
    forgotten = pages.when_ready(lambda: called.append("never"))
    forgotten()
    assert called == []
    put(source, numbers(1))
    assert called == ["rows", "rows, too"]
    pages.when_ready(lambda: called.append("at once"))
    assert called[2:] == ["at once"]
    pages.page(0)
    pages.when_ready(lambda: called.append("end"))
    source.close(JOB)
    assert called[3:] == ["end"]


def test_close_drops_the_rows_wakes_who_waits_and_tells_the_job() -> None:
    source = store()
    pages = ResultPages(source.reader(JOB), 9, 1 << 20)
    called: list[str] = []
    pages.when_ready(lambda: called.append("closed"))
    pages.close()
    pages.close()
    assert called == ["closed"]
    with pytest.raises(UserError, match="the result is closed"):
        pages.page(0)
    with pytest.raises(ChannelClosed):
        put(source, numbers(1))
