"""The HTML report: one file, no outside resource, names escaped, numbers drawn to scale."""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import permsearch as ps
from permsearch.errors import MissingExtra
from permsearch.report import render
from permsearch.report.bars import MOST_LAYERS, WIDTH, layer_bars
from permsearch.report.scatter import scatter
from permsearch.report.text import DASH, clean, percent, points, seconds, share, times
from permsearch.rows import COLUMNS

EVIL = '<script>alert("x")</script>&"\'.weight'
VOID = {"meta", "br", "input", "wbr", "rect", "line", "circle", "path"}


def row(tensor: str, solver: str, gain: float, time: float = 0.1, size: int = 8) -> dict[str, Any]:
    """Return a made-up row."""
    values: Mapping[str, Any] = {
        "tensor": tensor,
        "rows": size,
        "cols": size,
        "pattern": "2:4",
        "solver": solver,
        "retained": 0.75 + gain,
        "baseline": 0.75,
        "bound": 0.8,
        "bound_kind": "row",
        "efficacy": 20 * gain,
        "gap": 0.05,
        "seconds": time,
        "cpu_seconds": time,
        "steps": 1234,
        "status": "stopped",
        "total": 2.0,
    }
    return {key: values.get(key) for key in COLUMNS}


class Checker(HTMLParser):
    """Checks that tags nest, and collects what a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.append(tag)
        self.links += [str(v) for k, v in attrs if k in {"src", "href", "srcset", "data"}]
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close a tag, which must be the last one opened."""
        if tag not in VOID:
            assert self.stack.pop() == tag


def checked(page: str) -> Checker:
    """Return a page's checker after reading it all."""
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.stack == []
    return checker


def page_of(*rows: dict[str, Any], **about: Any) -> str:
    """Return the page for rows."""
    return render(rows, about={"pattern": "2:4", **about})


def test_the_page_needs_nothing_else() -> None:
    """The page is well formed and names no outside resource at all."""
    page = page_of(row("a", "none", 0.0), row("a", "auto", 0.01), command="permsearch compare x")
    checker = checked(page)
    assert checker.links == []
    assert not re.search(r"https?://|@import|url\(", page)
    assert checker.tags.count("svg") == 3  # the scatter, and two drawings of one layer
    assert "permsearch compare x" in page


def test_names_are_escaped() -> None:
    """A tensor's name is text, whatever is in it."""
    skipped = [{"tensor": EVIL, "reason": EVIL}]
    page = render(
        [row(EVIL, "auto", 0.01)], about={"pattern": "2:4", "note": EVIL}, skipped=skipped
    )
    assert checked(page).tags.count("script") == 1
    assert "alert(" in page
    assert "<script>alert" not in page


