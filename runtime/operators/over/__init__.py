"""OVER: a value per row, computed from the rows around it.

`SUM(x) OVER (PARTITION BY k ORDER BY t ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)` sorts the rows of each partition (each
value of k) and gives each row a frame, the rows that its result is computed from:

    partition k = 7     place   0   1   2   3   4   5        places count from the first row
                        t      10  11  11  14  15  19        the two rows of t = 11 are peers: equal in order
                        x       3   1   4   1   5   9
    frame of place 4                    [-------]            start 2, end 5 (exclusive)
    frame of place 1            [---]                        cut off at the start of the partition
    results                     3   4   8   6  10  15

A batch of rows is computed as arrays over all of its partitions: SortedRows (sorted.py) holds the rows one partition after
the other, with the first and last row and the peers of each; `frame_bounds` gives the start and end of every frame;
FramedCalls (frames.py) computes a column per call. Sums are differences of running sums, MIN and MAX slide along with the
frames: no frame is read row by row, unless it is of a user's aggregate, or of one without such a rule.

There are three operators, by the timing of the spec (over.py):

* OverAtEnd (over.py): bounded input. All rows wait for the end and are computed at once.
* OverByTime (by_time.py): ORDER BY a time, input that only inserts. A row is emitted once, when the watermark has passed it
  and its frame. Rows that frames of later rows hold are retained: for the frame above the last two of each partition. For
  a frame that begins with the partition an accumulator per key is enough.
* OverOnChange (on_change.py): any order, input that retracts. If the row of place 1 is deleted, the results of places 2 and 3
  differ too, and are emitted as -U and +U. Which results may differ, and which rows they read, is worked out from the frames
  before anything is computed (affected.py). For a frame that begins with the partition, accumulators of its prefix are kept,
  so that a change near the end of a large partition does not read it from the start.
"""
