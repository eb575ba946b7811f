"""Loops over graphs whose edges come and go: edges by the vertices at their ends, and connected components."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.kernels.intrinsics import compared_values, prefetch
from sqlstream.runtime.native.kernel import inlined, kernel

# Edges by the vertices at their ends: two chains at each vertex, of the edges that leave it and of those that arrive.

# Columns of `edges`, int32[e, EDGE_WIDTH]: the vertices at the ends, then for each end the next edge in its chain and the one
# before, and a number of the algorithm's. Edges in chains are stored as one more, so that memory never written means none.
ENDS, LINKS, NOTE = 0, 2, 6
EDGE_WIDTH = 8

# Columns of `heads`, int32[v, HEAD_WIDTH]: the first edge of both chains, and how many edges there are in each.
FIRSTS, DEGREES = 0, 2
HEAD_WIDTH = 4


@kernel("void(int32[:, ::1], int32[:, ::1], int64[::1], int64[::1], int64[::1])")
def link(edges, heads, ids, sources, targets):  # type: ignore[no-untyped-def]
    """Put edges, which are in no chain, into those of their ends."""
    for i in range(len(ids)):
        edge = ids[i]
        edges[edge, NOTE] = 0
        for end in range(2):
            vertex = sources[i] if end == 0 else targets[i]
            first = heads[vertex, FIRSTS + end]
            edges[edge, ENDS + end] = vertex
            edges[edge, LINKS + 2 * end] = first
            edges[edge, LINKS + 2 * end + 1] = 0
            if first != 0:
                edges[first - 1, LINKS + 2 * end + 1] = edge + 1
            heads[vertex, FIRSTS + end] = edge + 1
            heads[vertex, DEGREES + end] += 1


@kernel("void(int32[:, ::1], int32[:, ::1], int64[::1])")
def unlink(edges, heads, ids):  # type: ignore[no-untyped-def]
    """Take edges out of the chains of their ends."""
    for i in range(len(ids)):
        edge = ids[i]
        for end in range(2):
            vertex = edges[edge, ENDS + end]
            following, before = edges[edge, LINKS + 2 * end], edges[edge, LINKS + 2 * end + 1]
            if before == 0:
                heads[vertex, FIRSTS + end] = following
            else:
                edges[before - 1, LINKS + 2 * end] = following
            if following != 0:
                edges[following - 1, LINKS + 2 * end + 1] = before
            heads[vertex, DEGREES + end] -= 1


# Connected components. A component is a set of vertices with a number, its least vertex and its size; its vertices stand in a
# ring. A new edge between two sets moves the vertices of the smaller one. With edges that go, some are marked as those of a
# spanning forest: only the loss of such a one can part a component. Both sides are then searched in turns, so that it ends with
# the smaller one; if no other edge leaves that, it becomes a set of its own.

# Columns of `cells`, int32[v, CELL_WIDTH]. By vertex: the number of its set plus one, its neighbours in the ring, whether it is
# in the list of those that were touched, and the side of a search. By number of a set: its least vertex, its size, and whether it
# is in the list of those whose least vertex is another now.
SET, NEXT, BEFORE, IS_TOUCHED, SIDE = 0, 1, 2, 3, 4
LEAST, SIZE, IS_MOVED = 5, 6, 7
CELL_WIDTH = 8

# Columns of `lists`, int32[v, LIST_WIDTH], and the positions of their lengths in `counts`, int64[4]. The last two are the queues
# of a search. SETS is the number of sets ever made, those in FREE among them.
TOUCHED, MOVED, FREE, SETS = 0, 1, 2, 3
_QUEUE = 3
LIST_WIDTH = 5


@inlined
def _is_less(keys, arena, order, one, other):  # type: ignore[no-untyped-def]
    stored, stride, at = np.int64(keys.ctypes.data), np.int64(keys.shape[1] * 8), order[0] * 8
    left, right = stored + np.int64(one) * stride + at, stored + np.int64(other) * stride + at
    return compared_values(left, right, np.int64(arena.ctypes.data), order[1]) < 0


@inlined
def _touch(cells, lists, counts, vertex):  # type: ignore[no-untyped-def]
    if cells[vertex, IS_TOUCHED] == 0:
        cells[vertex, IS_TOUCHED] = 1
        lists[counts[TOUCHED], TOUCHED] = vertex
        counts[TOUCHED] += 1


@inlined
def _note_moved(cells, lists, counts, number):  # type: ignore[no-untyped-def]
    if cells[number, IS_MOVED] == 0:
        cells[number, IS_MOVED] = 1
        lists[counts[MOVED], MOVED] = number
        counts[MOVED] += 1


@inlined
def _new_set(lists, counts):  # type: ignore[no-untyped-def]
    if counts[FREE] > 0:
        counts[FREE] -= 1
        return np.int64(lists[counts[FREE], FREE])
    counts[SETS] += 1
    return counts[SETS] - 1


@inlined
def _set_of(cells, lists, counts, vertex):  # type: ignore[no-untyped-def]
    """The number of a vertex's set; a vertex that has none gets one of its own."""
    if cells[vertex, SET] == 0:
        number = _new_set(lists, counts)
        cells[vertex, SET] = number + 1
        cells[vertex, NEXT] = vertex
        cells[vertex, BEFORE] = vertex
        cells[number, LEAST] = vertex
        cells[number, SIZE] = 1
        _touch(cells, lists, counts, vertex)
    return np.int64(cells[vertex, SET]) - 1


