"""What a group needs from the column that fills a hole in it, for any N:M, in float32 or bytes.

Take the column at one place out of its group. Per row let x be the sum of the n - 1 largest of
the other m - 1 values and y the n-th largest. With column c in the hole the group keeps
``x + max(y, c)``. One insertion network over whole columns gives one hole; all m holes of a group
follow from two order statistics: with t the n-th and u the (n + 1)-th largest of all m values and
s the sum of the n largest, the hole of value v has

    y = u where v >= t, else t        and        x = s - max(v, t).
"""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True, fastmath=True)
def _median(a, b, c, out):
    """Fill ``out`` with the middle one of three values: the hole of 2:4."""
    for r in range(out.shape[0]):
        x, y, z = a[r], b[r], c[r]
        high = x if x > y else y
        low = x if x < y else y
        mid = high if high < z else z
        out[r] = low if low > mid else mid


@njit(cache=True, nogil=True, fastmath=True)
def insert_high(levels, used, carry):
    """Insert ``carry`` into the first ``used`` rows, sorted downwards; what drops out is left."""
    for j in range(used):
        level = levels[j]
        for r in range(carry.shape[0]):
            x, y = level[r], carry[r]
            level[r] = x if x > y else y
            carry[r] = x if x < y else y


@njit(cache=True, nogil=True, fastmath=True)
def _insert_low(levels, used, carry):
    """Insert ``carry`` into the first ``used`` rows, sorted upwards; what drops out is left."""
    for j in range(used):
        level = levels[j]
        for r in range(carry.shape[0]):
            x, y = level[r], carry[r]
            level[r] = x if x < y else y
            carry[r] = x if x > y else y


@njit(cache=True, nogil=True)
def _nth(columns, rest, n, levels, carry, y):
    """Fill ``y`` with the n-th largest of the columns ``rest``, counted from the nearer end."""
    k = rest.shape[0]
    high = 2 * n <= k + 1
    keep = n if high else k - n + 1
    for i in range(k):
        if i < keep:
            levels[i, :] = columns[rest[i]]
            carry[:] = levels[i]
        else:
            carry[:] = columns[rest[i]]
        used = min(i, keep)
        if high:
            insert_high(levels, used, carry)
        else:
            _insert_low(levels, used, carry)
        if i < keep:
            levels[i, :] = carry
    y[:] = levels[keep - 1]


@njit(cache=True, nogil=True)
def fill_hole(columns, rest, n, levels, carry, y):
    """Fill ``y`` with the n-th largest per row of the m - 1 columns listed in ``rest``.

    ``levels`` (at least (m + 1) // 2 rows) and ``carry`` are scratch of the columns' type.
    """
    k = rest.shape[0]
    if k == 1:
        y[:] = columns[rest[0]]
    elif k == 3 and n == 2:
        _median(columns[rest[0]], columns[rest[1]], columns[rest[2]], y)
    else:
        _nth(columns, rest, n, levels, carry, y)


@njit(cache=True, nogil=True, fastmath=True)
def _total(values):
    s = values[0] * 0  # float64 for floats, int64 for bytes
    for r in range(values.shape[0]):
        s += values[r]
    return s


@njit(cache=True, nogil=True)
def two_levels(columns, members, n, levels, carry):
    """Sort the n + 1 largest of a group into ``levels``; return the sum of the n largest.

    Afterwards ``levels[n - 1]`` and ``levels[n]`` are t and u of the module's text.
    """
    m = members.shape[0]
    levels[: n + 1, :] = 0
    for i in range(m):
        carry[:] = columns[members[i]]
        insert_high(levels, min(i + 1, n + 1), carry)
    s = _total(levels[0])
    for j in range(1, n):
        s += _total(levels[j])
    return s


@njit(cache=True, nogil=True, fastmath=True)
def pick_level(column, t, u, y):
    """Fill ``y`` for the hole that ``column`` leaves, without the sum above it."""
    for r in range(y.shape[0]):
        y[r] = u[r] if column[r] >= t[r] else t[r]


@njit(cache=True, nogil=True, fastmath=True)
def _middle(a, b, c, d, t, u):
    """Fill ``t`` and ``u`` with the second and third largest of four values."""
    for r in range(t.shape[0]):
        w, x, y, z = a[r], b[r], c[r], d[r]
        high = w if w > x else x
        low = w if w < x else x
        high2 = y if y > z else z
        low2 = y if y < z else z
        p = high if high < high2 else high2
        q = low if low > low2 else low2
        t[r] = p if p > q else q
        u[r] = p if p < q else q


@njit(cache=True, nogil=True)
def fill_levels(columns, members, n, levels, carry, t, u):
    """Fill ``t`` and ``u`` with the n-th and the (n + 1)-th largest of a group's columns.

    ``levels`` (n + 1 rows) and ``carry`` are scratch of the columns' type.
    """
    if members.shape[0] == 4 and n == 2:
        i, j, k, h = members[0], members[1], members[2], members[3]
        _middle(columns[i], columns[j], columns[k], columns[h], t, u)
    else:
        two_levels(columns, members, n, levels, carry)
        t[:] = levels[n - 1]
        u[:] = levels[n]


@njit(cache=True, nogil=True, fastmath=True)
def hole_from_levels(column, t, u, y):
    """Fill ``y`` for the hole that ``column`` leaves; return the sum of max(column, t).

    The sum of x over the rows is the group's value less what is returned.
    """
    s = column[0] * 0
    for r in range(y.shape[0]):
        v, w = column[r], t[r]
        y[r] = u[r] if v >= w else w
        s += v if v > w else w
    return s
