"""The reports in a real browser: no word on the console, tables sort, nothing is too wide."""

from __future__ import annotations

import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import permsearch as ps
from permsearch.report import page_of
from tests.browser import Tab, browse
from tests.report_data import bundle_content, comparison_content, network_content

PHONE, DESK = 390, 1280
PICTURE = Path(__file__).resolve().parents[2] / "docs" / "images" / "report_phone.png"
PAGES: dict[str, Callable[[], dict[str, Any]]] = {
    "comparison": comparison_content,
    "network": network_content,
    "bundle": bundle_content,
}
COLUMN = """
[...document.querySelectorAll('#all tbody tr')].map(row => row.cells[%d].textContent.trim())
"""
CLICK = "document.querySelectorAll('#all thead button')[%d].click()"
TOO_WIDE = """
[...document.querySelectorAll('body *')].filter(item => !item.closest('.scroll, .plot') &&
  item.getBoundingClientRect().right > innerWidth + 1).map(item => item.outerHTML.slice(0, 120))
"""


async def _sorted(tab: Tab) -> dict[str, list[str]]:
    """Return the first column as it is, after a click on its heading, and after another."""
    found = {"stored": await tab.run(COLUMN % 0)}
    for name in ("up", "down"):
        await tab.run(CLICK % 0)
        found[name] = await tab.run(COLUMN % 0)
    return found


async def _looked_at(tab: Tab, page: Path) -> dict[str, Any]:
    """Return all that the tests ask about a page."""
    await tab.width(DESK)
    await tab.show(page)
    found: dict[str, Any] = {"sorted": await _sorted(tab)}
    back = "getComputedStyle(document.body).backgroundColor"
    found["light"] = await tab.run(back)
    await tab.media(scheme="dark")
    found["dark"] = await tab.run(back)
    await tab.media(medium="print")
    found["print"] = await tab.run(back)
    found["filter in print"] = await tab.run(
        "getComputedStyle(document.querySelector('input[type=search]')).display"
    )
    await tab.media()
    await tab.width(PHONE)
    found["width"] = await tab.run("document.scrollingElement.scrollWidth")
    found["too wide"] = await tab.run(TOO_WIDE)
    await tab.run(
        "{const field = document.querySelector('input[data-for=all]'); field.value = 'mlp';"
        "field.dispatchEvent(new Event('input'))}"
    )
    found["filtered"] = await tab.run(
        "[...document.querySelectorAll('#all tbody tr')].filter(row => row.offsetParent).length"
    )
    found["said"] = tab.said
    return found


@pytest.fixture(scope="module", params=PAGES)
def looked_at(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what a browser tells about the page of each kind of report."""
    folder = tmp_path_factory.mktemp(request.param)
    page = folder / "report.html"
    page.write_text(page_of(PAGES[request.param]()), encoding="utf-8")

    def what(tab: Tab) -> Awaitable[dict[str, Any]]:
        return _looked_at(tab, page)

    return browse(folder / "browser", what)


def test_nothing_is_said_on_the_console(looked_at: Any) -> None:
    """No error, no warning, nothing that was to be fetched and was not."""
    assert looked_at["said"] == []


def test_a_click_sorts(looked_at: Any) -> None:
    """A click on a heading sorts by it, another one the other way round."""
    names = looked_at["sorted"]
    assert names["up"] != names["stored"] or names["down"] != names["stored"]
    assert names["up"] == sorted(names["stored"])
    assert names["down"] == sorted(names["stored"], reverse=True)


def test_it_fits_a_phone(looked_at: Any) -> None:
    """On a narrow screen nothing is wider than the page."""
    assert looked_at["width"] <= PHONE
    assert looked_at["too wide"] == []


def test_dark_light_and_paper_differ(looked_at: Any) -> None:
    """The ground is dark at night, light by day, white on paper, which has no search field."""
    assert looked_at["dark"] != looked_at["light"]
    assert looked_at["print"] == "rgb(255, 255, 255)"
    assert looked_at["filter in print"] == "none"


def test_the_filter_hides_rows(looked_at: Any) -> None:
    """A word in the field leaves the rows that have it."""
    assert 0 < looked_at["filtered"] < len(looked_at["sorted"]["stored"])


def test_the_picture_in_the_docs_is_small_and_a_phone(tmp_path: Path) -> None:
    """The screenshot on the page about comparing is of a phone's width, and not heavy."""
    assert PICTURE.stat().st_size < 120_000
    assert PICTURE.read_bytes()[16:20] == PHONE.to_bytes(4, "big")


def photograph(folder: Path, sample: Path) -> None:
    """Take that picture: ``python -m tests.permsearch.test_report_browser``."""
    compared = ps.compare(
        sample, "2:4", solvers=["none", "window", "matching", "auto"], stop=ps.MaxCpuSeconds(0.5)
    )
    page = folder / "report.html"
    content = json.loads(compared.to_json())
    content["about"] = {"pattern": "2:4", "source": sample.name, "limit": "0.5 CPU seconds"}
    page.write_text(page_of(content), encoding="utf-8")

    async def what(tab: Tab) -> None:
        await tab.width(PHONE, 1000)
        await tab.show(page)
        await tab.run("document.querySelectorAll('section')[1].scrollIntoView()")
        await tab.picture(PICTURE)

    browse(folder / "browser", what)
    shutil.rmtree(folder)


if __name__ == "__main__":
    from tempfile import mkdtemp

    photograph(
        Path(mkdtemp()), PICTURE.parents[2] / "examples" / "data" / "minilm_layer0.safetensors"
    )
