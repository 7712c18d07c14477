"""`permsearch doctor`, `bench` and `pack`. torch is loaded only when one of them runs."""

from __future__ import annotations

import fnmatch
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from permsearch.cli.converter import Converter
from permsearch.cli.options import debug_option, json_option, write_output

if TYPE_CHECKING:
    from sparsekernels.formats.base import PackedWeight

_BENCH = """\b
Examples:
  permsearch bench --shape 3072x768 --tokens 128,256,512 --pattern vector:32@0.25
  permsearch bench --shape 768x768 --pattern 2:4 --threads 1 --json
"""


def _say(text: str, json_file: str | None) -> None:
    """Print a line unless JSON has the standard output for itself."""
    if json_file != "-":
        click.echo(text)


def _write_json(json_file: str | None, content: Any) -> None:
    write_output(json_file, json.dumps(content, indent=1) + "\n")


@click.command("doctor")
@click.option(
    "--build",
    "compile_now",
    is_flag=True,
    help="Build the CPU kernels, and fail where they cannot be.",
)
@json_option
@debug_option
def doctor_command(*, compile_now: bool, json_file: str | None) -> None:
    """Tell which kernels can run here, and why the others cannot."""
    from sparsekernels.doctor import as_rows, examine

    findings = examine(compile_now=compile_now)
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        detail = f"  ({finding.detail})" if finding.detail else ""
        _say(f"{finding.what.ljust(width)}  {finding.state}{detail}", json_file)
    _write_json(json_file, as_rows(findings))
    if compile_now and any(f.what == "CPU kernels" and f.state == "no" for f in findings):
        raise click.ClickException("the CPU kernels cannot be used; see above.")


class _Shape(Converter[tuple[int, int]]):
    name = "outxin"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        try:
            out, columns = (int(part) for part in str(value).lower().split("x"))
        except ValueError:
            self.fail(f"{value!r} is no shape such as 3072x768.", param, ctx)
        if min(out, columns) < 1:
            self.fail(f"{value!r} has no entries.", param, ctx)
        return out, columns


class _Numbers(Converter[tuple[int, ...]]):
    name = "numbers"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            found = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is no list of whole numbers such as 128,256.", param, ctx)
        if min(found) < 1:
            self.fail("at least one token is needed.", param, ctx)
        return found


@click.command("bench", epilog=_BENCH)
@click.option(
    "--shape",
    "-s",
    "shapes",
    type=_Shape(),
    multiple=True,
    required=True,
    help="Of a weight: 3072x768; may be repeated.",
)
@click.option("--tokens", type=_Numbers(), default="128,256,512", show_default=True)
@click.option("--pattern", "-p", "patterns", multiple=True, required=True, help="May be repeated.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16", "float16"]),
    default="float32",
    show_default=True,
)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option(
    "--threads", type=click.IntRange(min=1), help="torch's threads; all cores without it."
)
@click.option(
    "--seconds", type=click.FloatRange(min=0), default=1.0, show_default=True, help="For each case."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@json_option
@debug_option
def bench_command(
    *,
    shapes: tuple[tuple[int, int], ...],
    tokens: tuple[int, ...],
    patterns: tuple[str, ...],
    dtype: str,
    device: str,
    threads: int | None,
    seconds: float,
    seed: int,
    json_file: str | None,
) -> None:
    """Time a linear layer: dense against packed, in one interleaved run, medians.

    Weights and masks are random; what is timed does not depend on their values. With one thread
    the CPU time of the thread counts, else wall time.
    """
    import torch

    from sparsekernels.errors import KernelError
    from sparsekernels.timing import TYPES, measure, random_mask

    if device == "cuda" and not torch.cuda.is_available():
        raise click.ClickException("torch sees no GPU; `permsearch doctor` says what runs here.")
    if threads is not None:
        torch.set_num_threads(threads)
    rows = []
    _say("pattern            shape        tokens  dense ms  packed ms  speedup  kernel", json_file)
    for pattern in patterns:
        for shape in shapes:
            weight = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(
                TYPES[dtype]
            )
            try:
                mask = random_mask(pattern, shape, seed)
                for count in tokens:
                    row = measure(pattern, weight, mask, count, device=device, seconds=seconds)
                    rows.append(row)
                    _say(_line(row), json_file)
            except KernelError as error:
                raise click.ClickException(str(error)) from error
    _write_json(json_file, rows)


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['pattern']:<18} {row['shape']:<11} {row['tokens']:>7}  {row['dense_ms']:>8.3f}  "
        f"{row['sparse_ms']:>9.3f}  {row['speedup']:>6.2f}x  {row['kernel']}"
    )


