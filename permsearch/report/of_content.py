"""The page that suits what a command wrote as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from permsearch.errors import FileError
from permsearch.io.manifest import FORMAT
from permsearch.report.bundle import render_bundle
from permsearch.report.network import render_network
from permsearch.report.page import render

_NETWORK = ("total", "proof", "groups", "layers")


def page_of(content: Mapping[str, Any], *, title: str | None = None) -> str:
    """Return the page of a report that exists as JSON, whichever command wrote it.

    Parameters
    ----------
    content
        What ``--json`` of `search`, `compare`, `permute` or `prune` wrote, parsed, or the manifest
        of a bundle.
    title
        The page's heading; None: what the content suggests.

    Raises
    ------
    FileError
        The content is none of these.
    MissingExtra
        jinja2 is not installed.

    Examples
    --------
    >>> import json
    >>> import permsearch as ps
    >>> weights = {"a": ps.instances.gaussian(16, 8, seed=0)}
    >>> told = ps.compare(weights, "2:4", solvers=["none", "deal"]).to_json()
    >>> page_of(json.loads(told)).startswith("<!DOCTYPE html>")
    True
    """
    if content.get("format") == FORMAT:
        return render_bundle(content, **_titled(title))
    if content.keys() >= set(_NETWORK):
        return render_network(content, **_titled(title))
    if content.keys() >= {"about", "rows"}:
        about = {**content["about"]}
        if "complete" in content:
            about["complete"] = content["complete"]
        skipped, summary = content.get("skipped", ()), content.get("summary")
        return render(content["rows"], about=about, skipped=skipped, summary=summary, title=title)
    raise FileError(
        f"a report of search, compare, permute or prune, or the manifest of a bundle is needed; "
        "this has "
        f"{', '.join(map(repr, list(content)[:8])) or 'nothing'}."
    )


def _titled(title: str | None) -> dict[str, str]:
    return {} if title is None else {"title": title}
