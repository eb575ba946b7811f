"""Finds the matches of a pattern in the rows of each key, by backtracking in the order of preference."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.native.kernel import inlined, kernel

CONSUME, SPLIT, JUMP = 0, 1, 2
"""Instructions of a program, the last of which ends the match: see sqlstream.specs.match_recognize."""

ALWAYS, BY_ROW, BY_MATCH, BY_CODE = 0, 1, 2, 3
"""How the condition of a variable is known: it is TRUE, a flag per row, what the caller answers, or computed by code."""

OF_LAST, OF_FIRST = 1, 2

PAST_LAST_ROW, NEXT_ROW, TO_FIRST, TO_LAST = 0, 1, 2, 3
MATCH, UNMATCHED = 0, 1
DONE, IS_FULL, IS_NOT_MAPPED, IS_SAME_ROW, IS_COSTLY, IS_PAUSED = 0, 1, 2, 3, 4, 5

LOAD, COMPARE, AND, OR, NOT, IS_NULL, IS_NOT_NULL = 0, 1, 2, 3, 4, 5, 6
"""Steps of a condition's code. LOAD pushes a value of the current row or of a mapped one (behind the last row: that without a
row), the others take what they work on."""

RECORD, CODE = 5, 5
"""Widths: a record (key, start, end, kind, first label), and a step of code (op, operand, set of variables or -1, is first,
offset)."""

OP, FIRST, SECOND, MODE, CODE_BEGIN, CODE_END, SKIPPED_TO, SETS = range(8)
"""Columns of a program, a row per instruction. CONSUME: the variable is FIRST; its condition is the row CODE_BEGIN of the flags
(BY_ROW), or the code from CODE_BEGIN to CODE_END (BY_CODE); SKIPPED_TO: whether AFTER MATCH SKIP TO names it. From SETS on
a column per way by which code finds rows: whether the variable is in its set, as OF_LAST or OF_FIRST row of it."""

START, PC, POSITION, HEIGHT, COVERED, PHASE, TRIED, END, LIMIT, STACK, KEY = range(11)
"""Columns of the keys: the row at which a match begins, the instruction, the row to be consumed, the height of the stack of
alternatives, the end of the rows that matches cover, the phase, the steps from this start; the end of the rows, the end of those
that can be consumed, and the first place of the stack. KEY is the number of columns."""
FRESH, RUNNING, ASKED, ANSWERED_FALSE, ANSWERED_TRUE = 0, 1, 2, 3, 4

WAITS_AT, BEGAN, FIRST_ROW, NEW_ROW, NEW_END, RUN = range(6)
"""Columns of the runs that are followed: where the program waits, and the time of the first row of the match. Then rows: the
first known one, the first new one, the end. RUN is the number of columns."""

RECORDS, LABELS, STAMP, STATUS, FAULT_ROW, NEXT_ACTIVE = 0, 1, 2, 3, 4, 5
"""Registers that calls write: the records and labels so far, a stamp for `visited`, how the call ended, at which row, and the
place of the first active key that was not run to its end."""
IS_FINAL, WITHIN, WATERMARK, AFTER, WITH_UNMATCHED, HAS_MEMO, START_STEPS, CALL_STEPS = (
    6,
    7,
    8,
    9,
    10,
    11,
    12,
    13,
)
REGISTERS = 14
"""Registers that calls read: whether no row will come, WITHIN, the watermark, AFTER MATCH, whether unmatched rows are recorded,
and whether a failure of an instruction at a row holds for all ways to it (`visited`). Then how many steps the match from one row
may take, and one call; for runs that are followed, each new row."""

WORK = 64
"""The first places of a stack, in which conditions are computed."""

_FALSE, _TRUE, _NULL, _UNKNOWN, _ASK = 0, 1, 2, 3, 4


@inlined
def _mapped_row(step, program, labels, mapped, start, position, first_known):  # type: ignore[no-untyped-def]
    """The row that a LOAD reads, -1 when there is none, -2 when it may be one that is not there. `position` is mapped to the
    variable that is tried. Not all rows before `first_known` are there."""
    if step[2] < 0:
        return position
    way = step[2] - SETS
    row, left = np.int64(mapped[way, position]), np.int64(step[4])
    if step[3] != 0 and left > 0 and row >= 0:
        if row < first_known:
            return np.int64(-2)
        while left > 0 and row < position:
            row += 1
            if program[labels[row], step[2]] != 0:
                left -= 1
        return row if left == 0 else np.int64(-1)
    while left > 0 and row >= 0:
        row = np.int64(mapped[way, row - 1]) if row > start else np.int64(-1)
        left -= 1
    return row


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
    program, code, values, flags, labels, mapped, stack, begin, end, start, position, first_known
):
    """_TRUE when the code of a condition is, _UNKNOWN when it reads a row that is not there. The first places of the stack have
    the values, and whether each is there."""
    top = np.int64(-1)
    for at in range(begin, end):
        step = code[at]
        op = step[0]
        if op == LOAD:
            row = _mapped_row(step, program, labels, mapped, start, position, first_known)
            if row == -2:
                return np.int64(_UNKNOWN)
            if row < 0:
                row = np.int64(len(labels))
            top += 1
            if flags[step[1], row] == 0:
                stack[top, 0] = _NULL
                stack[top, 1] = 0
            else:
                stack[top, 0] = values[step[1], row]
                stack[top, 1] = 1
        elif op == COMPARE:
            top -= 1
            if stack[top, 1] == 0 or stack[top + 1, 1] == 0:
                stack[top, 0] = _NULL
                stack[top, 1] = 0
            else:
                stack[top, 0] = _compared(step[1], stack[top, 0], stack[top + 1, 0])
                stack[top, 1] = 1
        elif op in (AND, OR):
            top -= 1
            stack[top, 0] = _joined(op, stack[top, 0], stack[top + 1, 0])
            stack[top, 1] = 0 if stack[top, 0] == _NULL else 1
        elif op == NOT:
            if stack[top, 0] != _NULL:
                stack[top, 0] = 1 - stack[top, 0]
        else:
            is_null = stack[top, 1] == 0
            stack[top, 0] = 1 if is_null == (op == IS_NULL) else 0
            stack[top, 1] = 1
    return np.int64(_TRUE) if stack[0, 0] == _TRUE else np.int64(_FALSE)


@inlined
def _next_start(program, labels, after, start, end):  # type: ignore[no-untyped-def]
    """The row at which the next match can begin; -1 when no row is mapped to a variable to skip to."""
    if end == start or after == NEXT_ROW:
        return start + 1
    if after == PAST_LAST_ROW:
        return end
    if after == TO_FIRST:
        for row in range(start, end):
            if program[labels[row], SKIPPED_TO] != 0:
                return np.int64(row)
        return np.int64(-1)
    row = end - 1
    while row >= start:
        if program[labels[row], SKIPPED_TO] != 0:
            return row
        row -= 1
    return np.int64(-1)


@inlined
def _consumes(  # type: ignore[no-untyped-def]
    program, code, values, flags, labels, mapped, stack, pc, start, position, first_known
):
    """Whether the CONSUME at `pc` takes the row at `position`, which it labels: _TRUE, _FALSE, _UNKNOWN when that depends on a
    row that is not there, _ASK when it is for the caller to say."""
    labels[position] = pc
    for way in range(len(mapped)):
        row = mapped[way, position - 1] if position > start else np.int32(-1)
        kind = program[pc, SETS + way]
        mapped[way, position] = position if kind == OF_LAST or (kind == OF_FIRST and row < 0) else row
    mode = program[pc, MODE]
    if mode == BY_ROW:
        return np.int64(flags[program[pc, CODE_BEGIN], position])
    if mode == BY_CODE:
        begin, end = program[pc, CODE_BEGIN], program[pc, CODE_END]
        return _holds(
            program, code, values, flags, labels, mapped, stack, begin, end, start, position, first_known
        )
    return np.int64(_ASK) if mode == BY_MATCH else np.int64(_TRUE)


@inlined
def _is_over(times, start, position, end, registers):  # type: ignore[no-untyped-def]
    """Whether a match that has taken all rows that it can gets no more: none will come, or the interval of WITHIN has passed."""
    if registers[IS_FINAL] != 0:
        return True
    if registers[WITHIN] == 0:
        return False
    moment = times[position] if position < end else registers[WATERMARK] + 1
    return moment - times[start] >= registers[WITHIN]


@inlined
def _add_record(records, registers, key, start, end, kind):  # type: ignore[no-untyped-def]
    record = records[registers[RECORDS]]
    record[0], record[1], record[2], record[3], record[4] = key, start, end, kind, registers[LABELS]
    registers[RECORDS] += 1


@inlined
def _accept(program, labels, records, out_labels, registers, key, start, position):  # type: ignore[no-untyped-def]
    """Record the match of the rows from `start` to `position`: the row at which the next one can begin, or -1 with a STATUS."""
    rows = position - start
    if registers[RECORDS] == len(records) or registers[LABELS] + rows > len(out_labels):
        registers[STATUS] = IS_FULL
        return np.int64(-1)
    following = _next_start(program, labels, registers[AFTER], start, position)
    if following <= start:
        registers[STATUS] = IS_NOT_MAPPED if following < 0 else IS_SAME_ROW
        registers[FAULT_ROW] = start
        return np.int64(-1)
    _add_record(records, registers, key, start, position, MATCH)
    for row in range(rows):
        out_labels[registers[LABELS] + row] = labels[start + row]
    registers[LABELS] += rows
    # What led to this match is no failure.
    registers[STAMP] += 1
    return following


@inlined
def _taken(  # type: ignore[no-untyped-def]
    program,
    code,
    values,
    flags,
    times,
    labels,
    mapped,
    stack,
    registers,
    pc,
    start,
    position,
    limit,
    end,
    phase,
):
    """As `_consumes`, of a row that may not be there: _UNKNOWN while it may come. `phase` may have the answer to _ASK."""
    if position >= limit:
        return np.int64(_FALSE) if _is_over(times, start, position, end, registers) else np.int64(_UNKNOWN)
    if registers[WITHIN] != 0 and times[position] - times[start] >= registers[WITHIN]:
        return np.int64(_FALSE)
    found = _consumes(program, code, values, flags, labels, mapped, stack, pc, start, position, np.int64(-1))
    if found == _ASK and phase != RUNNING:
        return np.int64(_TRUE) if phase == ANSWERED_TRUE else np.int64(_FALSE)
    return found


@inlined
def _is_stopped(registers, left, tried, start):  # type: ignore[no-untyped-def]
    """Whether there is no step left, of the call or of the match that begins at `start`."""
    if left == 0:
        registers[STATUS] = IS_PAUSED
    elif tried >= registers[START_STEPS]:
        registers[STATUS] = IS_COSTLY
        registers[FAULT_ROW] = start
    return registers[STATUS] != DONE


@inlined
def _is_first_visit(visited, place, registers):  # type: ignore[no-untyped-def]
    if registers[HAS_MEMO] == 0:
        return True
    is_first = visited[place] != registers[STAMP]
    visited[place] = registers[STAMP]
    return is_first


@inlined
def _begins_next(records, registers, key, start, covered):  # type: ignore[no-untyped-def]
    """Whether the next row is to be tried, once no match begins at `start`: a row that no match covers may need a record."""
    if registers[WITH_UNMATCHED] != 0 and start >= covered:
        if registers[RECORDS] == len(records):
            registers[STATUS] = IS_FULL
            # The start is tried again.
            registers[STAMP] += 1
            return False
        _add_record(records, registers, key, start, start + 1, UNMATCHED)
    return True


@inlined
def _match_key(  # type: ignore[no-untyped-def]
    n,
    key,
    program,
    code,
    values,
    flags,
    times,
    labels,
    mapped,
    visited,
    stack,
    records,
    out_labels,
    registers,
    left,
):
    """`find_matches` of one key; returns how many of the steps are left."""
    end, limit, base, steps = key[END], key[LIMIT], key[STACK], np.int64(len(program))
    start, pc, position = key[START], key[PC], key[POSITION]
    height, covered, phase, tried = key[HEIGHT], key[COVERED], key[PHASE], key[TRIED]
    while True:
        if _is_stopped(registers, left, tried, start):
            break
        left, tried = left - 1, tried + 1
        if phase == FRESH:
            if start >= limit:
                break
            pc, position, height, tried = np.int64(0), start, np.int64(0), np.int64(0)
            registers[STAMP] += np.int64(registers[WITHIN] > 0)
            phase = np.int64(RUNNING)
        op = program[pc, OP]
        if op == CONSUME:
            found = _taken(
                program, code, values, flags, times, labels, mapped, stack, registers, pc, start, position, limit, end,
                phase,
            )  # fmt: skip
            if found in (_UNKNOWN, _ASK):
                phase = np.int64(ASKED) if found == _ASK else phase
                break
            phase = np.int64(RUNNING)
            if found == _TRUE:
                position += 1
                pc += 1
                continue
        elif op == SPLIT:
            if _is_first_visit(visited, (position + n) * steps + pc, registers):
                stack[base + height, 0], stack[base + height, 1] = program[pc, SECOND], position
                height += 1
                pc = np.int64(program[pc, FIRST])
                continue
        elif op == JUMP:
            pc = np.int64(program[pc, FIRST])
            continue
        else:
            following = _accept(program, labels, records, out_labels, registers, n, start, position)
            if following < 0:
                break
            covered, start, phase = max(covered, position), following, np.int64(FRESH)
            continue
        if height > 0:
            height -= 1
            pc, position = stack[base + height, 0], stack[base + height, 1]
            continue
        phase = np.int64(FRESH)
        if not _begins_next(records, registers, n, start, covered):
            break
        start += 1
    key[START], key[PC], key[POSITION] = start, pc, position
    key[HEIGHT], key[COVERED], key[PHASE], key[TRIED] = height, covered, phase, tried
    return left


@kernel(
    "void(int64[::1], int64[:, ::1], int32[:, ::1], int32[:, ::1], int64[:, ::1], uint8[:, ::1], int64[::1],"
    " int32[::1], int32[:, ::1], int32[::1], int64[:, ::1], int64[:, ::1], int32[::1], int64[::1])"
)
def find_matches(  # type: ignore[no-untyped-def]
    active,
    keys,
    program,
    code,
    values,
    flags,
    times,
    labels,
    mapped,
    visited,
    stack,
    records,
    out_labels,
    registers,
):
    """Match the rows of the `active` keys until each has no row left at which a match can begin, or waits.

    A key waits for rows (phase RUNNING or FRESH), or for the caller's answer (ASKED). `program`, `code`, `values` and `flags`
    are those of PreparedConditions. `labels`: the instructions that the rows were consumed by, of which `out_labels` has those of
    each record. `mapped`: by way (a column of the program from SETS on) and row, the row that it finds from there, -1 for none.
    `visited`: per row (and one per key) and instruction the stamp under which it failed. After CALL_STEPS it is IS_PAUSED, and
    the next call goes on.
    """
    left = registers[CALL_STEPS]
    registers[STATUS] = DONE
    for index in range(len(active)):
        number = active[index]
        left = _match_key(
            number, keys[number], program, code, values, flags, times, labels, mapped, visited, stack, records,
            out_labels, registers, left,
        )  # fmt: skip
        if registers[STATUS] != DONE:
            # The keys from this one on are run by the next call.
            registers[NEXT_ACTIVE] = index
            return
    registers[NEXT_ACTIVE] = len(active)


@kernel(
    "void(int64[:, ::1], int32[:, ::1], int32[:, ::1], int64[:, ::1], uint8[:, ::1], int64[::1], int32[::1],"
    " int32[:, ::1], int64[:, ::1], int64[::1])"
)
def follow_runs(  # type: ignore[no-untyped-def]
    runs, program, code, values, flags, times, labels, mapped, stack, registers
):
    """Follow the runs that waited for rows over the rows that came. Of the rows before these but a few are there; for the last of
    them `mapped` has what the ways find.

    WAITS_AT becomes where a run waits afterwards, or -1 when only all rows tell how it goes on: it has ended, has no alternative
    since the first new row, or reads a row that is not there.
    """
    within = registers[WITHIN]
    for number in range(len(runs)):
        run = runs[number]
        began, position, end = run[BEGAN], run[NEW_ROW], run[NEW_END]
        pc = run[WAITS_AT]
        left = registers[CALL_STEPS] * (end - position + 1)
        height = np.int64(WORK)
        waits = False
        while left > 0:
            left -= 1
            op = program[pc, OP]
            if op == CONSUME:
                if position >= end:
                    waits = within == 0 or registers[WATERMARK] + 1 - began < within
                    break
                found = np.int64(_FALSE)
                if within == 0 or times[position] - began < within:
                    begin, known = run[FIRST_ROW], run[NEW_ROW]
                    found = _consumes(
                        program, code, values, flags, labels, mapped, stack, pc, begin, position, known
                    )
                if found in (_UNKNOWN, _ASK):
                    break
                if found == _TRUE:
                    position += 1
                    pc += 1
                    continue
            elif op == SPLIT:
                if height == len(stack):
                    break
                stack[height, 0], stack[height, 1] = program[pc, SECOND], position
                height += 1
                pc = np.int64(program[pc, FIRST])
                continue
            elif op == JUMP:
                pc = np.int64(program[pc, FIRST])
                continue
            else:
                break
            if height == WORK:
                break
            height -= 1
            pc, position = stack[height, 0], stack[height, 1]
        run[WAITS_AT] = pc if waits else -1
