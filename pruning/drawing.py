"""A network in words and pictures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from permsearch.errors import MissingExtra
from pruning.network import Group, Network

if TYPE_CHECKING:
    import networkx as nx


ALIKE = 3  # so many that differ in numbers of layers alone are still told one by one
_NUMBER = re.compile(r"(?<!\w)\d+(?=(?:\.\d+)*\.[A-Za-z_])")


def summary(network: Network, *, every: bool = False, matter: Collection[str] | None = None) -> str:
    """Return a page of text: groups with their members, pins with their reasons.

    Parameters
    ----------
    every
        Whether those that differ in numbers of layers alone are told one by one.
    matter
        The groups that a pattern is sensitive to, if there is one; others are marked.
    """
    return "\n".join(_lines(network, every=every, matter=matter))


def folded(texts: Iterable[str], *, every: bool = False) -> Iterator[str]:
    """Yield texts; of more than three that differ in numbers of layers alone, the first."""
    texts = list(texts)
    counts = Counter(_NUMBER.sub("*", text) for text in texts)
    done = set()
    for text in texts:
        key = _NUMBER.sub("*", text)
        if every or counts[key] <= ALIKE:
            yield text
        elif key not in done:
            done.add(key)
            first, *rest = text.split("\n")
            more = f"{first} (and {counts[key] - 1} more like it, of other layers)"
            yield "\n".join([more, *rest])


def _lines(network: Network, *, every: bool, matter: Collection[str] | None) -> Iterator[str]:
    yield str(network)
    groups = []
    for group in network.groups:
        idle = matter is not None and group.name not in matter
        mark = ", no effect on this pattern" if idle else ""
        members = [f"    {member}" for member in group.members]
        groups.append("\n".join([f"  {group}{mark}", *members]))
    yield from folded(groups, every=every)
    yield from folded((f"  {pin}" for pin in network.pins), every=every)
    for alias, name in network.aliases.items():
        yield f"  {alias} is {name}"
    for name in network.unread:
        yield f"  {name} was not read by the captured run"
    for reason in network.unknown.values():
        yield f"  {reason}"


def graph(network: Network) -> nx.MultiGraph[str]:
    """Return groups and tensors as a networkx graph, an edge for each member."""
    import networkx as nx

    found: nx.MultiGraph[str] = nx.MultiGraph()
    for group in network.groups:
        found.add_node(
            group.name, kind="group", size=group.size, blocks=group.blocks, form=group.kind
        )
        for member in group.members:
            found.add_node(f"tensor {member.tensor}", kind="tensor")
            found.add_edge(
                group.name,
                f"tensor {member.tensor}",
                role=member.role,
                dim=member.dim,
                block=member.block,
            )
    return found


COLOURS = {"reads": "#3b6ea8", "writes": "#b3472c", "follows": "#999999"}


def draw(network: Network, path: str | Path) -> None:
    """Draw groups on the left and tensors on the right, an edge for each member.

    Raises
    ------
    MissingExtra
        Without matplotlib.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("drawing needs matplotlib: pip install 'permsearch[plot]'.") from error
    tensors = list(dict.fromkeys(m.tensor for group in network.groups for m in group.members))
    height = max(len(tensors), 2 * len(network.groups), 4)
    figure = Figure(figsize=(11, 0.24 * height + 1), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_title(str(network), fontsize=9)
    places = {name: -at * height / max(len(tensors), 1) for at, name in enumerate(tensors)}
    for at, group in enumerate(network.groups):
        y = -(at + 0.5) * height / max(len(network.groups), 1)
        axes.text(0, y, _label(group), ha="right", va="center", fontsize=7)
        for member in group.members:
            colour = COLOURS[member.role]
            axes.plot([0.02, 0.98], [y, places[member.tensor]], color=colour, linewidth=0.7)
    for name, y in places.items():
        axes.text(1, y, name, ha="left", va="center", fontsize=7)
    for role, colour in COLOURS.items():
        axes.plot([], [], color=colour, label=role)
    axes.legend(loc="lower center", ncols=3, fontsize=7, frameon=False)
    axes.set_xlim(-0.7, 1.9)
    # Text stays text, and the same network gives the same file.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "permsearch"}):
        figure.savefig(path, metadata={"Date": None} if str(path).endswith(".svg") else None)


def _label(group: Group) -> str:
    blocks = f" x {group.blocks}" if group.blocks > 1 else ""
    return f"{group.name}   {group.size}{blocks}"
