"""The shape of the project itself: who imports whom, what is public, what importing does.

Imports are read from the syntax tree, so code that no test runs is covered too. What `import`
really loads and touches is observed in a fresh interpreter.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
SURFACE = ROOT / "tests" / "data" / "surface.txt"
PACKAGES = ("permsearch", "pruning", "sparsekernels")

# Too slow to load, or too rarely needed, for the first line of somebody's script.
HEAVY = ("numba", "scipy.optimize", "ortools", "torch", "rustworkx", "jinja2", "matplotlib", "ray")
# The lower half of permsearch: data and arithmetic that know nothing of the search.
LOWER = ("errors", "layout", "arrays", "orders", "patterns", "domains", "problem", "stop", "result")
UPPER = ("solvers", "kernels", "solve", "search_all", "compare", "report", "cli", "testing", "io")

MAX_LINES_IN_FILE = 450
MAX_LINES_IN_BODY = 50
MAX_MEDIAN_BODY = 8
SOURCE_FOLDERS = (*PACKAGES, "tests", "examples", "benchmarks")


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module, where it stands, and whether it is loaded with its file."""

    module: str
    file: Path
    line: int
    eager: bool

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module}"

    def within(self, *names: str) -> bool:
        """Whether the module is one of `names` or lies inside one."""
        return any(self.module == name or self.module.startswith(name + ".") for name in names)


def sources(*folders: str) -> list[Path]:
    """Return the Python files below the named folders of the repository."""
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


