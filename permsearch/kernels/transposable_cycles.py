"""The network of a transposable block: arcs between its columns, paths and cycles that gain.

The arc j -> h is worth the most that any row gains by giving up column j for column h. Tables are
``give`` (a row's loss by giving up a kept column, else BIG) and ``take`` (its gain by taking a free
one, else -BIG), both (row, column), and ``gain`` (from column, to column).
"""

from __future__ import annotations

from numba import njit

BIG = 1e300


@njit(cache=True, nogil=True, fastmath=True)
def from_column(give, take, j, gain):
    """Work out the arcs that leave column j."""
    line = gain[j]
    for h in range(line.shape[0]):
        line[h] = -BIG
    for i in range(give.shape[0]):
        loss = give[i, j]
        if loss < BIG:
            row = take[i]
            for h in range(line.shape[0]):
                x = row[h] - loss
                line[h] = x if x > line[h] else line[h]


@njit(cache=True, nogil=True, fastmath=True)
def _into_column(give, take, h, gain, line):
    """Work out the arcs that enter column h."""
    for j in range(line.shape[0]):
        line[j] = -BIG
    for i in range(give.shape[0]):
        won = take[i, h]
        if won > -BIG:
            row = give[i]
            for j in range(line.shape[0]):
                x = won - row[j]
                line[j] = x if x > line[j] else line[j]
    for j in range(line.shape[0]):
        gain[j, h] = line[j]


@njit(cache=True, nogil=True)
def _row_of(give, take, j, h):
    """Return the row that the arc j -> h stands for."""
    best = -BIG
    at = 0
    for i in range(give.shape[0]):
        x = take[i, h] - give[i, j]
        if x > best:
            best = x
            at = i
    return at


@njit(cache=True, nogil=True)
def _relax(gain, least, reach, before, active):
    """Lengthen walks by one arc from every active column; return whether any got better."""
    m = reach.shape[0]
    moved = False
    for j in range(m):
        if active[j] == 0:
            continue
        active[j] = 0
        here = reach[j] - least
        line = gain[j]
        any_better = 0
        for h in range(m):
            x = here + line[h]
            better = x > reach[h]
            any_better |= better
            reach[h] = x + least if better else reach[h]
            before[h] = j if better else before[h]
            active[h] = 1 if better else active[h]
        if any_better:
            moved = True
    return moved


@njit(cache=True, nogil=True)
def _cycle(before, seen):
    """Return a column on a cycle of the pointers, -1 where there is none."""
    m = before.shape[0]
    seen[:] = -1
    for s in range(m):
        w = s
        while w >= 0 and seen[w] < 0:
            seen[w] = s
            w = before[w]
        if w >= 0 and seen[w] == s:
            return w
    return -1


@njit(cache=True, nogil=True)
def positive_cycle(gain, least, work):
    """Return a column on a cycle of pointers that gains, -1 where none gains."""
    reach, before, active, seen = work
    reach[:] = 0.0
    before[:] = -1
    active[:] = 1
    for _ in range(4 * reach.shape[0]):
        if not _relax(gain, least, reach, before, active):
            return -1
        at = _cycle(before, seen)
        if at >= 0:
            return at
    return -1


@njit(cache=True, nogil=True)
def _exchange(block, i, j, h, kept, give, take):
    """Let row i give up column j for column h."""
    kept[i, j] = False
    take[i, j] = block[i, j]
    give[i, j] = BIG
    kept[i, h] = True
    give[i, h] = block[i, h]
    take[i, h] = -BIG


@njit(cache=True, nogil=True)
def walk_back(block, start, stop, kept, tables, before, moves):
    """Carry out the exchanges along the pointers back from `start`; return their number.

    All rows are looked up before any of them changes.
    """
    give, take, gain, line = tables
    count = 0
    h = start
    while before[h] >= 0:
        j = before[h]
        moves[count, 0] = _row_of(give, take, j, h)
        moves[count, 1] = j
        moves[count, 2] = h
        count += 1
        h = j
        if h == stop:
            break
    for k in range(count):
        _exchange(block, moves[k, 0], moves[k, 1], moves[k, 2], kept, give, take)
    for k in range(count):
        from_column(give, take, moves[k, 1], gain)
        from_column(give, take, moves[k, 2], gain)
        _into_column(give, take, moves[k, 1], gain, line)
        _into_column(give, take, moves[k, 2], gain, line)
    return count


@njit(cache=True, nogil=True)
def _best_paths(take, gain, s, reach, before, active):
    """Find the best simple paths from row s: columns leave in falling order, as Dijkstra's do."""
    m = reach.shape[0]
    for j in range(m):
        reach[j] = take[s, j]
        before[j] = -1
        active[j] = 1
    for _ in range(m):
        u = -1
        for j in range(m):
            if active[j] and reach[j] > -BIG / 2 and (u < 0 or reach[j] > reach[u]):
                u = j
        if u < 0:
            break
        active[u] = 0
        for h in range(m):
            x = reach[u] + gain[u, h]
            if active[h] and gain[u, h] > -BIG / 2 and x > reach[h]:
                reach[h] = x
                before[h] = u


@njit(cache=True, nogil=True)
def fill_rows(block, n, kept, rows, cols, tables, work, moves):
    """Complete rows along best simple paths; cycles that gain may still be there."""
    give, take, gain, line = tables
    reach, before = work[0], work[1]
    m = block.shape[0]
    for s in range(m):
        while rows[s] < n:
            _best_paths(take, gain, s, reach, before, work[2])
            end = -1
            for j in range(m):
                if cols[j] < n and reach[j] > -BIG / 2 and (end < 0 or reach[j] > reach[end]):
                    end = j
            first = end
            while before[first] >= 0:
                first = before[first]
            walk_back(block, end, -1, kept, tables, before, moves)
            kept[s, first] = True
            give[s, first] = block[s, first]
            take[s, first] = -BIG
            from_column(give, take, first, gain)
            _into_column(give, take, first, gain, line)
            rows[s] += 1
            cols[end] += 1