def test_a_comparison_becomes_a_page(tmp_path: Path) -> None:
    """`to_html` writes the page that it returns, with a table row for every search."""
    tensors = {"größe/重み": ps.instances.gaussian(8, 16, seed=0), "bias": np.ones(3)}
    result = ps.compare(tensors, "2:4", solvers=["none", "random"], stop=ps.MaxSteps(10))
    page = result.to_html(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text("utf-8") == page
    body = page.split('id="all"')[1]
    assert body.count("<tr><td class") == 2
    assert "größe/<wbr>重み" in body
    assert "bias" in page
    checked(page)


@pytest.mark.parametrize("gains", [[0.0], [0.0, 0.0], [1e-9]])
def test_pages_without_gain(gains: list[float]) -> None:
    """Where nothing is gained there is nothing to draw, and still a page."""
    checked(page_of(*(row(f"t{n}", "none", gain) for n, gain in enumerate(gains))))


def test_unknown_numbers_are_dashes() -> None:
    """A bound that is not known is a dash and does not break the page."""
    unknown = {**row("a", "auto", 0.01), "steps": 0}
    checked(page_of(unknown))
    assert [f(None) for f in (share, percent, points, times, seconds)] == [DASH] * 5
    assert [f(float("nan")) for f in (share, percent, points, times, seconds)] == [DASH] * 5


def test_bars_share_one_scale() -> None:
    """The longest bar fills the drawing, and others are as long as their numbers say."""
    rows = [row("a", "x", 0.01), row("a", "y", 0.02), row("b", "x", 0.005), row("b", "y", 0.0)]
    bars = layer_bars(rows)
    widths = [bar.gain_width for layer in bars.layers for bar in layer.bars]
    assert widths == pytest.approx([WIDTH / 2, WIDTH, WIDTH / 4, 0])


def test_many_layers_are_cut_to_the_largest() -> None:
    """Beyond a limit the largest layers are drawn, in the file's order, and the page says so."""
    rows = [row(f"t{n}", "auto", 0.01, size=n + 1) for n in range(MOST_LAYERS + 5)]
    bars = layer_bars(rows)
    assert [layer.tensor for layer in bars.layers] == [f"t{n}" for n in range(5, MOST_LAYERS + 5)]
    assert f"{MOST_LAYERS} largest of {MOST_LAYERS + 5} tensors" in " ".join(page_of(*rows).split())


@pytest.mark.parametrize("times_", [[0.0], [1e-3, 1e3], [0.1, 0.11], [1.0], [1e-5, 2.0, 5.0]])
def test_the_scatter_holds_every_point(times_: list[float]) -> None:
    """Every point lies between the axes, whatever the times, and axes have ticks."""
    picture = scatter([row("a", f"s{n}", 0.01 * (n + 1), t) for n, t in enumerate(times_)])
    assert picture is not None
    for point in picture.points + picture.middles:
        assert picture.left - 1e-6 <= point.x <= picture.right + 1e-6
        assert picture.top - 1e-6 <= point.y <= picture.bottom + 1e-6
    assert 2 <= len(picture.x_ticks) <= 14
    assert 2 <= len(picture.y_ticks) <= 7
    assert [tick.at for tick in picture.x_ticks] == sorted(tick.at for tick in picture.x_ticks)


def test_labels_do_not_cover_each_other() -> None:
    """Solvers with the same time and quality have their names on lines of their own."""
    picture = scatter([row("a", f"s{n}", 0.01) for n in range(5)])
    assert picture is not None
    heights = sorted(label.y for label in picture.labels)
    assert min(np.diff(heights)) >= 14


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0 ms"),
        (0.0042, "4.2 ms"),
        (0.153, "153 ms"),
        (0.9999, "1.00 s"),
        (9.5, "9.50 s"),
        (61.2, "61.2 s"),
        (150, "2 min 30 s"),
        (7500, "2 h 05 min"),
    ],
)
def test_durations_read_well(value: float, text: str) -> None:
    """Durations have the unit that suits them."""
    assert seconds(value) == text


def test_control_characters_are_spelt_out() -> None:
    """A name cannot move a terminal's cursor."""
    assert clean("a\x1b[2Jb\n") == r"a\x1b[2Jb\n"
    assert clean("größe/重み") == "größe/重み"


def test_a_missing_jinja2_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without jinja2 the error says what to install."""
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("jinja2"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"permsearch\[report\]"):
        page_of(row("a", "auto", 0.01))


def test_the_head_is_worded_for_people() -> None:
    """Whether a run came to its end is said in words."""
    rows = [row("a", "auto", 0.1)]
    for complete, words in ((True, "to its end"), (False, "interrupted before its end")):
        page = render(rows, about={"pattern": "2:4", "complete": complete})
        assert words in page
        assert str(complete) not in page


def test_narrow_pages_name_every_number() -> None:
    """Where tables become cards, every cell but the first brings the word of its heading."""
    page = render([row("a", "auto", 0.1)], about={"pattern": "2:4"})
    for body in re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL):
        first, *cells = re.findall(r"<td([^>]*)>", body)
        assert "data-l" not in first
        assert all("data-l=" in cell for cell in cells)
