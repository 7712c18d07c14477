"""A network in words and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from permsearch.errors import MissingExtra
from pruning.network import Group, Network

if TYPE_CHECKING:
    import networkx as nx


def summary(network: Network) -> str:
    """Return a page of text: every group with its members, every pin with its reasons."""
    return "\n".join(_lines(network))


def _lines(network: Network) -> Iterator[str]:
    yield str(network)
    for group in network.groups:
        yield f"  {group}"
        yield from (f"    {member}" for member in group.members)
    for pin in network.pins:
        yield f"  {pin}"
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
