"""Kills, full disks, lost files: told or gone on from, with the bytes of a calm run."""

from __future__ import annotations

import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from permsearch.io import MaskBundle
from tests.job_works import contents

Start = Callable[..., "subprocess.Popen[str]"]

ASKED = ("-p", "2:4", "--solver", "random", "--steps", "3000", "--exclude", "b.broken")
KILLS = 5


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a process; return its status and what it said on the standard error."""
    _, stderr = process.communicate(timeout=120)
    assert "Traceback" not in stderr
    return process.returncode, stderr


@pytest.fixture(scope="module")
def calm(
    shared_model: Path, tmp_path_factory: pytest.TempPathFactory, start: Start
) -> dict[str, bytes]:
    """Return the bytes of a run that nothing disturbed."""
    out = tmp_path_factory.mktemp("calm")
    status, stderr = finish(start("search", shared_model, *ASKED, "--out", out))
    assert status == 0, stderr
    return contents(out)


def parts(out: Path) -> int:
    """Count the finished tensors of a run under way."""
    return len(list(out.glob("parts/*.safetensors")))


def test_five_kills_change_no_byte(
    shared_model: Path, calm: dict[str, bytes], tmp_path: Path, start: Start
) -> None:
    """Killed five times at random moments, two workers end with the serial run's bytes."""
    out, dice = tmp_path / "out", random.Random(2)
    command = ("search", shared_model, *ASKED, "--workers", 2, "--out", out)
    for _ in range(KILLS):
        process, before = start(*command), parts(out)
        # until something new is finished, then a random while: in a search, a write or the merge
        while process.poll() is None and parts(out) == before and not (out / "times.json").exists():
            time.sleep(0.005)
        time.sleep(dice.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    status, stderr = finish(start(*command))
    assert status == 0, stderr
    assert contents(out) == calm
    left = {path.name for path in out.rglob("*")} - {".lock", "times.json"}
    assert left == set(calm)


def test_killed_shares_go_on(
    shared_model: Path, calm: dict[str, bytes], tmp_path: Path, start: Start
) -> None:
    """A share that is killed while another runs in the same folder goes on; they merge."""
    out = tmp_path / "out"
    shares = [("search", shared_model, *ASKED, "--out", out, "--shard", f"{n}/2") for n in (1, 2)]
    first, second = (start(*share) for share in shares)
    while first.poll() is None and parts(out) == 0:
        time.sleep(0.005)
    first.kill()
    first.communicate()
    assert finish(second)[0] == 0
    assert finish(start(*shares[0]))[0] == 0
    assert finish(start("merge", out))[0] == 0
    assert contents(out) == calm


def test_a_vanished_shard_is_named_and_the_rest_kept(
    shared_model: Path, calm: dict[str, bytes], tmp_path: Path, start: Start
) -> None:
    """A file that goes meanwhile costs its own tensors; once it is back, the run goes on."""
    out, shard = tmp_path / "out", shared_model / "model-2-of-2.safetensors"
    command = ("search", shared_model, *ASKED, "--out", out)
    process = start(*command)
    while process.poll() is None and parts(out) == 0:
        time.sleep(0.005)
    shard.rename(tmp_path / "away")
    status, stderr = finish(process)
    assert status == 1
    assert f"{shard}: tensor" in stderr
    assert "cannot be read (No such file or directory)" in stderr
    assert "also failed" in stderr
    assert "4 of 8 tensors are finished and kept" in stderr
    (tmp_path / "away").rename(shard)
    assert finish(start(*command, "--workers", 2))[0] == 0
    assert contents(out) == calm


FULL = """
set -e
mount -t tmpfs -o size=$4 tmpfs "$1"
set +e
"$2" -m permsearch search "$3" {asked} --workers 2 --out "$1/out" 2>"$5/first"
echo $? >"$5/status"
set -e
ls -A "$1/out/parts" >"$5/left"
cp -r "$1/out" "$5/kept"
mount -o remount,size=8m "$1"
"$2" -m permsearch search "$3" {asked} --workers 2 --out "$1/out"
cp -r "$1/out" "$5/out"
"""


@pytest.mark.parametrize("size", ["12k", "28k"])
def test_a_full_disk_is_told_and_nothing_half_written(
    shared_model: Path, calm: dict[str, bytes], tmp_path: Path, size: str
) -> None:
    """On a disk that fills up, the run ends with the reason; with room again, it goes on."""
    room = ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*room, "true"], check=False).returncode:
        pytest.skip("needs unshare and user namespaces, to mount a small disk of its own")
    disk, told = tmp_path / "disk", tmp_path / "told"
    disk.mkdir()
    told.mkdir()
    script = FULL.format(asked=" ".join(ASKED).replace("*", "\\*"))
    done = subprocess.run(
        [*room, "sh", "-c", script, "sh", disk, sys.executable, shared_model, size, told],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first = (told / "first").read_text()
    assert (told / "status").read_text().strip() == "1"
    assert "No space left on device" in first
    assert "Traceback" not in first
    assert not [name for name in (told / "left").read_text().split() if name.startswith(".")]
    for entry in MaskBundle.load(told / "kept", partial=True).values():
        assert entry.mask.any()
    assert contents(told / "out") == calm


def test_a_file_that_must_not_grow_is_told(
    shared_model: Path, calm: dict[str, bytes], tmp_path: Path, root: Path
) -> None:
    """A limit on the size of files, as quotas have them, is told by name, and lifting it heals."""
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "permsearch",
        "search",
        str(shared_model),
        *ASKED,
        "--out",
        str(out),
    ]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))

    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=False, preexec_fn=limit
    )
    assert done.returncode == 1
    assert "File too large" in done.stderr.splitlines()[-1]
    assert parts(out) > 0
    assert subprocess.run(command, cwd=root, capture_output=True, check=False).returncode == 0
    assert contents(out) == calm