_SETS_SIGNATURE = "int32[:, ::1], int32[:, ::1], int64[::1], uint64[:, ::1], uint8[::1], int64[::1]"


_AHEAD = 16
"""How many edges before its turn the vertices of one are fetched."""


@kernel(f"void({_SETS_SIGNATURE}, int32[:, ::1], int64[::1], int64[::1], int64[::1])")
def unite(cells, lists, counts, keys, arena, order, edges, ids, sources, targets):  # type: ignore[no-untyped-def]
    """Make one set of those of the ends of each new edge. `ids`, if there are any, are their rows in `edges`; an edge that unites
    is one of the forest. `keys` and `arena` have the keys of the vertices, by which `order`, their place and kind, says the
    least."""
    base, stride = np.int64(cells.ctypes.data), np.int64(4 * CELL_WIDTH)
    for i in range(len(sources)):
        if i + _AHEAD < len(sources):
            prefetch(base + sources[i + _AHEAD] * stride)
            prefetch(base + targets[i + _AHEAD] * stride)
        large = _set_of(cells, lists, counts, sources[i])
        small = _set_of(cells, lists, counts, targets[i])
        if large == small:
            continue
        if len(ids) > 0:
            edges[ids[i], NOTE] = 1
        if cells[large, SIZE] < cells[small, SIZE]:
            large, small = small, large
        one, other = np.int64(cells[large, LEAST]), np.int64(cells[small, LEAST])
        vertex = other
        while True:
            cells[vertex, SET] = large + 1
            _touch(cells, lists, counts, vertex)
            vertex = np.int64(cells[vertex, NEXT])
            if vertex == other:
                break
        behind_one, behind_other = cells[one, NEXT], cells[other, NEXT]
        cells[one, NEXT] = behind_other
        cells[behind_other, BEFORE] = one
        cells[other, NEXT] = behind_one
        cells[behind_one, BEFORE] = other
        if _is_less(keys, arena, order, other, one):
            cells[large, LEAST] = other
            _note_moved(cells, lists, counts, large)
        cells[large, SIZE] += cells[small, SIZE]
        cells[small, SIZE] = 0
        lists[counts[FREE], FREE] = small
        counts[FREE] += 1


@inlined
def _expand(cells, lists, edges, heads, at, count, side):  # type: ignore[no-untyped-def]
    """Put the neighbours of the vertex at `at` of a queue, along the forest, behind its `count` vertices; returns how many these
    are then, and how many edges were looked at."""
    vertex = lists[at, _QUEUE + side]
    looked_at = np.int64(1)
    for end in range(2):
        edge = np.int64(heads[vertex, FIRSTS + end]) - 1
        while edge >= 0:
            looked_at += 1
            other = edges[edge, ENDS + 1 - end]
            if edges[edge, NOTE] > 0 and cells[other, SIDE] == 0:
                cells[other, SIDE] = side + 1
                lists[count, _QUEUE + side] = other
                count += 1
            edge = np.int64(edges[edge, LINKS + 2 * end]) - 1
    return count, looked_at


@inlined
def _is_joined(cells, lists, edges, heads, count, side):  # type: ignore[no-untyped-def]
    """Whether an edge leaves the vertices of a side; it becomes one of the forest."""
    for i in range(count):
        vertex = lists[i, _QUEUE + side]
        for end in range(2):
            edge = np.int64(heads[vertex, FIRSTS + end]) - 1
            while edge >= 0:
                if edges[edge, NOTE] >= 0 and cells[edges[edge, ENDS + 1 - end], SIDE] != side + 1:
                    edges[edge, NOTE] = 1
                    return True
                edge = np.int64(edges[edge, LINKS + 2 * end]) - 1
    return False


