"""What is said about the distribution in several places is the same everywhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import permsearch as ps

ROOT = Path(__file__).resolve().parents[1]
LOWEST = ROOT / ".ci" / "lowest.txt"


def project() -> dict[str, Any]:
    """Return the table `project` of pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def floors() -> dict[str, str]:
    """Return the lowest version of each library that is needed at run time, without torch."""
    told = project()
    lines = [*told["dependencies"], *told["optional-dependencies"]["report"]]
    pairs = (re.fullmatch(r"([\w.-]+)>=([\d.]+)", line) for line in lines)
    found = {pair[1].lower(): pair[2] for pair in pairs if pair is not None}
    assert len(found) == len(set(lines)), "a requirement is more than a lower limit"
    return {name: at for name, at in found.items() if name not in ("torch", "ninja", "setuptools")}


@pytest.mark.parametrize(("name", "floor"), floors().items())
def test_the_lowest_versions_are_those_that_are_tried(name: str, floor: str) -> None:
    """`.ci/check_versions.py` installs the lowest release of what pyproject.toml allows."""
    lines = LOWEST.read_text("utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert pinned[name] == floor or pinned[name].startswith(f"{floor}.")


def test_one_version_everywhere() -> None:
    """The citation file names the version of the library."""
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    assert cited is not None
    assert cited[1] == ps.__version__


def test_the_changelog_keeps_its_form() -> None:
    """Newest first: what is unreleased, then releases with dates; kinds of changes below."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    releases = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert releases[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ – \d{4}-\d\d-\d\d", name) for name in releases[1:])
    kinds = set(re.findall(r"^### (.*)$", text, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_every_extra_is_told() -> None:
    """The page that begins with installing lists every extra."""
    page = (ROOT / "docs" / "start.md").read_text("utf-8")
    missing = [name for name in project()["optional-dependencies"] if f"`{name}`" not in page]
    assert not missing
