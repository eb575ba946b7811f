"""Loops over graphs whose edges come and go: edges by the vertices at their ends, and what is known of vertices."""

from __future__ import annotations

import numpy as np

from sqlstream.changelog import RowKind
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


@inlined
def _link_edge(edges, heads, edge, source, target):  # type: ignore[no-untyped-def]
    edges[edge, NOTE] = 0
    for end in range(2):
        vertex = source if end == 0 else target
        first = heads[vertex, FIRSTS + end]
        edges[edge, ENDS + end] = vertex
        edges[edge, LINKS + 2 * end] = first
        edges[edge, LINKS + 2 * end + 1] = 0
        if first != 0:
            edges[first - 1, LINKS + 2 * end + 1] = edge + 1
        heads[vertex, FIRSTS + end] = edge + 1
        heads[vertex, DEGREES + end] += 1


@inlined
def _unlink_edge(edges, heads, edge):  # type: ignore[no-untyped-def]
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


@kernel("void(int32[:, ::1], int32[:, ::1], int64[::1])")
def link(edges, heads, ids):  # type: ignore[no-untyped-def]
    """Put edges, whose ends are known and which are in no chain, into those of their ends."""
    for i in range(len(ids)):
        _link_edge(edges, heads, ids[i], edges[ids[i], ENDS], edges[ids[i], ENDS + 1])


@kernel("void(int32[:, ::1], int32[:, ::1], int64[::1])")
def unlink(edges, heads, ids):  # type: ignore[no-untyped-def]
    """Take edges out of the chains of their ends."""
    for i in range(len(ids)):
        _unlink_edge(edges, heads, ids[i])


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
def _list_once(cells, lists, counts, item, flag, kind):  # type: ignore[no-untyped-def]
    """Add a vertex or a set to the list of this kind, unless its flag says that it is there."""
    if cells[item, flag] == 0:
        cells[item, flag] = 1
        lists[counts[kind], kind] = item
        counts[kind] += 1


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
        _list_once(cells, lists, counts, vertex, IS_TOUCHED, TOUCHED)
    return np.int64(cells[vertex, SET]) - 1


_SETS_SIGNATURE = "int32[:, ::1], int32[:, ::1], int64[::1], uint64[:, ::1], uint8[::1], int64[::1]"


_AHEAD = 8
"""How many edges before its turn the sets of one's vertices are fetched, and twice as many these themselves."""


@kernel(f"void({_SETS_SIGNATURE}, int32[:, ::1], int64[::1], int64[::1], int64[::1])")
def unite(cells, lists, counts, keys, arena, order, edges, ids, sources, targets):  # type: ignore[no-untyped-def]
    """Make one set of those of the ends of each new edge. `ids`, if there are any, are their rows in `edges`; an edge that unites
    is one of the forest. `keys` and `arena` have the keys of the vertices, by which `order`, their place and kind, says the
    least."""
    base, stride = np.int64(cells.ctypes.data), np.int64(4 * CELL_WIDTH)
    for i in range(len(sources)):
        if i + 2 * _AHEAD < len(sources):
            prefetch(base + sources[i + 2 * _AHEAD] * stride)
            prefetch(base + targets[i + 2 * _AHEAD] * stride)
        if i + _AHEAD < len(sources):
            prefetch(base + (np.int64(cells[sources[i + _AHEAD], SET]) - 1) * stride)
            prefetch(base + (np.int64(cells[targets[i + _AHEAD], SET]) - 1) * stride)
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
            _list_once(cells, lists, counts, vertex, IS_TOUCHED, TOUCHED)
            vertex = np.int64(cells[vertex, NEXT])
            if vertex == other:
                break
        behind_one, behind_other = cells[one, NEXT], cells[other, NEXT]
        cells[one, NEXT] = behind_other
        cells[other, NEXT] = behind_one
        if len(ids) > 0:
            # Only to part sets is a vertex taken out of its ring.
            cells[behind_other, BEFORE] = one
            cells[behind_one, BEFORE] = other
        if _is_less(keys, arena, order, other, one):
            cells[large, LEAST] = other
            _list_once(cells, lists, counts, large, IS_MOVED, MOVED)
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
        _list_once(cells, lists, counts, vertex, IS_TOUCHED, TOUCHED)
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
        _list_once(cells, lists, counts, old, IS_MOVED, MOVED)


