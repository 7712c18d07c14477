"""`permsearch doctor`, `bench` and `pack`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file, save_file

import sparsekernels as sk
from permsearch.cli import cli
from sparsekernels import doctor
from sparsekernels.cli import bench_command, doctor_command, pack_command

KEYS = {
    "pattern",
    "shape",
    "tokens",
    "dtype",
    "device",
    "dense_ms",
    "sparse_ms",
    "speedup",
    "kernel",
}


def run(command: object, *args: object) -> Result:
    """Run a command."""
    return CliRunner().invoke(command, [str(arg) for arg in args])


def test_doctor_says_what_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A line for each part; no GPU claims; a forced build fails where there is no compiler."""
    told = run(doctor_command)
    assert told.exit_code == 0
    assert "never; they are verified under a host shim" in told.output
    rows = json.loads(run(doctor_command, "--json").output)
    assert {row["what"] for row in rows} >= {"torch", "CPU kernels", "CUDA kernels", "GPU"}
    assert doctor.GPU_RUNS == ()
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("SPARSEKERNELS_CACHE", str(tmp_path))
    failed = run(doctor_command, "--build")
    assert failed.exit_code == 1
    assert "'no-such-compiler' is not on PATH" in failed.output


def test_bench_gives_the_agreed_rows(tmp_path: Path) -> None:
    """One row a case, with the keys that others read."""
    file = tmp_path / "rows.json"
    done = run(
        bench_command, "--shape", "64x32", "--tokens", "1,40", "-p", "vector:8@0.25", "-p", "2:4",
        "--seconds", 0, "--json", file,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    rows = json.loads(file.read_text())
    assert [set(row) for row in rows] == [KEYS] * 4
    assert [(row["pattern"], row["tokens"]) for row in rows][1] == ("vector:8@0.25", 40)
    assert all(row["dense_ms"] > 0 and row["sparse_ms"] > 0 for row in rows)
    assert rows[0]["shape"] == "64x32"
    assert len(done.output.strip().splitlines()) == 5


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (["--shape", "64", "-p", "2:4"], 2, "no shape such as"),
        (["--shape", "0x4", "-p", "2:4"], 2, "no entries"),
        (["--shape", "8x8", "-p", "2:4", "--tokens", "1,x"], 2, "no list of whole numbers"),
        (["--shape", "8x8", "-p", "2:4", "--tokens", "0"], 2, "at least one token"),
        (["--shape", "8x8", "-p", "unstructured@0.5"], 1, "no packed format holds"),
    ],
)
def test_bench_names_wrong_usage(args: list[str], code: int, told: str) -> None:
    """Shapes, numbers and patterns that make no sense."""
    done = run(bench_command, *args)
    assert done.exit_code == code, done.output
    assert told in done.output


def test_pack_takes_a_bundle_and_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After `search --out` comes `pack`: the packed file holds the masked weights bit for bit."""
    monkeypatch.chdir(tmp_path)
    rng = torch.Generator().manual_seed(0)
    weights = {
        "a.weight": torch.randn(32, 16, generator=rng),
        "b.weight": torch.randn(16, 8, 3, 3, generator=rng),
    }
    save_file(weights, "w.safetensors")
    searched = run(cli, "search", "w.safetensors", "-p", "2:4", "--steps", 5, "--out", "masks")
    assert searched.exit_code == 0, searched.output
    done = run(
        pack_command, "masks", "w.safetensors", "--out", "packed.safetensors", "--json", "rows.json"
    )
    assert done.exit_code == 0, done.output
    from permsearch.io import MaskBundle

    packed, bundle = sk.load_packed("packed.safetensors"), MaskBundle.load(Path("masks"))
    assert set(packed) == set(weights)
    for name, weight in packed.items():
        expected = np.where(bundle[name].mask, weights[name].numpy(), 0)
        np.testing.assert_array_equal(weight.unpack().numpy(), expected)
    row = json.loads(Path("rows.json").read_text())[0]
    assert row["bytes"] < row["dense_bytes"]
    before = load_file("w.safetensors").keys()
    refused = run(pack_command, "masks", "w.safetensors", "--out", "w.safetensors")
    assert refused.exit_code == 2
    assert load_file("w.safetensors").keys() == before


def test_pack_takes_tiles_of_hinm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles' own orders come out of the bundle, too."""
    monkeypatch.chdir(tmp_path)
    save_file(
        {"w": torch.randn(32, 32, generator=torch.Generator().manual_seed(0))}, "w.safetensors"
    )
    args = ("w.safetensors", "-p", "hinm:16@0.5:2:4", "--solver", "none", "--out", "masks")
    searched = run(cli, "search", *args)
    assert searched.exit_code == 0, searched.output
    done = run(pack_command, "masks", "w.safetensors", "--out", "p.safetensors")
    assert done.exit_code == 0, done.output
    assert sk.load_packed("p.safetensors")["w"].pattern == "hinm:16@0.5:2:4"


