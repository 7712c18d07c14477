"""The page on networks tells the truth.

``python tests/pruning/test_docs.py`` writes its lists anew.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from pruning.rules import RULES  # noqa: E402
from pruning.specs import SPECS  # noqa: E402
from tests.families import FAMILIES  # noqa: E402
from tests.pruning.test_cases import EXPECTED  # noqa: E402
from tests.zoo import ZOO  # noqa: E402

PAGE = ROOT / "docs" / "networks.md"
CASES = {
    "O01": "the same tensor concatenated twice",
    "O02": "bottlenecks with a projection on the shortcut",
    "O03": "running statistics of batch norms",
    "O04": "a linear layer viewed as a feature map",
    "O05": "pixel shuffle between convolutions",
    "O06": "one output channel is not depthwise",
    "O07": "axes of transposed convolutions",
    "O08": "inverted residuals",
    "O09": "multi-head attention that trains under masks",
    "O10": "inner and outer axes of multi-head attention",
    "O11": "an LSTM",
    "O12": "an embedding tied to the head",
    "O13": "bare and wrapped in DataParallel or torch.compile",
    "O14": "a branch on data and on an argument",
    "O15": "ranks that saw other batches",
    "O34": "weight norm as a parametrization",
}


def lists() -> dict[str, str]:
    """Return what has to stand between the markers of each name."""
    rows = [
        f"| {name} | {CASES[name]} | {', '.join(groups)} | pass |"
        for name, groups in EXPECTED.items()
    ]
    table = ["| case | network | groups, (n) in n blocks | result |", "| --- | --- | --- | --- |"]
    operators = ", ".join(f"`{name}`" for name in sorted(RULES))
    return {
        "cases": "\n".join([*table, *rows]),
        "operators": "\n".join(textwrap.wrap(operators, 119, break_on_hyphens=False)),
    }


def between(text: str, name: str) -> str:
    """Return what stands between the markers of a name."""
    return text.partition(f"<!-- {name}: begin -->\n")[2].partition(f"\n<!-- {name}: end -->")[0]


def test_lists_are_the_ones_of_the_code() -> None:
    """Every operator with a rule, every network case, and every architecture is on the page."""
    text = PAGE.read_text(encoding="utf-8")
    for name, wanted in lists().items():
        assert between(text, name) == wanted, "run python tests/pruning/test_docs.py"
    assert f"({', '.join(SPECS)})" in " ".join(text.split())
    assert f"{len(ZOO)} small models" in text
    assert f"{len(FAMILIES)} families" in text


def test_the_picture_is_the_one_of_the_example() -> None:
    """The drawing names every group and tensor of the network that the example draws."""
    picture = (ROOT / "docs" / "images" / "residual_groups.svg").read_text(encoding="utf-8")
    for name in ("stem.weight[0]", "up1.weight[0]", "up2.weight[0]", "down2.bias", "norm1.weight"):
        assert name in picture


def rewrite() -> None:
    """Write the lists anew."""
    text = PAGE.read_text(encoding="utf-8")
    for name, wanted in lists().items():
        text = text.replace(
            f"<!-- {name}: begin -->\n{between(text, name)}\n<!-- {name}: end -->",
            f"<!-- {name}: begin -->\n{wanted}\n<!-- {name}: end -->",
        )
    text = re.sub(r"\d+ small models", f"{len(ZOO)} small models", text)
    text = re.sub(r"\d+ families", f"{len(FAMILIES)} families", text)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    rewrite()