@kernel(f"void({_SETS_SIGNATURE}, int32[:, ::1], int32[:, ::1], int64[::1])")
def part(cells, lists, counts, keys, arena, order, edges, heads, ids):  # type: ignore[no-untyped-def]
    """Part the sets that edges alone hold together which go, one after the other. They are still in their chains."""
    for i in range(len(ids)):
        edge = ids[i]
        _list_once(cells, lists, counts, edges[edge, ENDS], IS_TOUCHED, TOUCHED)
        _list_once(cells, lists, counts, edges[edge, ENDS + 1], IS_TOUCHED, TOUCHED)
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
                    _list_once(cells, lists, counts, place, IS_TOUCHED, TOUCHED)
            continue
        vertex = least
        for _ in range(size):
            if emitted[vertex] != least:
                _list_once(cells, lists, counts, vertex, IS_TOUCHED, TOUCHED)
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
    base, stride = np.int64(cells.ctypes.data), np.int64(4 * CELL_WIDTH)
    before = np.int64(emitted.ctypes.data)
    touched = counts[TOUCHED]
    for i in range(touched):
        if i + 2 * _AHEAD < touched:
            ahead = np.int64(lists[i + 2 * _AHEAD, TOUCHED])
            prefetch(base + ahead * stride)
            prefetch(before + ahead * 8)
        if i + _AHEAD < touched:
            prefetch(base + (np.int64(cells[lists[i + _AHEAD, TOUCHED], SET]) - 1) * stride)
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


_INSERT, _UPDATE_BEFORE, _UPDATE_AFTER, _DELETE = (
    np.int8(kind) for kind in (RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE)
)


@kernel(
    "int64(int64[::1], int64[::1], boolean, int64[::1], int8[::1])",
    "int64(float64[::1], float64[::1], boolean, int64[::1], int8[::1])",
)
def list_changes(olds, news, tells_before, changes, kinds):  # type: ignore[no-untyped-def]
    """Which change each row of a changelog is of, and its kind, where a value was one and is another, -1 for none. A -U stands
    before its +U, if it is told. Returns how many rows there are."""
    count = np.int64(0)
    for i in range(len(olds)):
        had, has = olds[i] >= 0, news[i] >= 0
        if had and (tells_before or not has):
            changes[count] = i
            kinds[count] = _UPDATE_BEFORE if has else _DELETE
            count += 1
        if has:
            changes[count] = i
            kinds[count] = _UPDATE_AFTER if had else _INSERT
            count += 1
    return count


@kernel(
    "void(int64[::1], int64[::1], int64[::1], int8[::1], int64[::1])",
    "void(float64[::1], float64[::1], int64[::1], int8[::1], float64[::1])",
)
def list_values(olds, news, changes, kinds, values):  # type: ignore[no-untyped-def]
    """What was or is, in these rows of a changelog."""
    for i in range(len(changes)):
        is_after = kinds[i] == _INSERT or kinds[i] == _UPDATE_AFTER
        values[i] = news[changes[i]] if is_after else olds[changes[i]]


# Shortest paths from one vertex. Each vertex that is reached knows the edge by which it is: these edges make a tree. Only the
# loss of one of them matters; the vertices behind it are lost, and found again from those that are left, the nearest first.

# Columns of `cells`, int32[v, PATH_WIDTH]: the edge by which the vertex is reached, plus one; the number of edges from the first
# vertex, plus one, 0 where it is not reached; its place in the heap plus one; whether it is in the list of those touched.
_BY, REACHED, _PLACE, IS_SEEN = 0, 1, 2, 3
PATH_WIDTH = 4

