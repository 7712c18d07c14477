"""Names that patterns have elsewhere, and how they are written here."""

from __future__ import annotations

import re

_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
# How names begin, by their letters alone; the form here, and its numbers where none are given.
_FORMS = (
    (("shflbw", "shuffledblock", "vectorwise", "cvse"), "vector:{}@{}", ("32", "0.25")),
    (("venom", "vnm"), "{}:{}:{}", ("64", "2", "8")),
    (("hinm", "gyro", "hierarchical"), "hinm:{}@{}:{}:{}", ("32", "0.5", "2", "4")),
    (("tilewise", "tw"), "tile:{}@{}", ("128", "0.25")),
    (("transpos", "bidirectional"), "transposable:{}:{}", ("2", "4")),
    (("blocksparse", "blockwise", "bsr", "bcsr", "tetris"), "block:{}x{}@{}", ("16", "16", "0.25")),
    (("unstructured",), "unstructured@{}", ("0.5",)),
    (("nm", "semistructured", "sparse", "ampere"), "{}:{}", ("2", "4")),
)


def written_here(text: str) -> str | None:
    """Return how a pattern of another name is written here, or None where nothing is known.

    Its numbers are taken where there are as many as the form has.

    Examples
    --------
    >>> written_here("shfl-bw:64@0.25"), written_here("VENOM")
    ('vector:64@0.25', '64:2:8')
    """
    letters = re.sub(r"[^a-z]", "", text.lower())
    for names, form, usual in _FORMS:
        if letters.startswith(names):
            found = _NUMBERS.findall(text)
            return form.format(*(found if len(found) == len(usual) else usual))
    percent = re.fullmatch(r"(.*@)([0-9.]+) ?%", text.strip())
    return f"{percent[1]}{float(percent[2]) / 100:g}" if percent else None