@pytest.mark.parametrize("file", ["ffn.npy", "ffn.npz"])
def test_pack_takes_the_files_that_search_takes(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numpy's files are searched and packed under the same names."""
    monkeypatch.chdir(tmp_path)
    weight = np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32)
    if file.endswith("npy"):
        np.save(file, weight)
    else:
        np.savez(file, ffn=weight)
    searched = run(cli, "search", file, "-p", "2:4", "--solver", "none", "--out", "masks")
    assert searched.exit_code == 0, searched.output
    done = run(pack_command, "masks", file, "--out", "p.safetensors")
    assert done.exit_code == 0, done.output
    packed = sk.load_packed("p.safetensors")["ffn"].unpack().numpy()
    assert np.count_nonzero(packed) == weight.size // 2
    assert np.array_equal(packed[packed != 0], weight[packed != 0])


@pytest.mark.parametrize("name", ["w.bin", "w.npy", "w.npz", "w.safetensors"])
def test_pack_says_what_it_reads(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is no weights ends in one line that names it."""
    monkeypatch.chdir(tmp_path)
    Path("masks").mkdir()
    Path(name).write_bytes(b"nothing of the kind")
    done = run(pack_command, "masks", name, "--out", "p.safetensors")
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: {name} ")
    assert len(done.output.splitlines()) == 1


def test_pack_tells_of_types_without_a_cpu_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half precision is packed as it is with a warning, and converted where asked for."""
    monkeypatch.chdir(tmp_path)
    save_file({"w": torch.randn(16, 32).half()}, "w.safetensors")
    run(cli, "search", "w.safetensors", "-p", "2:4", "--solver", "none", "--out", "masks")
    done = run(pack_command, "masks", "w.safetensors", "--out", "p.safetensors")
    assert "packed as float16, which the CPU kernels do not take" in done.stderr
    options = ("--dtype", "bfloat16", "--out", "q.safetensors")
    done = run(pack_command, "masks", "w.safetensors", *options)
    assert done.exit_code == 0
    assert not done.stderr
    assert sk.load_packed("p.safetensors")["w"].values.dtype == torch.float16
    assert sk.load_packed("q.safetensors")["w"].values.dtype == torch.bfloat16


def test_pack_tells_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No bundle, no such tensor, nothing chosen, and weights that were changed to dense."""
    monkeypatch.chdir(tmp_path)
    save_file({"w": torch.randn(8, 8)}, "w.safetensors")
    save_file({"v": torch.randn(8, 8)}, "v.safetensors")
    Path("empty").mkdir()
    done = run(pack_command, "empty", "w.safetensors", "--out", "p.safetensors")
    assert done.exit_code == 1
    assert "no bundle of masks" in done.output
    assert (
        run(cli, "search", "w.safetensors", "-p", "2:4", "--steps", 1, "--out", "m").exit_code == 0
    )
    done = run(pack_command, "m", "v.safetensors", "--out", "p.safetensors")
    assert done.exit_code == 1
    assert "holds no such tensor" in done.output
    assert not Path("p.safetensors").exists()
    done = run(pack_command, "m", "w.safetensors", "-t", "x*", "--out", "p.safetensors")
    assert "nothing was packed" in done.output