# Columns of `lists`, int32[v, PATH_LISTS], and the positions of their lengths in `counts`, int64[3].
SEEN, _LOST, _HEAP = 0, 1, 2
PATH_LISTS = 3


@inlined
def _is_nearer(cells, distances, one, other):  # type: ignore[no-untyped-def]
    if distances[one] != distances[other]:
        return distances[one] < distances[other]
    return cells[one, REACHED] < cells[other, REACHED]


@inlined
def _rise(cells, lists, distances, place):  # type: ignore[no-untyped-def]
    """Move the vertex at a place of the heap up to where it belongs."""
    vertex = lists[place, _HEAP]
    while place > 0:
        above = (place - 1) >> 1
        other = lists[above, _HEAP]
        if not _is_nearer(cells, distances, vertex, other):
            break
        lists[place, _HEAP] = other
        cells[other, _PLACE] = place + 1
        place = above
    lists[place, _HEAP] = vertex
    cells[vertex, _PLACE] = place + 1


@inlined
def _nearest(cells, lists, counts, distances):  # type: ignore[no-untyped-def]
    """Take the nearest vertex out of the heap."""
    nearest = np.int64(lists[0, _HEAP])
    cells[nearest, _PLACE] = 0
    counts[_HEAP] -= 1
    count = counts[_HEAP]
    if count > 0:
        vertex, place = lists[count, _HEAP], np.int64(0)
        while True:
            below = 2 * place + 1
            if below >= count:
                break
            if below + 1 < count and _is_nearer(
                cells, distances, lists[below + 1, _HEAP], lists[below, _HEAP]
            ):
                below += 1
            other = lists[below, _HEAP]
            if not _is_nearer(cells, distances, other, vertex):
                break
            lists[place, _HEAP] = other
            cells[other, _PLACE] = place + 1
            place = below
        lists[place, _HEAP] = vertex
        cells[vertex, _PLACE] = place + 1
    return nearest


@inlined
def _reach(cells, lists, counts, distances, vertex, edge, distance, hops):  # type: ignore[no-untyped-def]
    """Have a vertex be reached by an edge, unless it is no farther already."""
    if cells[vertex, REACHED] != 0:
        if distance > distances[vertex]:
            return
        if distance == distances[vertex] and hops + 1 >= cells[vertex, REACHED]:
            return
    _list_once(cells, lists, counts, vertex, IS_SEEN, SEEN)
    distances[vertex] = distance
    cells[vertex, REACHED] = hops + 1
    cells[vertex, _BY] = edge + 1
    place = np.int64(cells[vertex, _PLACE]) - 1
    if place < 0:
        place = counts[_HEAP]
        lists[place, _HEAP] = vertex
        counts[_HEAP] += 1
    _rise(cells, lists, distances, place)


@kernel("void(int32[:, ::1], int32[:, ::1], int64[::1], int32[:, ::1], int32[:, ::1], int64[::1])")
def lose_paths(cells, lists, counts, edges, heads, ids):  # type: ignore[no-untyped-def]
    """The vertices that are reached by these edges, which go, are reached no longer, nor are those behind them."""
    for i in range(len(ids)):
        first = np.int64(edges[ids[i], ENDS + 1])
        if cells[first, REACHED] == 0 or cells[first, _BY] != ids[i] + 1:
            continue
        at = counts[_LOST]
        cells[first, REACHED] = 0
        lists[at, _LOST] = first
        counts[_LOST] += 1
        while at < counts[_LOST]:
            vertex = np.int64(lists[at, _LOST])
            at += 1
            _list_once(cells, lists, counts, vertex, IS_SEEN, SEEN)
            edge = np.int64(heads[vertex, FIRSTS]) - 1
            while edge >= 0:
                other = np.int64(edges[edge, ENDS + 1])
                if cells[other, REACHED] != 0 and cells[other, _BY] == edge + 1:
                    cells[other, REACHED] = 0
                    lists[counts[_LOST], _LOST] = other
                    counts[_LOST] += 1
                edge = np.int64(edges[edge, LINKS]) - 1


