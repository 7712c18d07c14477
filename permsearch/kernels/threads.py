"""Running one serial kernel over blocks of rows on several cores, with the same bits as on one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

# Below this many element operations starting threads costs more than it saves.
_WORTH_SPLITTING = 1 << 28


def over_row_blocks(
    kernel: Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], None],
    left: NDArray[Any],
    right: NDArray[Any],
    out: NDArray[Any],
) -> None:
    """Call ``kernel(left, right, out)``, split over rows of ``left`` when the work is large.

    The kernel must release the GIL and compute every row of ``out`` on its own, in an order that
    does not depend on the other rows: then the split cannot change a bit of the result. The number
    of threads is numba's (``NUMBA_NUM_THREADS``, ``numba.set_num_threads``).
    """
    threads = min(numba.get_num_threads(), left.shape[0])
    work = left.shape[0] * right.shape[0] * right.shape[1]
    if threads == 1 or work < _WORTH_SPLITTING:
        kernel(left, right, out)
        return
    cuts = [left.shape[0] * k // threads for k in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        parts = [pool.submit(kernel, left[a:b], right, out[a:b]) for a, b in pairwise(cuts)]
        for part in parts:
            part.result()
