"""Mask bundles: what goes in comes out, runs go on where they stopped, nothing is mixed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from permsearch.errors import FileError
from permsearch.io import BundleWriter, MaskBundle, Skipped
from permsearch.io.bundle import pack_mask, unpack_mask
from permsearch.patterns import NM

SETTINGS = {"pattern": "2:4", "solver": "auto", "seed": 0, "steps": 10, "seconds": None}
NAMES = ["b.weight", "a/größe", "mask", "c" * 300]


def record(name: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """Return what a manifest tells about a tensor."""
    return {"tensor": name, "shape": shape, "pattern": "2:4", "sha256": name, "gap": float("nan")}


def writer(folder: Path, **options: Any) -> BundleWriter:
    """Return a writer with the usual settings."""
    return BundleWriter(folder, options.pop("settings", SETTINGS), source="w.npz", **options)


def tensor(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a mask and an order that depend on the name alone."""
    rng = np.random.default_rng(NAMES.index(name))
    shape = (5, 12) if name != "mask" else (3, 8, 3, 3)
    return NM(2, 4).keep(rng.random(shape)), rng.permutation(shape[1])


def add(target: BundleWriter, *names: str) -> None:
    """Finish tensors."""
    for name in names:
        mask, cols = tensor(name)
        target.add(record(name, mask.shape), mask, cols=cols)