_PATHS = "int32[:, ::1], int32[:, ::1], int64[::1], {0}[::1], int32[:, ::1], int32[:, ::1]"
_FIND = f"int64({_PATHS}, {{0}}[::1], {{0}}[::1], int64, int64[::1])"


@kernel(_FIND.format("int64"), _FIND.format("float64"))
def find_paths(cells, lists, counts, distances, edges, heads, weights, limit, first, ids):  # type: ignore[no-untyped-def]
    """Find the shortest paths from vertex `first`, -1 for none, to the vertices that were lost and along the edges that came,
    `ids`. `weights` are those of the edges by slot, or there are none, and each is 1. `limit` has the largest distance, 0 and 1.
    Returns 1 where a distance is larger."""
    has_weights = len(weights) > 0
    zero, one = limit[1], limit[2]
    if first >= 0 and cells[first, REACHED] == 0:
        _reach(cells, lists, counts, distances, first, np.int64(-1), zero, np.int64(0))
    for i in range(counts[_LOST]):
        vertex = np.int64(lists[i, _LOST])
        edge = np.int64(heads[vertex, FIRSTS + 1]) - 1
        while edge >= 0:
            other = np.int64(edges[edge, ENDS])
            if cells[other, REACHED] != 0:
                weight = weights[edge] if has_weights else one
                if distances[other] > limit[0] - weight:
                    return 1
                hops = np.int64(cells[other, REACHED])
                _reach(cells, lists, counts, distances, vertex, edge, distances[other] + weight, hops)
            edge = np.int64(edges[edge, LINKS + 2]) - 1
    counts[_LOST] = 0
    for i in range(len(ids)):
        other = np.int64(edges[ids[i], ENDS])
        if cells[other, REACHED] != 0:
            weight = weights[ids[i]] if has_weights else one
            if distances[other] > limit[0] - weight:
                return 1
            hops = np.int64(cells[other, REACHED])
            vertex = np.int64(edges[ids[i], ENDS + 1])
            _reach(cells, lists, counts, distances, vertex, ids[i], distances[other] + weight, hops)
    while counts[_HEAP] > 0:
        vertex = _nearest(cells, lists, counts, distances)
        edge = np.int64(heads[vertex, FIRSTS]) - 1
        while edge >= 0:
            weight = weights[edge] if has_weights else one
            if distances[vertex] > limit[0] - weight:
                return 1
            other = np.int64(edges[edge, ENDS + 1])
            hops = np.int64(cells[vertex, REACHED])
            _reach(cells, lists, counts, distances, other, edge, distances[vertex] + weight, hops)
            edge = np.int64(edges[edge, LINKS]) - 1
    return 0


# Triangles. An edge that comes or goes makes or breaks one with each vertex that both of its ends have as a neighbour.

# Columns of `cells`, int32[v, TRIANGLE_WIDTH]: whether the vertex is in `touched`, and whether it is a neighbour of the first end
# of the edge whose turn it is.
IS_COUNTED, _NEIGHBOUR = 0, 1
TRIANGLE_WIDTH = 2


@inlined
def _count(cells, totals, touched, counts, vertex, change):  # type: ignore[no-untyped-def]
    totals[vertex] += change
    if cells[vertex, IS_COUNTED] == 0:
        cells[vertex, IS_COUNTED] = 1
        touched[counts[0]] = vertex
        counts[0] += 1


@inlined
def _mark_neighbours(cells, edges, heads, vertex, mark):  # type: ignore[no-untyped-def]
    for end in range(2):
        edge = np.int64(heads[vertex, FIRSTS + end]) - 1
        while edge >= 0:
            cells[edges[edge, ENDS + 1 - end], _NEIGHBOUR] = mark
            edge = np.int64(edges[edge, LINKS + 2 * end]) - 1


