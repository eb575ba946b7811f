"""State: what operators keep from batch to batch, in shapes that save, restore, expire and measure themselves.

An operator declares a shape with `context.state.add` (operator_state.py). These are for operators:

    KeyedTable        tables/keyed_table.py      one entry per key, with columns by slot: accumulators, results, flags
    KeyedRows         tables/keyed_rows.py       any number of rows per key, in order of arrival: a side of a join
    KeyedMultiset     tables/keyed_multiset.py   distinct rows with counts per key, for rows that may be retracted
    OrderedMultiset   tables/keyed_multiset.py   the same, with the place of each row in the order of its key
    RowMultiset       tables/row_multiset.py     distinct rows with counts, without keys
    RowLog            logs/row_log.py            rows with times, taken when time has passed them
    SliceLog          logs/slice_log.py          rows or partials by the end of their slice, taken when windows close
    Broadcast         broadcast.py               one value per subtask, such as a watermark

A shape that one operator alone has stands with it: RowLists (operators/rank/top_lists.py), RowList (operators/order/sort.py),
ClosedTimes (operators/window/closing.py). The columns of a KeyedTable are in storage/slot_columns.py; all else in storage/ and
snapshots/ is for the shapes.
"""