@click.command("pack")
@click.argument("bundle", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("weights", type=click.Path(path_type=Path, exists=True))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A .safetensors file.")
@click.option(
    "--tensor",
    "-t",
    "globs",
    multiple=True,
    metavar="GLOB",
    help="Pack only tensors whose name matches; may be repeated. All without it.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16", "float16"]),
    help="Convert values to it; as they are without it. The CPU kernels take float32 and bfloat16.",
)
@json_option
@debug_option
def pack_command(
    *,
    bundle: Path,
    weights: Path,
    out: Path,
    globs: tuple[str, ...],
    dtype: str | None,
    json_file: str | None,
) -> None:
    """Pack the WEIGHTS whose masks a BUNDLE holds.

    WEIGHTS is what the masks were searched for: a .safetensors, .npy or .npz file, or a folder of
    .safetensors files.
    """
    from sparsekernels.errors import KernelError
    from sparsekernels.files import save_packed

    if out.exists() and weights.is_file() and out.samefile(weights):
        raise click.UsageError("--out is the file of weights; it is not overwritten.")
    if not out.parent.is_dir():
        raise click.UsageError(f"the folder {out.parent} does not exist.")
    packed: dict[str, PackedWeight] = {}
    rows, failed = [], 0
    try:
        for name, found in _pack_all(bundle, weights, globs, dtype):
            if isinstance(found, str):
                failed += 1
                click.echo(f"{name}: {found}", err=True)
                continue
            packed[name] = found
            rows.append(_packed_row(name, found))
            _say(f"{name}  {found}", json_file)
        if not packed:
            raise click.ClickException("nothing was packed.")
        save_packed(packed, out)
        _tell_types(packed)
    except KernelError as error:
        raise click.ClickException(str(error)) from error
    _say(f"wrote {out}", json_file)
    _write_json(json_file, rows)
    if failed:
        sys.exit(1)


def _pack_all(bundle: Path, weights: Path, globs: tuple[str, ...], dtype: str | None) -> Any:
    """Yield name and packed weight, or why there is none."""
    from sparsekernels.bundles import read_bundle
    from sparsekernels.errors import PackError
    from sparsekernels.formats.choose import pack
    from sparsekernels.timing import TYPES
    from sparsekernels.weights import open_weights

    tensors = open_weights(weights)
    for name, entry in read_bundle(bundle):
        if globs and not any(fnmatch.fnmatch(name, glob) for glob in globs):
            continue
        if name not in tensors:
            yield name, f"{weights} holds no such tensor."
            continue
        weight = tensors[name]()
        if dtype is not None:
            weight = weight.to(TYPES[dtype])
        try:
            yield (
                name,
                pack(weight, entry.mask, entry.pattern, entry.rows, entry.cols, tiles=entry.tiles),
            )
        except PackError as error:
            yield name, str(error)


def _tell_types(packed: dict[str, PackedWeight]) -> None:
    """Warn of packed weights whose type no CPU kernel takes."""
    from sparsekernels.ops.dispatch import CPU_TYPES

    kinds = {str(weight.values.dtype).removeprefix("torch.") for weight in packed.values()}
    odd = sorted(kinds - {str(kind).removeprefix("torch.") for kind in CPU_TYPES})
    if odd:
        click.echo(
            f"warning: packed as {', '.join(odd)}, which the CPU kernels do not take: layers will "
            "be computed by the slow reference there; --dtype float32 or bfloat16 changes that.",
            err=True,
        )


def _packed_row(name: str, weight: PackedWeight) -> dict[str, Any]:
    import math

    dense = math.prod(weight.shape) * weight.values.element_size()
    return {
        "tensor": name,
        "pattern": weight.pattern,
        "shape": list(weight.shape),
        "padded": list(weight.padded),
        "bytes": weight.nbytes,
        "dense_bytes": dense,
    }
