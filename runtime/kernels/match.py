"""Finds the matches of a pattern in the rows of each key, by backtracking in the order of preference."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.native.kernel import inlined, kernel

CONSUME, SPLIT, JUMP = 0, 1, 2
"""Instructions of a program, the last of which ends the match: see sqlstream.specs.match_recognize."""

ALWAYS, BY_ROW, BY_MATCH, BY_CODE = 0, 1, 2, 3
"""How the condition of a variable is known: it is TRUE, a flag per row, what the caller answers, or computed by code."""

PAST_LAST_ROW, NEXT_ROW, TO_FIRST, TO_LAST = 0, 1, 2, 3
MATCH, UNMATCHED = 0, 1
DONE, IS_FULL, IS_NOT_MAPPED, IS_SAME_ROW, IS_COSTLY, IS_PAUSED = 0, 1, 2, 3, 4, 5

LOAD, COMPARE, AND, OR, NOT, IS_NULL, IS_NOT_NULL = 0, 1, 2, 3, 4, 5, 6
"""Steps of a condition's code. LOAD pushes a value of the current row or of a mapped one (behind the last row: that without a
row), the others take what they work on."""

STATE, RECORD, CODE = 7, 5, 5
"""Widths: the state of a key (start, pc, position, stack height, covered end, phase, steps from this start), a record (key,
start, end, kind, first label), and a step of code (op, operand, set of variables or -1, is first, offset)."""
START, PC, POSITION, HEIGHT, COVERED, PHASE, TRIED = 0, 1, 2, 3, 4, 5, 6
FRESH, RUNNING, ASKED, ANSWERED_FALSE, ANSWERED_TRUE = 0, 1, 2, 3, 4

RECORDS, LABELS, STAMP, REQUESTS, STATUS, FAULT_ROW, NEXT_ACTIVE = 0, 1, 2, 3, 4, 5, 6
"""Places of the counts; NEXT_ACTIVE is the place of the first active key that was not run to its end."""

_FALSE, _TRUE, _NULL, _UNKNOWN = 0, 1, 2, 3


@inlined
def _mapped_row(step, sets, first, labels, start, position, gap_first, gap_last):  # type: ignore[no-untyped-def]
    """The row that a LOAD reads, -1 when there is none, -2 when it may be between rows `gap_first` and `gap_last`, which are not
    known (-1: there is no gap). `position` is mapped to the variable that is tried."""
    if step[2] < 0:
        return position
    left = np.int64(step[4])
    if step[3] != 0:
        row = start
        while row <= position:
            if row == gap_first:
                return np.int64(-2)
            if sets[step[2], first[labels[row]]] != 0:
                if left == 0:
                    return row
                left -= 1
            row += 1
        return np.int64(-1)
    row = position
    while row >= start:
        if row == gap_last:
            return np.int64(-2)
        if sets[step[2], first[labels[row]]] != 0:
            if left == 0:
                return row
            left -= 1
        row -= 1
    return np.int64(-1)


@inlined
def _compared(kind, left, right):  # type: ignore[no-untyped-def]
    if kind == 0:
        is_true = left == right
    elif kind == 1:
        is_true = left != right
    elif kind == 2:
        is_true = left < right
    elif kind == 3:
        is_true = left <= right
    elif kind == 4:
        is_true = left > right
    else:
        is_true = left >= right
    return np.int64(1) if is_true else np.int64(0)


@inlined
def _joined(op, left, right):  # type: ignore[no-untyped-def]
    """AND or OR of two truth values."""
    if op == AND:
        if left == _FALSE or right == _FALSE:
            return np.int64(_FALSE)
        return np.int64(_NULL) if left == _NULL or right == _NULL else np.int64(_TRUE)
    if left == _TRUE or right == _TRUE:
        return np.int64(_TRUE)
    return np.int64(_NULL) if left == _NULL or right == _NULL else np.int64(_FALSE)


@inlined
def _holds(  # type: ignore[no-untyped-def]
    code, begin, end, values, present, sets, first, labels, start, position, gap_first, gap_last, work
):
    """_TRUE when the code of a condition is, _UNKNOWN when it reads a row of the gap. `work` has the values, and in its second
    row whether each is there."""
    top = np.int64(-1)
    for at in range(begin, end):
        step = code[at]
        op = step[0]
        if op == LOAD:
            row = _mapped_row(step, sets, first, labels, start, position, gap_first, gap_last)
            if row == -2:
                return np.int64(_UNKNOWN)
            if row < 0:
                row = np.int64(len(labels))
            top += 1
            if present[step[1], row] == 0:
                work[0, top] = _NULL
                work[1, top] = 0
            else:
                work[0, top] = values[step[1], row]
                work[1, top] = 1
        elif op == COMPARE:
            top -= 1
            if work[1, top] == 0 or work[1, top + 1] == 0:
                work[0, top] = _NULL
                work[1, top] = 0
            else:
                work[0, top] = _compared(step[1], work[0, top], work[0, top + 1])
                work[1, top] = 1
        elif op in (AND, OR):
            top -= 1
            work[0, top] = _joined(op, work[0, top], work[0, top + 1])
            work[1, top] = 0 if work[0, top] == _NULL else 1
        elif op == NOT:
            if work[0, top] != _NULL:
                work[0, top] = 1 - work[0, top]
        else:
            is_null = work[1, top] == 0
            work[0, top] = 1 if is_null == (op == IS_NULL) else 0
            work[1, top] = 1
    return np.int64(_TRUE) if work[0, 0] == _TRUE else np.int64(_FALSE)


@inlined
def _next_start(after, start, end, first, labels, skip_set):  # type: ignore[no-untyped-def]
    """The row at which the next match can begin; -1 when no row is mapped to a variable to skip to."""
    if end == start or after == NEXT_ROW:
        return start + 1
    if after == PAST_LAST_ROW:
        return end
    if after == TO_FIRST:
        for row in range(start, end):
            if skip_set[first[labels[row]]] != 0:
                return np.int64(row)
        return np.int64(-1)
    row = end - 1
    while row >= start:
        if skip_set[first[labels[row]]] != 0:
            return row
        row -= 1
    return np.int64(-1)


@kernel(
    "void(int64[::1], int64, int64[:, ::1], int64[:, ::1], int32[:, ::1], uint8[::1], uint8[:, ::1], int64[::1],"
    " int32[::1], int32[::1], int32[::1], int64[::1], int64[:, ::1], int32[::1], int64[::1], int64[::1], int64[::1],"
    " uint8[::1], int32[:, ::1], int32[::1], int64[:, ::1], uint8[:, ::1], uint8[:, ::1], int64[:, ::1])"
)
def find_matches(  # type: ignore[no-untyped-def]
    active,
    active_count,
    bounds,
    state,
    program,
    modes,
    truth,
    times,
    labels,
    visited,
    stack_pc,
    stack_position,
    records,
    out_labels,
    requests,
    counts,
    settings,
    skip_set,
    code,
    code_bounds,
    values,
    present,
    sets,
    work,
):
    """Match the rows of the `active` keys until each has no row left at which a match can begin, or waits.

    `bounds[k]`: first row, end, the end of the rows that can be consumed, first place of its stack. `settings`: whether no row
    will come (0 or 1), WITHIN, watermark, `AFTER MATCH`, whether unmatched rows are recorded, whether a failure of an
    instruction at a row holds for all ways to it (`visited`), records_max, labels_max, the steps that the match from one row may
    take, and those of one call: after these it is IS_PAUSED, and the next call goes on. `counts` has the records, labels and
    requests so far. A key waits for rows (phase RUNNING or FRESH), or for the caller's answer (ASKED, in `requests`). The labels
    of a record are the instructions that its rows were consumed by.
    """
    is_final, within, watermark, after = settings[0] != 0, settings[1], settings[2], settings[3]
    records_unmatched, is_memo = settings[4] != 0, settings[5] != 0
    records_max, labels_max, tried_max, left = settings[6], settings[7], settings[8], settings[9]
    steps = np.int64(len(program))
    op, first, second = program[:, 0], program[:, 1], program[:, 2]
    counts[STATUS] = DONE
    for index in range(active_count):
        key = active[index]
        end, limit, base = bounds[key, 1], bounds[key, 2], bounds[key, 3]
        start, pc, position = state[key, START], state[key, PC], state[key, POSITION]
        height, covered, phase = state[key, HEIGHT], state[key, COVERED], state[key, PHASE]
        tried = state[key, TRIED]
        while True:
            if left == 0:
                counts[STATUS] = IS_PAUSED
                break
            left -= 1
            tried += 1
            if tried > tried_max:
                counts[STATUS] = IS_COSTLY
                counts[FAULT_ROW] = start
                break
            if phase == FRESH:
                if start >= limit:
                    break
                pc, position, height, tried = np.int64(0), start, np.int64(0), np.int64(0)
                if is_memo and within > 0:
                    counts[STAMP] += 1
                phase = np.int64(RUNNING)
            is_failed = False
            if op[pc] == CONSUME:
                if position >= limit:
                    # Rows may still come, unless the interval of WITHIN is over.
                    if is_final:
                        is_failed = True
                    elif within == 0:
                        break
                    elif position < end:
                        is_failed = times[position] - times[start] >= within
                    else:
                        is_failed = watermark + 1 - times[start] >= within
                    if not is_failed:
                        break
                elif within > 0 and times[position] - times[start] >= within:
                    is_failed = True
                else:
                    variable = first[pc]
                    mode = modes[variable]
                    labels[position] = pc
                    if mode == BY_ROW:
                        is_failed = truth[variable, position] == 0
                    elif mode == BY_CODE:
                        is_failed = (
                            _holds(
                                code,
                                code_bounds[variable],
                                code_bounds[variable + 1],
                                values,
                                present,
                                sets,
                                first,
                                labels,
                                start,
                                position,
                                -1,
                                -1,
                                work,
                            )
                            != _TRUE
                        )
                    elif mode == BY_MATCH:
                        if phase == RUNNING:
                            phase = np.int64(ASKED)
                            requests[counts[REQUESTS]] = key
                            counts[REQUESTS] += 1
                            break
                        is_failed = phase != ANSWERED_TRUE
                        phase = np.int64(RUNNING)
                    if not is_failed:
                        position += 1
                        pc += 1
                        continue
            elif op[pc] == SPLIT:
                if is_memo:
                    place = (position + key) * steps + pc
                    if visited[place] == counts[STAMP]:
                        is_failed = True
                    else:
                        visited[place] = counts[STAMP]
                if not is_failed:
                    stack_pc[base + height] = second[pc]
                    stack_position[base + height] = position
                    height += 1
                    pc = np.int64(first[pc])
                    continue
            elif op[pc] == JUMP:
                pc = np.int64(first[pc])
                continue
            else:
                rows = position - start
                if counts[RECORDS] == records_max or counts[LABELS] + rows > labels_max:
                    counts[STATUS] = IS_FULL
                    break
                following = _next_start(after, start, position, first, labels, skip_set)
                if following <= start:
                    counts[STATUS] = IS_NOT_MAPPED if following < 0 else IS_SAME_ROW
                    counts[FAULT_ROW] = start
                    break
                record = records[counts[RECORDS]]
                record[0], record[1], record[2], record[3] = key, start, position, MATCH
                record[4] = counts[LABELS]
                for row in range(rows):
                    out_labels[counts[LABELS] + row] = labels[start + row]
                counts[RECORDS] += 1
                counts[LABELS] += rows
                covered = max(covered, position)
                # What led to this match is no failure.
                counts[STAMP] += 1
                start = following
                phase = np.int64(FRESH)
                continue
            if height > 0:
                height -= 1
                pc = np.int64(stack_pc[base + height])
                position = stack_position[base + height]
                continue
            if records_unmatched and start >= covered:
                if counts[RECORDS] == records_max:
                    counts[STATUS] = IS_FULL
                    # The start is tried again.
                    phase = np.int64(FRESH)
                    counts[STAMP] += 1
                    break
                record = records[counts[RECORDS]]
                record[0], record[1], record[2], record[3] = key, start, start + 1, UNMATCHED
                record[4] = counts[LABELS]
                counts[RECORDS] += 1
            start += 1
            phase = np.int64(FRESH)
        state[key, START], state[key, PC], state[key, POSITION] = start, pc, position
        state[key, HEIGHT], state[key, COVERED], state[key, PHASE] = height, covered, phase
        state[key, TRIED] = tried
        if counts[STATUS] != DONE:
            # The keys from this one on are run by the next call.
            counts[NEXT_ACTIVE] = index
            return
    counts[NEXT_ACTIVE] = active_count


@kernel(
    "void(int64[:, ::1], int64[:, ::1], int32[:, ::1], uint8[::1], uint8[:, ::1], int64[::1], int32[::1], int32[::1],"
    " int64[::1], int64[::1], int32[:, ::1], int32[::1], int64[:, ::1], uint8[:, ::1], uint8[:, ::1], int64[:, ::1])"
)
def follow_runs(  # type: ignore[no-untyped-def]
    bounds,
    runs,
    program,
    modes,
    truth,
    times,
    labels,
    stack_pc,
    stack_position,
    settings,
    code,
    code_bounds,
    values,
    present,
    sets,
    work,
):
    """Follow the runs that waited for rows over the rows that came, of which all earlier rows but a few are not there.

    `bounds[k]`: first row, end of the first rows of the match, first known row of those before the new ones, first new row, end.
    `runs[k]`: where the program waits, and the time of the first row of the match; the former becomes where it waits now, or -1
    when only all rows tell how it goes on: it has ended, has no alternative since the first new row, or reads a row that is not
    there. `settings`: WITHIN, watermark, steps that a run may take for each new row.
    """
    within, watermark = settings[0], settings[1]
    op, first, second = program[:, 0], program[:, 1], program[:, 2]
    for key in range(len(bounds)):
        begin, gap_first, gap_end = bounds[key, 0], bounds[key, 1], bounds[key, 2]
        position, end = bounds[key, 3], bounds[key, 4]
        pc, began = runs[key, 0], runs[key, 1]
        left = settings[2] * (end - position + 1)
        height = np.int64(0)
        waits = False
        while left > 0:
            left -= 1
            if op[pc] == CONSUME:
                if position >= end:
                    waits = within == 0 or watermark + 1 - began < within
                    break
                is_failed = within > 0 and times[position] - began >= within
                if not is_failed:
                    variable = first[pc]
                    mode = modes[variable]
                    labels[position] = pc
                    if mode == BY_ROW:
                        is_failed = truth[variable, position] == 0
                    elif mode == BY_CODE:
                        found = _holds(
                            code,
                            code_bounds[variable],
                            code_bounds[variable + 1],
                            values,
                            present,
                            sets,
                            first,
                            labels,
                            begin,
                            position,
                            gap_first,
                            gap_end - 1,
                            work,
                        )
                        if found == _UNKNOWN:
                            break
                        is_failed = found != _TRUE
                    elif mode == BY_MATCH:
                        break
                if not is_failed:
                    position += 1
                    pc += 1
                    continue
            elif op[pc] == SPLIT:
                if height == len(stack_pc):
                    break
                stack_pc[height] = second[pc]
                stack_position[height] = position
                height += 1
                pc = np.int64(first[pc])
                continue
            elif op[pc] == JUMP:
                pc = np.int64(first[pc])
                continue
            else:
                break
            if height == 0:
                break
            height -= 1
            pc = np.int64(stack_pc[height])
            position = stack_position[height]
        runs[key, 0] = pc if waits else -1
