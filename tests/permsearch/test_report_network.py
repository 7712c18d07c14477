"""The pages of permuted and pruned networks, of bundles, and of whatever a command wrote."""

from __future__ import annotations

import re

import pytest

from permsearch.errors import FileError
from permsearch.report import page_of, render_bundle, render_network
from permsearch.report.drawn_groups import (
    MOST_GROUPS,
    MOST_MEMBERS,
    drawn_groups,
    members_by_role,
)
from permsearch.report.levels import MOST_LINES, WIDTH, levels
from permsearch.report.network import certified, weights
from tests.permsearch.test_report import EVIL, checked
from tests.report_data import bundle_content, comparison_content, group, network_content


def line(name: str, before: float | None, after: float, bound: float | None, weight: float = 1.0):
    """Return a row of the picture of levels."""
    numbers = {"baseline": before, "retained": after, "bound": bound}
    return {"name": name, "note": "", "weight": weight, **numbers}


def test_every_command_has_its_page() -> None:
    """Each kind of content is told apart, and its page is well formed and fetches nothing."""
    for content, word in (
        (comparison_content(), "Orders for 2:4"),
        (network_content(), "A network's orders"),
        (bundle_content(), "A bundle of masks"),
    ):
        page = page_of(content)
        assert checked(page).links == []
        assert not re.search(r"https?://|@import|url\(", page)
        assert word in page.replace("&#39;", "'")
        assert "A title" in page_of(content, title="A title")


def test_what_is_no_report_is_refused() -> None:
    """Other content is refused with the keys it has."""
    with pytest.raises(FileError, match="'weights', 'biases'"):
        page_of({"weights": 1, "biases": 2})


def test_the_network_page_tells_every_weight_and_reason() -> None:
    """Groups, weights, what is skipped, dense, gathered, pinned, unread and unknown is there."""
    page = render_network(network_content(), title="T")
    plain = page.replace("<wbr>", "")
    for word in (
        *("attention.0.weight", "mlp.1.weight", "heads.weight[0]", "norm.weight", "dense"),
        *("embedding.weight stays", "10 columns do not split", "looked-up rows", "extra.weight"),
        *("mylib::squash", "768", "12.5 %", "unchanged", "0.7620"),
    ):
        assert word in plain


def test_names_are_text_on_every_page() -> None:
    """Names of groups, members, weights and reasons are escaped."""
    content = network_content()
    content["groups"].append(group(EVIL, 4, 0.2, members=[f"{EVIL}[0] writes", EVIL]))
    content["skipped"].append({"tensor": EVIL, "reason": EVIL})
    content["pins"].append({"tensor": EVIL, "dim": 0, "size": 2, "reasons": [EVIL]})
    manifest = bundle_content()
    manifest["tensors"][EVIL] = {**manifest["tensors"]["mlp.weight"]}
    for page in (render_network(content, title=EVIL), render_bundle(manifest, title=EVIL)):
        assert checked(page).tags.count("script") == 1
        assert "<script>alert" not in page


def test_a_network_without_anything_to_search_has_a_page() -> None:
    """No group, no weight, no proof: still a page that says so."""
    content = network_content(groups=0)
    content |= {"groups": [], "pruned": [], "proof": {"unchanged": None, "reason": "no memory"}}
    page = render_network(content, title="T")
    checked(page)
    assert "not compared: no memory" in page


def test_groups_with_times_are_drawn_against_quality() -> None:
    """Where groups tell the seconds of their search there is a picture, else there is none."""
    content = network_content()
    assert "Time against quality" not in render_network(content, title="T")
    content["groups"][0]["cpu_seconds"] = 0.5
    page = render_network(content, title="T")
    assert "Time against quality" in page
    assert "50.0 % in 500 ms" in page  # (0.77 - 0.74) / (0.80 - 0.74)


@pytest.mark.parametrize(
    ("kind", "share"),
    [("row", None), ("row and partition", None), ("partition", 0.5), ("exact and matching", 0.5)],
)
def test_a_gain_is_certified_only_by_tight_bounds(kind: str, share: float | None) -> None:
    """Among several kinds one loose bound is enough to certify nothing."""
    row = {"retained": 0.75, "baseline": 0.7, "bound": 0.8, "bound_kind": kind}
    found = certified(row)
    assert found == (None if share is None else pytest.approx(share))
    assert certified({**row, "bound": 0.7, "bound_kind": "exact"}) == 1.0
    assert certified({**row, "retained": None}) is None


def test_every_weight_has_one_row() -> None:
    """Weights of the search, pruned ones beside it, skipped and dense ones are all listed once."""
    content = network_content()
    extra = {"tensor": "alone", "pattern": "2:4", "state": "left", "note": "why"}
    content["pruned"].append({**extra, "retained": 0.5})
    rows = weights(content)
    names = [row["tensor"] for row in rows]
    assert len(names) == len(set(names)) == 3 + 1 + 1 + 1
    assert {row["tensor"]: row["reason"] for row in rows}["alone"] == "why"


def test_members_are_told_apart_by_what_they_do() -> None:
    """A member's text says its role; what it does not say follows."""
    found = members_by_role(
        ["a.w[0] writes", "b.w[1] reads in blocks of 16", "odd", "c[0] follows"]
    )
    assert found == {
        "writes": ["a.w[0]"],
        "reads": ["b.w[1] in blocks of 16"],
        "follows": ["odd", "c[0]"],
    }


def test_large_networks_are_drawn_in_part() -> None:
    """The heaviest groups are drawn, the first members of each, and it is said what is left."""
    rows = [group(f"g{n}", 8, n / 1000) for n in range(MOST_GROUPS + 5)]
    rows[-1]["members"] = [f"r{n}.weight[1] reads" for n in range(MOST_MEMBERS + 7)]
    drawn = drawn_groups(rows)
    assert len(drawn) == MOST_GROUPS
    assert drawn[0].name == f"g{MOST_GROUPS + 4}"
    assert (len(drawn[0].reads.names), drawn[0].reads.more) == (MOST_MEMBERS, 7)
    assert len(drawn[0].reads.wires) == drawn[0].reads.height == MOST_MEMBERS + 1
    assert drawn[0].writes.names == ()


def test_levels_share_one_scale() -> None:
    """Every mark lies on the line, in the order of the numbers, unknown ones nowhere."""
    picture = levels([line("a", 0.7, 0.75, 0.8), line("b", None, 0.9, None)])
    assert picture is not None
    first, second = picture.lines
    assert first.x_before is not None
    assert first.x_bound is not None
    assert 0 <= first.x_before < first.x_after < first.x_bound < second.x_after <= WIDTH
    assert second.x_before is second.x_bound is None
    scale = WIDTH / (picture.high - picture.low)
    assert first.x_after - first.x_before == pytest.approx(0.05 * scale)


def test_levels_of_one_number_and_of_none() -> None:
    """All numbers alike is no division by zero, and no row is no picture."""
    picture = levels([line("a", 1.0, 1.0, 1.0)])
    assert picture is not None
    assert 0 <= picture.lines[0].x_after <= WIDTH
    assert levels([]) is None


def test_the_heaviest_levels_are_drawn_in_the_files_order() -> None:
    """Beyond a limit the light ones are left out; the order is kept."""
    rows = [line(f"l{n}", 0.5, 0.6, 0.7, weight=n) for n in range(MOST_LINES + 3)]
    picture = levels(rows)
    assert picture is not None
    assert [each.name for each in picture.lines] == [f"l{n}" for n in range(3, MOST_LINES + 3)]
    assert picture.count == MOST_LINES + 3