@kernel(
    "void(int32[:, ::1], int64[::1], int64[::1], int64[::1], int32[:, ::1], int32[:, ::1], int64[::1], int64)"
)
def count_triangles(cells, totals, touched, counts, edges, heads, ids, change):  # type: ignore[no-untyped-def]
    """Put edges, whose ends are known, into their chains and add 1 (`change`) to the number of triangles of each vertex of each
    triangle that they complete; or take them out (-1). `touched` gets the vertices, and `counts` their number."""
    for i in range(len(ids)):
        edge = ids[i]
        one, other = np.int64(edges[edge, ENDS]), np.int64(edges[edge, ENDS + 1])
        if change < 0:
            _unlink_edge(edges, heads, edge)
        if one != other:
            _mark_neighbours(cells, edges, heads, one, 1)
            cells[one, _NEIGHBOUR] = 0
            for end in range(2):
                at = np.int64(heads[other, FIRSTS + end]) - 1
                while at >= 0:
                    third = np.int64(edges[at, ENDS + 1 - end])
                    if cells[third, _NEIGHBOUR] != 0 and third != other:
                        _count(cells, totals, touched, counts, third, change)
                        _count(cells, totals, touched, counts, one, change)
                        _count(cells, totals, touched, counts, other, change)
                    at = np.int64(edges[at, LINKS + 2 * end]) - 1
            _mark_neighbours(cells, edges, heads, one, 0)
        if change > 0:
            _link_edge(edges, heads, edge, one, other)
        _count(cells, totals, touched, counts, one, np.int64(0))
        _count(cells, totals, touched, counts, other, np.int64(0))


# Values by rounds. Those of a round follow from those of the round before, at the neighbours. A change of edges has the values of
# some vertices computed anew in each round, and those of vertices behind them as far as a value is another one.

# Columns of `cells` and `lists`, int32[v, ROUND_WIDTH], and positions in `counts`, int64[4]: vertices that are computed anew in
# each round, those of this round, those whose value of the last round is another one, and those that were touched. `cells` says
# which are in a list.
_DIRTY, _WORK, _SPREAD, ROUND_TOUCHED = 0, 1, 2, 3
ROUND_WIDTH = 4


@inlined
def _note(cells, lists, counts, column, vertex):  # type: ignore[no-untyped-def]
    if cells[vertex, column] == 0:
        cells[vertex, column] = 1
        lists[counts[column], column] = vertex
        counts[column] += 1


_ROUNDS = "int32[:, ::1], int32[:, ::1], int64[::1], int64[:, ::1], int32[:, ::1], int32[:, ::1]"


@kernel(f"void({_ROUNDS}, int64[::1], int64)")
def note_edges(cells, lists, counts, values, edges, heads, ids, first):  # type: ignore[no-untyped-def]
    """Have the vertices be computed anew whose neighbours are others since edges came or went. Their values before all rounds are
    `first`, and an edge then counts at those that its source leads to; with -1 each has its own, and edges have no direction."""
    for i in range(len(ids)):
        for end in range(2):
            vertex = np.int64(edges[ids[i], ENDS + end])
            values[vertex, 0] = vertex if first < 0 else first
            _note(cells, lists, counts, _DIRTY, vertex)
        if first >= 0:
            edge = np.int64(heads[edges[ids[i], ENDS], FIRSTS]) - 1
            while edge >= 0:
                _note(cells, lists, counts, _DIRTY, np.int64(edges[edge, ENDS + 1]))
                edge = np.int64(edges[edge, LINKS]) - 1


@inlined
def _begin_round(cells, lists, counts, edges, heads, ends):  # type: ignore[no-untyped-def]
    """List the vertices that are computed in a round: `ends` is 1 where values go along edges, 2 where also against them and to
    the vertex itself."""
    counts[_WORK] = 0
    for i in range(counts[_DIRTY]):
        _note(cells, lists, counts, _WORK, lists[i, _DIRTY])
    for i in range(counts[_SPREAD]):
        if ends == 2:
            _note(cells, lists, counts, _WORK, lists[i, _SPREAD])
        for end in range(ends):
            edge = np.int64(heads[lists[i, _SPREAD], FIRSTS + end]) - 1
            while edge >= 0:
                _note(cells, lists, counts, _WORK, edges[edge, ENDS + 1 - end])
                edge = np.int64(edges[edge, LINKS + 2 * end]) - 1
    counts[_SPREAD] = 0


