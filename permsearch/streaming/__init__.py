"""Searching N:M orders of stacks that do not fit into memory: rows in, one order out.

Scores are read chunk by chunk (`rows`), kept as bytes in blocks of rows, in memory or in a scratch
file (`levels`), searched by kernels that add up over the blocks (`tables`, `search`), and the
order is valued in float64 in a last pass over the chunks (`stream`).
"""
