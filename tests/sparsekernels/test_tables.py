"""Tables of the kernel bench go between their markers, and only what was measured is renewed."""

from __future__ import annotations

from typing import Any

from benchmarks import kernel_tables

PAGE = "\n".join(f"<!-- {name} -->\nold\n<!-- end -->" for name in kernel_tables.TABLES)


def rows() -> dict[str, Any]:
    """Return one small measurement of every part."""
    base = {"pattern": "2:4", "shape": "8x8", "dtype": "float32", "kernel": "cpu"}
    times = {"dense_ms": 2.0, "sparse_ms": 1.0, "speedup": 2.0}
    return {
        "kernel machine": {"threads": 2},
        "kernels linear": [
            {**base, "tokens": tokens, "speedup": speedup}
            for tokens, speedup in ((1, 1.5), (16, 1.25), (128, 3.0))
        ],
        "kernels unpacking": [{**base, **times, "tokens": 1, "unpack_and_dense_ms": 3.0}],
        "kernels convolutions": [{**base, **times, "input": "1x8x3x3"}],
        "kernels encoder": [
            {**times, "packed": "all", "layers": 6, "batch": "1x1", "difference": 1e-8}
        ],
    }


def test_every_table_is_renewed() -> None:
    """A full run renews all of them, and the summary has the range of the others."""
    page = kernel_tables.render(PAGE, rows())
    assert "old" not in page
    assert "| linear, float32, `2:4` | 1.25x to 1.50x | 3.00x |" in page


def test_a_part_renews_its_own_table() -> None:
    """What was not measured stays, the summary as well."""
    page = kernel_tables.render(PAGE, {"kernels linear": rows()["kernels linear"]})
    assert page.count("old") == len(kernel_tables.TABLES) - 1
    assert "1.50x" in page