@inlined
def _part(cells, lists, counts, keys, arena, order, count, side, rest):  # type: ignore[no-untyped-def]
    """Make a set of the vertices of a side; vertex `rest` stays in the one that they were in."""
    first = np.int64(lists[0, _QUEUE + side])
    old, number, least = np.int64(cells[first, SET]) - 1, _new_set(lists, counts), first
    for i in range(count):
        vertex = np.int64(lists[i, _QUEUE + side])
        following, before = cells[vertex, NEXT], cells[vertex, BEFORE]
        cells[before, NEXT] = following
        cells[following, BEFORE] = before
        cells[vertex, SET] = number + 1
        cells[vertex, NEXT] = vertex
        cells[vertex, BEFORE] = vertex
        if i > 0:
            behind = cells[first, NEXT]
            cells[vertex, NEXT] = behind
            cells[vertex, BEFORE] = first
            cells[behind, BEFORE] = vertex
            cells[first, NEXT] = vertex
        _touch(cells, lists, counts, vertex)
        if _is_less(keys, arena, order, vertex, least):
            least = vertex
    cells[number, LEAST] = least
    cells[number, SIZE] = count
    cells[old, SIZE] -= count
    if cells[cells[old, LEAST], SET] != old + 1:
        least, vertex = rest, np.int64(cells[rest, NEXT])
        while vertex != rest:
            if _is_less(keys, arena, order, vertex, least):
                least = vertex
            vertex = np.int64(cells[vertex, NEXT])
        cells[old, LEAST] = least
        _note_moved(cells, lists, counts, old)


@kernel(f"void({_SETS_SIGNATURE}, int32[:, ::1], int32[:, ::1], int64[::1])")
def part(cells, lists, counts, keys, arena, order, edges, heads, ids):  # type: ignore[no-untyped-def]
    """Part the sets that edges alone hold together which go, one after the other. They are still in their chains."""
    for i in range(len(ids)):
        edge = ids[i]
        _touch(cells, lists, counts, edges[edge, ENDS])
        _touch(cells, lists, counts, edges[edge, ENDS + 1])
        is_of_forest = edges[edge, NOTE] > 0
        edges[edge, NOTE] = -1
        if not is_of_forest:
            continue
        one, other = np.int64(edges[edge, ENDS]), np.int64(edges[edge, ENDS + 1])
        cells[one, SIDE], cells[other, SIDE] = 1, 2
        lists[0, _QUEUE], lists[0, _QUEUE + 1] = one, other
        ones, others = np.int64(1), np.int64(1)
        at_one, at_other = np.int64(0), np.int64(0)
        cost_one, cost_other = np.int64(0), np.int64(0)
        while at_one < ones and at_other < others:
            if cost_one <= cost_other:
                ones, cost = _expand(cells, lists, edges, heads, at_one, ones, 0)
                at_one += 1
                cost_one += cost
            else:
                others, cost = _expand(cells, lists, edges, heads, at_other, others, 1)
                at_other += 1
                cost_other += cost
        side, count, rest = (0, ones, other) if at_one == ones else (1, others, one)
        is_joined = _is_joined(cells, lists, edges, heads, count, side)
        for at in range(ones):
            cells[lists[at, _QUEUE], SIDE] = 0
        for at in range(others):
            cells[lists[at, _QUEUE + 1], SIDE] = 0
        if not is_joined:
            _part(cells, lists, counts, keys, arena, order, count, side, rest)


@kernel("void(int32[:, ::1], int32[:, ::1], int64[::1], int64[::1])")
def touch_moved(cells, lists, counts, emitted):  # type: ignore[no-untyped-def]
    """Touch the vertices of sets whose least vertex is another now, unless it is that which was emitted of them."""
    for i in range(counts[MOVED]):
        number = lists[i, MOVED]
        cells[number, IS_MOVED] = 0
        size, least = np.int64(cells[number, SIZE]), np.int64(cells[number, LEAST])
        if size > len(emitted) // 8:
            # One after the other in memory is faster than around the ring.
            for place in range(len(emitted)):
                if cells[place, SET] == number + 1 and emitted[place] != least:
                    _touch(cells, lists, counts, place)
            continue
        vertex = least
        for _ in range(size):
            if emitted[vertex] != least:
                _touch(cells, lists, counts, vertex)
            vertex = np.int64(cells[vertex, NEXT])
    counts[MOVED] = 0


@kernel(
    "int64(int32[:, ::1], int32[:, ::1], int64[::1], int64[::1], int32[:, ::1], int64[::1], int64[::1], int64[::1])"
)
def changed_sets(cells, lists, counts, emitted, heads, vertices, olds, news):  # type: ignore[no-untyped-def]
    """Writes the touched vertices of which another least vertex was emitted than theirs, and both, -1 for none; returns how many
    they are. None is touched then. Vertices without edges in `heads`, if it has a row for each, have none."""
    count = np.int64(0)
    has_heads = heads.shape[0] > 0
    for i in range(counts[TOUCHED]):
        vertex = lists[i, TOUCHED]
        cells[vertex, IS_TOUCHED] = 0
        least = np.int64(cells[cells[vertex, SET] - 1, LEAST])
        if has_heads and heads[vertex, DEGREES] == 0 and heads[vertex, DEGREES + 1] == 0:
            least = np.int64(-1)
        if emitted[vertex] != least:
            vertices[count] = vertex
            olds[count] = emitted[vertex]
            news[count] = least
            count += 1
    counts[TOUCHED] = 0
    return count