def check(bundle: MaskBundle, *names: str) -> None:
    """Check that a bundle holds exactly these tensors, unchanged."""
    assert set(bundle) == set(names)
    for name in names:
        mask, cols = tensor(name)
        np.testing.assert_array_equal(bundle[name].mask, mask)
        np.testing.assert_array_equal(bundle[name].cols, cols)
        assert bundle[name].rows is None
        assert bundle[name].pattern == NM(2, 4)
        assert bundle[name].record["gap"] is None


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 4))
def test_packing_is_exact(values: list[bool], rows: int) -> None:
    """Unpacking a packed mask gives the mask, whatever its shape; one bit an entry."""
    mask = np.array([values] * rows)
    bits = pack_mask(mask)
    assert bits.size == -(-mask.size // 8)
    np.testing.assert_array_equal(unpack_mask(bits, mask.shape), mask)


def test_round_trip_and_files(tmp_path: Path) -> None:
    """A finished bundle is three files, in the source's order, readable by plain safetensors."""
    folder = tmp_path / "new" / "masks"
    with writer(folder) as target:
        add(target, *reversed(NAMES))
        target.finish(NAMES, [Skipped("bias", "no rows")])
    bundle = MaskBundle.load(folder)
    check(bundle, *NAMES)
    assert list(bundle) == NAMES
    visible = {entry.name for entry in folder.iterdir() if not entry.name.startswith(".")}
    assert visible == {"manifest.json", "masks.safetensors", "permutations.safetensors"}
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    assert manifest["skipped"] == [{"tensor": "bias", "reason": "no rows"}]
    assert manifest["settings"] == SETTINGS
    assert manifest["complete"]
    masks, orders = (
        load_file(folder / "masks.safetensors"),
        load_file(folder / "permutations.safetensors"),
    )
    assert {a.dtype for a in masks.values()} == {np.dtype(np.uint8)}
    assert {a.dtype for a in orders.values()} == {np.dtype(np.int32)}
    np.testing.assert_array_equal(orders["b.weight"], tensor("b.weight")[1])


def test_rows_are_kept_too(tmp_path: Path) -> None:
    """A tensor may have an order of its rows, of its columns, of both or of neither."""
    mask, cols = tensor("b.weight")
    with writer(tmp_path) as target:
        target.add(record("both", mask.shape), mask, cols=cols, rows=np.arange(5)[::-1])
        target.add(record("neither", mask.shape), mask, cols=None)
        bundle = target.finish(["both", "neither"])
    assert bundle["both"].rows is not None
    assert bundle["both"].rows.tolist() == [4, 3, 2, 1, 0]
    assert bundle["neither"].cols is None


def test_an_unfinished_run_is_told_and_kept(tmp_path: Path) -> None:
    """What is finished survives; loading says that the run has not ended."""
    with writer(tmp_path) as target:
        add(target, "b.weight", "mask")
    with pytest.raises(FileError, match="has not ended, 2 tensors are finished"):
        MaskBundle.load(tmp_path)
    check(MaskBundle.load(tmp_path, partial=True), "b.weight", "mask")


def test_a_continued_run_ends_with_the_same_bytes(tmp_path: Path) -> None:
    """Stopped twice and gone on with, a run ends with the bytes of one that was not stopped."""
    with writer(tmp_path / "whole") as target:
        add(target, *NAMES)
        target.finish(NAMES)
    for names in (NAMES[2:3], NAMES[:1]):
        with writer(tmp_path / "parts") as target:
            add(target, *names)
    with writer(tmp_path / "parts") as target:
        assert set(target.finished) == {NAMES[0], NAMES[2]}
        add(target, NAMES[1], NAMES[3])
        target.finish(NAMES)
    for file in ("masks.safetensors", "permutations.safetensors", "manifest.json"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_a_finished_bundle_takes_more_tensors(tmp_path: Path) -> None:
    """More tensors join a finished bundle, also when that run is stopped half way."""
    with writer(tmp_path) as target:
        add(target, "mask")
        target.finish(NAMES)
    with writer(tmp_path) as target:
        add(target, "b.weight")
    check(MaskBundle.load(tmp_path, partial=True), "mask", "b.weight")
    with writer(tmp_path) as target:
        assert set(target.finished) == {"mask", "b.weight"}
        check(target.finish(NAMES), "mask", "b.weight")


@pytest.mark.parametrize("file", ["masks.safetensors", "permutations.safetensors", "manifest.json"])
def test_a_stop_while_merging_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """Whichever file was being replaced when the run died, the next one finishes the bundle."""
    with writer(tmp_path) as target:
        add(target, "mask")
        target.finish(NAMES)
    real = Path.replace

    def die(self: Path, to: Path) -> Path:
        if Path(to).name == file and len(list((tmp_path / "parts").glob("*"))) == 2:
            raise KeyboardInterrupt
        return real(self, to)

    with writer(tmp_path) as target:
        add(target, "b.weight", "a/größe")
        monkeypatch.setattr(Path, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            target.finish(NAMES)
    monkeypatch.undo()
    with writer(tmp_path) as target:
        assert len(target.finished) == 3
        check(target.finish(NAMES), "mask", "b.weight", "a/größe")


def test_a_damaged_part_is_searched_again(tmp_path: Path) -> None:
    """A part that cannot be read counts as not finished."""
    with writer(tmp_path) as target:
        add(target, "mask", "b.weight")
    part = sorted((tmp_path / "parts").glob("*.safetensors"))[0]
    part.write_bytes(part.read_bytes()[:-1])
    with writer(tmp_path) as target:
        assert len(target.finished) == 1


def test_other_settings_are_refused(tmp_path: Path) -> None:
    """A bundle made with other settings is told with the differences and the ways out."""
    with writer(tmp_path) as target:
        add(target, "mask")
    other = {**SETTINGS, "seed": 7, "steps": None}
    with pytest.raises(FileError, match=r"seed 0 \(now 7\), steps 10 \(now unset\).*--overwrite"):
        writer(tmp_path, settings=other)
    with writer(tmp_path, settings=other, overwrite=True) as target:
        assert not target.finished
    with pytest.raises(FileError, match="not a mask bundle"):
        MaskBundle.load(tmp_path)


def test_other_weights_are_refused(tmp_path: Path) -> None:
    """A finished tensor whose weight has changed is an error, not a silent mixture."""
    with writer(tmp_path) as target:
        add(target, "mask")
    with writer(tmp_path) as target:
        target.check_same_weight("mask", "mask")
        with pytest.raises(FileError, match="'mask' was searched with other values"):
            target.check_same_weight("mask", "other")


def test_two_runs_cannot_share_a_folder(tmp_path: Path) -> None:
    """A second run into the same folder is refused while the first is alive."""
    with writer(tmp_path), pytest.raises(FileError, match="another run is writing here"):
        writer(tmp_path)
    writer(tmp_path).__exit__()


@pytest.mark.parametrize("overwrite", [False, True])
def test_foreign_folders_are_left_alone(tmp_path: Path, overwrite: bool) -> None:
    """A folder that holds other things is refused and stays as it is."""
    (tmp_path / "model.safetensors").write_bytes(b"precious")
    with pytest.raises(FileError, match=r"holds other things \('model.safetensors'"):
        writer(tmp_path, overwrite=overwrite)
    assert (tmp_path / "model.safetensors").read_bytes() == b"precious"
    (tmp_path / "manifest.json").write_text('{"format": "other"}')
    with pytest.raises(FileError, match="not the manifest of a mask bundle"):
        writer(tmp_path, overwrite=overwrite)


def test_unwritable_folders_are_told(tmp_path: Path) -> None:
    """A folder that cannot be made or written is told at once, by its name."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileError, match=r"file.*cannot be written to"):
        writer(tmp_path / "file" / "masks")
    if os.geteuid() != 0:  # root may write anywhere
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(FileError, match=r"locked.*Permission denied"):
            writer(tmp_path / "locked")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 99}, "schema 99"),
        ({"format": "x"}, "not the manifest"),
        ({"settings": ...}, "settings missing"),
    ],
)
def test_foreign_manifests_are_told(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """A manifest of another schema or format, or with a hole, is told."""
    with writer(tmp_path) as target:
        add(target, "mask")
        target.finish(NAMES)
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text("utf-8")) | change
    path.write_text(json.dumps({k: v for k, v in manifest.items() if v is not ...}))
    with pytest.raises(FileError, match=message):
        MaskBundle.load(tmp_path)


def test_a_mask_of_the_wrong_size_is_told(tmp_path: Path) -> None:
    """A mask that does not fit the shape in the manifest is told, not reshaped."""
    with writer(tmp_path) as target:
        add(target, "mask")
        target.finish(NAMES)
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    manifest["tensors"]["mask"]["shape"] = [3, 8]
    path.write_text(json.dumps(manifest))
    with pytest.raises(FileError, match="mask 'mask' should be 3 bytes"):
        MaskBundle.load(tmp_path)["mask"]


def test_an_unknown_name_offers_near_ones(tmp_path: Path) -> None:
    """A misspelt tensor is a KeyError with near names; `in` and `get` work as on a dict."""
    with writer(tmp_path) as target:
        add(target, "b.weight")
        bundle = target.finish(NAMES)
    with pytest.raises(KeyError, match=r"did you mean 'b\.weight'"):
        bundle["b.wieght"]
    assert "nothing" not in bundle
    assert bundle.get("nothing") is None
    assert len(bundle) == 1


def test_another_source_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundle goes on only with the source it began with, however its path is spelt."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "masks"
    with BundleWriter(folder, SETTINGS, source="a/w.npz") as target:
        add(target, "mask")
    with pytest.raises(FileError, match=r"source a/w\.npz \(now b/w\.npz\).*--overwrite"):
        BundleWriter(folder, SETTINGS, source="b/w.npz")
    with BundleWriter(folder, SETTINGS, source=str(tmp_path / "a" / "w.npz")) as target:
        assert set(target.finished) == {"mask"}


DAMAGE: list[tuple[dict[str, Any], str]] = [
    ({"tensors": 3}, "tensors not of the right kind"),
    ({"settings": []}, "settings not of the right kind"),
    ({"complete": "yes"}, "complete not of the right kind"),
    ({"source": ...}, "source missing"),
    ({"tensors": {"mask": 3}}, "record of 'mask': not a table"),
    ({"tensors": {"mask": {"tensor": "mask"}}}, "record of 'mask': orders, pattern, sha256, shape"),
    ({"tensors": {"lost": ...}}, "masks.safetensors: damaged, 'lost' is missing"),
    ({"shape": [3, "8"]}, "shape is not a list of counts"),
    ({"orders": {"cols": 5}}, "orders are not names"),
    ({"orders": {"cols": "lost"}}, "permutations.safetensors: damaged, 'lost' is missing"),
]


@pytest.mark.parametrize(("change", "message"), DAMAGE, ids=[message for _, message in DAMAGE])
def test_damaged_manifests_are_told(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """Whatever is garbled in a manifest, the error names file and place and the way out."""
    with writer(tmp_path) as target:
        add(target, "mask")
        target.finish(NAMES)
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    good = manifest["tensors"]["mask"]
    if change.keys() & {"shape", "orders"}:
        change = {"tensors": {"mask": {**good, **change}}}
    elif change == {"tensors": {"lost": ...}}:
        change = {"tensors": {"lost": good}}
    manifest |= change
    path.write_text(json.dumps({k: v for k, v in manifest.items() if v is not ...}))
    for load in (MaskBundle.load, writer):
        with pytest.raises(FileError, match=message) as caught:
            load(tmp_path)
        assert "--overwrite" in str(caught.value)
    with writer(tmp_path, overwrite=True) as target:
        assert not target.finished


def test_a_cut_manifest_can_be_overwritten(tmp_path: Path) -> None:
    """Half a manifest is told with the way out, which works, but takes no other things along."""
    with writer(tmp_path) as target:
        add(target, "mask")
    path = tmp_path / "manifest.json"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(FileError, match=r"not JSON.*--overwrite"):
        writer(tmp_path)
    (tmp_path / "notes.txt").write_text("precious")
    with pytest.raises(FileError, match=r"holds other things \('notes\.txt'"):
        writer(tmp_path, overwrite=True)
    (tmp_path / "notes.txt").unlink()
    with writer(tmp_path, overwrite=True) as target:
        add(target, "mask")
        check(target.finish(NAMES), "mask")


def test_a_missing_masks_file_is_told(tmp_path: Path) -> None:
    """A bundle whose masks were not copied along says so, and what to do."""
    with writer(tmp_path) as target:
        add(target, "mask")
        target.finish(NAMES)
    (tmp_path / "masks.safetensors").unlink()
    with pytest.raises(FileError, match=r"masks\.safetensors is missing; copy it.*--overwrite"):
        MaskBundle.load(tmp_path)


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_lock_is_told(tmp_path: Path, kind: str) -> None:
    """Something else in the place of the lock is told with the way out."""
    make = os.mkdir if kind == "folder" else os.mkfifo
    make(tmp_path / ".lock")
    with pytest.raises(FileError, match=r"\.lock: cannot be opened.*remove it"):
        writer(tmp_path)


def test_a_file_in_the_place_of_the_parts_is_told(tmp_path: Path) -> None:
    """The folder of parts cannot be made where a file has its name."""
    with writer(tmp_path) as target:
        (tmp_path / "parts").write_bytes(b"")
        with pytest.raises(FileError, match=r"parts: cannot be written"):
            add(target, "mask")


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"], ids=["long", "nul"])
def test_impossible_folders_are_told(tmp_path: Path, name: str) -> None:
    """A folder that the system cannot have is an error of ours, in reading and in writing."""
    with pytest.raises(FileError, match="cannot be written to"):
        writer(tmp_path / name)
    with pytest.raises(FileError, match=r"manifest\.json"):
        MaskBundle.load(tmp_path / name)
