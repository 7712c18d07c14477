"""The page on networks tells the truth."""

from __future__ import annotations

import re
from pathlib import Path

from pruning.rules import RULES
from pruning.specs import SPECS


def test_every_operator_with_a_rule_is_listed(root: Path) -> None:
    """The page lists exactly the operators that have a rule, and every architecture."""
    text = (root / "docs" / "networks.md").read_text(encoding="utf-8")
    begin, end = "<!-- operators: begin -->", "<!-- operators: end -->"
    listed = re.findall(r"`([^`]+)`", text.partition(begin)[2].partition(end)[0])
    assert listed == sorted(RULES)
    assert f"({', '.join(SPECS)})" in " ".join(text.split())