@inlined
def _set_value(cells, lists, counts, values, vertex, number, value):  # type: ignore[no-untyped-def]
    cells[vertex, _WORK] = 0
    if values[vertex, number] != value:
        values[vertex, number] = value
        lists[counts[_SPREAD], _SPREAD] = vertex
        counts[_SPREAD] += 1
        if number == values.shape[1] - 1:
            _note(cells, lists, counts, ROUND_TOUCHED, vertex)


@inlined
def _end_rounds(cells, lists, counts):  # type: ignore[no-untyped-def]
    """A vertex that is new may have the slot and the values of one that was."""
    counts[_SPREAD] = 0
    for i in range(counts[_DIRTY]):
        vertex = lists[i, _DIRTY]
        cells[vertex, _DIRTY] = 0
        _note(cells, lists, counts, ROUND_TOUCHED, vertex)
    counts[_DIRTY] = 0


@kernel(f"void({_ROUNDS}, float64[::1], int64)")
def rank_rounds(cells, lists, counts, values, edges, heads, damping, least):  # type: ignore[no-untyped-def]
    """The rank of a vertex is `least` and `damping[0]` of what others give it, each the same part of its own to every vertex that
    it leads to. Whole numbers: a sum of such is the same in any order."""
    for number in range(1, values.shape[1]):
        _begin_round(cells, lists, counts, edges, heads, 1)
        for i in range(counts[_WORK]):
            vertex = np.int64(lists[i, _WORK])
            given = np.int64(0)
            edge = np.int64(heads[vertex, FIRSTS + 1]) - 1
            while edge >= 0:
                other = np.int64(edges[edge, ENDS])
                given += values[other, number - 1] // np.int64(heads[other, DEGREES])
                edge = np.int64(edges[edge, LINKS + 2]) - 1
            rank = least + np.int64(np.float64(given) * damping[0])
            _set_value(cells, lists, counts, values, vertex, number, rank)
    _end_rounds(cells, lists, counts)


@kernel(f"void({_ROUNDS}, int32[::1], uint64[:, ::1], uint8[::1], int64[::1])")
def label_rounds(cells, lists, counts, values, edges, heads, votes, keys, arena, order):  # type: ignore[no-untyped-def]
    """The label of a vertex is the one that most of its neighbours and itself have, of several the least. `votes` are 0 before
    and behind."""
    for number in range(1, values.shape[1]):
        _begin_round(cells, lists, counts, edges, heads, 2)
        for i in range(counts[_WORK]):
            vertex = np.int64(lists[i, _WORK])
            best = values[vertex, number - 1]
            votes[best] += 1
            for end in range(2):
                edge = np.int64(heads[vertex, FIRSTS + end]) - 1
                while edge >= 0:
                    other = np.int64(edges[edge, ENDS + 1 - end])
                    if other != vertex:
                        votes[values[other, number - 1]] += 1
                    edge = np.int64(edges[edge, LINKS + 2 * end]) - 1
            most = votes[best]
            for end in range(2):
                edge = np.int64(heads[vertex, FIRSTS + end]) - 1
                while edge >= 0:
                    label = values[edges[edge, ENDS + 1 - end], number - 1]
                    if votes[label] > most or (
                        votes[label] == most and _is_less(keys, arena, order, label, best)
                    ):
                        best, most = label, votes[label]
                    edge = np.int64(edges[edge, LINKS + 2 * end]) - 1
            for end in range(2):
                edge = np.int64(heads[vertex, FIRSTS + end]) - 1
                while edge >= 0:
                    votes[values[edges[edge, ENDS + 1 - end], number - 1]] = 0
                    edge = np.int64(edges[edge, LINKS + 2 * end]) - 1
            votes[values[vertex, number - 1]] = 0
            _set_value(cells, lists, counts, values, vertex, number, best)
    _end_rounds(cells, lists, counts)
