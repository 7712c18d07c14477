"""Groups of a network as pictures: who writes its channels, who reads them, what follows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_GROUPS = 30
MOST_MEMBERS = 12  # on each side; the table of groups has all
_MEMBER = re.compile(r"(?P<tensor>.*\[\d+\]) (?P<role>reads|writes|follows)(?P<blocks>.*)")


@dataclass(frozen=True, slots=True)
class Side:
    """Members on one side, and the wires from each to the middle.

    Attributes
    ----------
    names, more
        Those that are drawn, and how many are not.
    wires
        SVG paths in a box ten wide and as high as there are lines.
    height
        Number of lines.
    """

    names: tuple[str, ...]
    more: int
    wires: tuple[str, ...]
    height: int


@dataclass(frozen=True, slots=True)
class DrawnGroup:
    """A group with its members on both sides."""

    name: str
    items: str
    writes: Side
    reads: Side
    follows: tuple[str, ...]
    row: Mapping[str, Any]


def members_by_role(members: Sequence[str]) -> dict[str, list[str]]:
    """Return the members of a group by what they do, from texts such as ``a.weight[0] writes``.

    What a text does not tell counts as following.
    """
    found: dict[str, list[str]] = {"writes": [], "reads": [], "follows": []}
    for member in members:
        match = _MEMBER.fullmatch(member)
        if match is None:
            found["follows"].append(member)
        else:
            found[match["role"]].append(match["tensor"] + match["blocks"])
    return found


def drawn_groups(rows: Sequence[Mapping[str, Any]]) -> tuple[DrawnGroup, ...]:
    """Return the groups to draw: those with the largest share of all scores, then by size."""
    heaviest = sorted(rows, key=lambda row: (-row.get("share", 0.0), -row["size"]))
    return tuple(_drawn(row) for row in heaviest[:MOST_GROUPS])


def _drawn(row: Mapping[str, Any]) -> DrawnGroup:
    roles = members_by_role(row["members"])
    blocks = f" in each of {row['blocks']}" if row["blocks"] > 1 else ""
    kind = "" if row["kind"] == "plain" else f", {row['kind']}"
    return DrawnGroup(
        row["name"],
        f"{row['size']} items{blocks}{kind}",
        _side(roles["writes"], to_right=True),
        _side(roles["reads"], to_right=False),
        tuple(roles["follows"]),
        row,
    )


def _side(names: Sequence[str], *, to_right: bool) -> Side:
    shown = tuple(names[:MOST_MEMBERS])
    more = len(names) - len(shown)
    height = max(1, len(shown) + bool(more))
    middle = height / 2
    near, far = (0, 10) if to_right else (10, 0)
    wires = tuple(
        f"M{near} {at + 0.5:g}C5 {at + 0.5:g} 5 {middle:g} {far} {middle:g}"
        for at in range(len(shown) + bool(more))
    )
    return Side(shown, more, wires, height)
