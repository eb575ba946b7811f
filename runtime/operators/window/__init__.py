"""Windows of time: table functions that assign them, aggregation, Top-N and join.

Windows are cut into slices, which are parts of time that lie in the same windows (windowing.py). A row adds to one partial
result, that of its key and slice; a window's result is its slices merged. HOP of 10 minutes that slides by 5:

    time          12:00       12:05       12:10       12:15       12:20
    slices          |-- 12:05 --|-- 12:10 --|-- 12:15 --|-- 12:20 --|        named by their ends
    windows         |-------- 12:10 --------|-------- 12:20 --------|
                                |-------- 12:15 --------|

    a row of 12:07 adds to slice 12:10, which the windows 12:10 and 12:15 merge

A window closes when the watermark reaches its end, or the clock does by processing time: ClosingOperator (closing.py) calls
`close_windows` then. What the aggregates keep, when they emit, and which rows come too late:

    SliceAggregate             a log of partials by key and slice; emits a window when it closes; a row is late when the
    (window_aggregate.py)      last window of its slice has closed
    SessionAggregate           a log of partials by key and session, merged where sessions touch; emits a session when it
    (sessions.py)              closes; a row is late when it extends no open session and its own would be closed
    EmittingAggregate          a table of accumulators by key and window, and what was emitted of them; emits changes after a
    (emitting_windows.py)      delay, at the close, and for late rows until `lateness_ms` behind it
    EmittingSessionAggregate   the log of SessionAggregate, and what was emitted; emits changes at the same moments. A session
    (emitting_sessions.py)     that grows has other bounds: its old result is deleted
    LocalWindowAggregate       partials by key and slice, until a window can close: it sends them to GLOBAL, which is one of the
    (slices.py)                aggregates above

There are two stores because their costs differ. A log takes a batch without looking up its keys, and is merged once. Results
that are emitted early need the accumulator of each key with each batch, and a table has it in place.

The table functions (window_tvf.py) use the same parts: SESSION is a SessionAggregate whose partials are whole rows. Over rows
that may be retracted it keeps the rows themselves, because a retraction may cut a session in two.
"""