def parse(file: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def module_name(file: Path) -> str:
    """Return the dotted name under which a file of the repository is imported."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_type_checking(node: ast.AST) -> bool:
    """Whether a statement is the `if TYPE_CHECKING:` that only type checkers enter."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def named_modules(node: ast.Import | ast.ImportFrom, file: Path) -> list[str]:
    """Return the modules an import statement may load, relative ones made absolute.

    ``from a import b`` counts as ``a.b``: `b` may be a module, and the tests here ask about
    prefixes, for which the longer name serves as well.
    """
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        package = module_name(file).split(".")
        if file.name != "__init__.py":
            package = package[:-1]
        anchor = package[: len(package) - node.level + 1]
        base = ".".join([*anchor, base] if base else anchor)
    return [f"{base}.{alias.name}" for alias in node.names]


def walk_imports(node: ast.AST, file: Path, eager: bool) -> Iterator[Import]:
    """Yield the imports below a node; those inside functions are not eager."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            for module in named_modules(child, file):
                yield Import(module, file, child.lineno, eager)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from walk_imports(child, file, eager=False)
        else:
            yield from walk_imports(child, file, eager and not is_type_checking(child))


def imports_of(*folders: str) -> list[Import]:
    """Return every import in the Python files below the named folders."""
    return [found for file in sources(*folders) for found in walk_imports(parse(file), file, True)]


def told(found: list[Import]) -> str:
    """Return one line per import, for an assertion that none is left."""
    return "\n".join(map(str, found))


def test_permsearch_stands_alone() -> None:
    """Permsearch imports neither torch nor the packages built on it, not even inside functions."""
    forbidden = [i for i in imports_of("permsearch") if i.within("torch", *PACKAGES[1:])]
    assert not forbidden, told(forbidden)


def test_sparsekernels_takes_only_patterns_and_command_line_helpers() -> None:
    """Of our packages, sparsekernels imports permsearch.patterns and permsearch.cli alone."""
    ours = [i for i in imports_of("sparsekernels") if i.within("permsearch", "pruning")]
    forbidden = [i for i in ours if not i.within("permsearch.patterns", "permsearch.cli")]
    assert not forbidden, told(forbidden)


def test_pruning_reaches_sparsekernels_only_in_export_and_late() -> None:
    """Only pruning's export imports sparsekernels, and only inside the function that needs it."""
    found = [i for i in imports_of("pruning") if i.within("sparsekernels")]
    allowed = ROOT / "pruning" / "exports"
    forbidden = [i for i in found if i.eager or not i.file.is_relative_to(allowed)]
    assert not forbidden, told(forbidden)


def test_kernels_see_only_arrays() -> None:
    """Kernels import numpy, numba, llvmlite and each other; no files, clock or global dice."""
    allowed = ("numpy", "numba", "llvmlite", "permsearch.kernels")
    outside = ("io", "os", "pathlib", "random", "socket", "subprocess", "tempfile", "time")
    forbidden = [
        i
        for i in imports_of("permsearch/kernels")
        if i.within(*outside) or not i.within(*allowed, *sys.stdlib_module_names)
    ]
    assert not forbidden, told(forbidden)


def test_lower_layers_do_not_know_the_search() -> None:
    """Patterns, orders, domains, problems and criteria load no solver, kernel or interface."""
    upper = [f"permsearch.{name}" for name in UPPER]
    lower = {f"permsearch.{name}" for name in LOWER}
    files = [i for i in imports_of("permsearch") if i.eager]
    found = [i for i in files if ".".join(module_name(i.file).split(".")[:2]) in lower]
    forbidden = [i for i in found if i.within(*upper)]
    assert not forbidden, told(forbidden)


def test_project_code_is_not_imported_from_tests_or_examples() -> None:
    """What is installed never imports what is not: tests, examples, benchmarks."""
    found = imports_of(*PACKAGES)
    forbidden = [i for i in found if i.within("tests", "examples", "benchmarks", "pytest")]
    assert not forbidden, told(forbidden)


WATCH_IMPORT = """
import json, os, sys
package, touched = sys.argv[1], []
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
EVENTS = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link",
          "subprocess.Popen", "os.system", "os.fork", "socket.connect"}

def watch(event, args):
    if event == "open":
        path, mode, flags = args
        writes = bool(set(mode or "") & set("wax+")) or bool((flags or 0) & WRITING)
        if writes and str(path) != os.devnull:
            touched.append(f"open {path} {mode} {flags}")
    elif event in EVENTS:
        touched.append(f"{event} {args[:1]}")

sys.addaudithook(watch)
__import__(package)
json.dump({"modules": sorted(sys.modules), "touched": touched}, sys.stdout)
"""


def observe_import(package: str) -> dict[str, list[str]]:
    """Import a package in a fresh interpreter; return what it loaded and what it touched."""
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", WATCH_IMPORT, package],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    observed: dict[str, list[str]] = json.loads(done.stdout)
    return observed


@pytest.mark.parametrize("package", ["permsearch", "permsearch.cli"])
def test_import_is_light(package: str) -> None:
    """Importing the library or its command line loads none of the heavy modules."""
    loaded = observe_import(package)["modules"]
    heavy = [name for name in HEAVY if name in loaded]
    assert not heavy, (
        f"import {package} loads {heavy}; import them inside the function that needs it"
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_import_touches_nothing(package: str) -> None:
    """Importing a package writes no file, makes no folder, starts no process."""
    assert observe_import(package)["touched"] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_package_is_typed(package: str) -> None:
    """Each package tells type checkers that it carries its own annotations."""
    assert (ROOT / package / "py.typed").is_file()


def public_surface() -> list[str]:
    """Return every public name of the three packages, one dotted name a line."""
    return [
        f"{package}.{name}"
        for package in PACKAGES
        for name in sorted(importlib.import_module(package).__all__)
    ]


def test_public_surface_is_the_stored_one() -> None:
    """A name joins or leaves the public surface only together with the stored list."""
    stored = SURFACE.read_text(encoding="utf-8").splitlines()
    difference = "\n".join(
        difflib.unified_diff(stored, public_surface(), "stored", "found", lineterm="", n=0)
    )
    assert not difference, (
        f"The public surface changed:\n{difference}\n"
        f"If that is meant, run `python {Path(__file__).relative_to(ROOT)}` and commit the list."
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_exist(package: str) -> None:
    """Everything a package lists as public can be had from it, and is listed once."""
    module = importlib.import_module(package)
    missing = [name for name in module.__all__ if not hasattr(module, name)]
    assert not missing
    assert len(set(module.__all__)) == len(module.__all__)


def test_files_hold_one_idea() -> None:
    """No source file is longer than the project's limit."""
    lengths = {
        str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines())
        for file in sources(*SOURCE_FOLDERS)
    }
    long = {name: lines for name, lines in lengths.items() if lines > MAX_LINES_IN_FILE}
    assert not long, f"over {MAX_LINES_IN_FILE} lines; split by idea: {long}"


def body_lengths(file: Path) -> Iterator[tuple[str, int]]:
    """Yield each function of a file as file:name, and its lines without the docstring."""
    for node in ast.walk(parse(file)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
            yield f"{file.relative_to(ROOT)}:{node.name}", lines


def test_functions_are_short() -> None:
    """Function bodies of the packages stay within the limits, in the median and at the most."""
    lengths = dict(pair for file in sources(*PACKAGES) for pair in body_lengths(file))
    long = {name: lines for name, lines in lengths.items() if lines > MAX_LINES_IN_BODY}
    assert not long, f"over {MAX_LINES_IN_BODY} lines; split: {long}"
    assert median(lengths.values()) <= MAX_MEDIAN_BODY


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    names = public_surface()
    SURFACE.write_text("\n".join(names) + "\n", encoding="utf-8")
    sys.stdout.write(f"{SURFACE.relative_to(ROOT)}: {len(names)} public names\n")
