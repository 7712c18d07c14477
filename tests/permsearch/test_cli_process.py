"""The command line as a process of its own: signals, kills, pipes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import permsearch as ps
from permsearch.io import MaskBundle

BASE = [sys.executable, "-m", "permsearch"]


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    """Start the command line."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    return subprocess.Popen(
        [*BASE, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def wait_for_parts(process: subprocess.Popen[str], out: Path, count: int) -> None:
    """Wait until that many tensors are finished, or the process is."""
    while process.poll() is None and len(list(out.glob("parts/*.safetensors"))) < count:
        time.sleep(0.005)


@pytest.fixture
def uneven(tmp_path: Path) -> Path:
    """Return a file of a tensor that is searched at once and one that takes minutes."""
    path = tmp_path / "w.npz"
    np.savez(path, small=ps.instances.gaussian(4, 8, seed=0), large=np.ones((2048, 2048), "f4"))
    return path


def test_ctrl_c_keeps_what_is_finished(uneven: Path, tmp_path: Path) -> None:
    """Ctrl-C ends with 130 and one line; the finished tensor is on the disk."""
    out = tmp_path / "masks"
    arguments = ["search", uneven, "-p", "2:4", "--solver", "random", "--steps", "5000"]
    process = start(*arguments, "--out", out)
    wait_for_parts(process, out, 1)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.splitlines()[-1].startswith("Interrupted: 1 of 2 tensors are finished and kept")
    assert "Traceback" not in stderr
    assert "small" in stdout
    assert list(MaskBundle.load(out, partial=True)) == ["small"]
    assert not MaskBundle.load(out, partial=True).complete


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("search", ["--solver", "random", "--steps", "5000"]),
        ("compare", ["--solvers", "random", "--steps", "5000"]),
        ("bound", []),
    ],
)
def test_the_background_hears_interrupts(uneven: Path, command: str, options: list[str]) -> None:
    """Started by a shell in the background, each command ends with 130 and what it has."""
    process = subprocess.Popen(
        [*BASE, command, str(uneven), "-p", "2:4", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("tensor")
    assert process.stdout.readline().startswith("small")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted: 1 of 2" in stderr.splitlines()[-1]


def test_killed_runs_end_with_the_same_bytes(tmp_path: Path) -> None:
    """Killed after every tensor, a run that is started again ends as one that was never killed."""
    path = tmp_path / "w.npz"
    np.savez(path, **{f"t{n}": ps.instances.gaussian(32, 64, seed=n) for n in range(4)})
    command = ["search", path, "-p", "2:4", "--solver", "random", "--steps", "400", "--out"]
    whole = start(*command, tmp_path / "whole")
    whole.communicate()
    assert whole.returncode == 0
    out = tmp_path / "killed"
    for count in (1, 2, 3):
        process = start(*command, out)
        wait_for_parts(process, out, count)
        process.kill()
        process.communicate()
    process = start(*command, out)
    _, stderr = process.communicate()
    assert process.returncode == 0, stderr
    for file in ("masks.safetensors", "permutations.safetensors"):
        assert (out / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_a_reader_that_leaves_is_no_error(uneven: Path) -> None:
    """`permsearch ... | head -1` ends quietly."""
    process = start("search", uneven, "-p", "2:4", "--solver", "none")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    _, stderr = process.communicate()
    assert process.returncode == 141
    assert stderr == ""


def test_a_pipe_has_no_escape_codes(uneven: Path, tmp_path: Path) -> None:
    """In a pipe there is no progress bar and no colour, on neither output."""
    process = start("compare", uneven, "-p", "2:4", "--solvers", "none", "--json", tmp_path / "j")
    stdout, stderr = process.communicate()
    assert process.returncode == 0
    assert "\x1b" not in stdout + stderr
    assert "\r" not in stdout + stderr
    assert "large" in stdout
    assert len(json.loads((tmp_path / "j").read_text())["rows"]) == 2


def test_a_terminal_has_a_bar_and_a_table(uneven: Path) -> None:
    """On a terminal the table is drawn, and a bar moves while the search runs."""
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*BASE, "search", str(uneven), "-p", "2:4", "--solver", "none"],
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "160"},
    )
    os.close(follower)
    shown = b""
    while chunk := _read(leader):
        shown += chunk
    os.close(leader)
    assert process.wait() == 0
    text = shown.decode("utf-8")
    assert "\x1b[" in text
    assert "2048x2048" in text
    assert "━" in text


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, 65536)
    except OSError:  # the other end is closed
        return b""


COMMANDS = (
    ("search", "W", "-p", "2:4", "--solver", "none"),
    ("search", "W", "-p", "2:4", "--solver", "none", "--json"),
    ("compare", "W", "-p", "2:4", "--solvers", "none", "--steps", "1", "--csv", "-"),
    ("--help",),
    ("--version",),
)


def shell(tmp_path: Path, arguments: tuple[str, ...], redirect: str) -> tuple[int, list[str]]:
    """Return the exit status and the error lines of a command in a shell, without those told."""
    path = tmp_path / "w.npy"
    np.save(path, ps.instances.gaussian(4, 8, seed=0))
    command = shlex.join([*BASE, *(str(path) if part == "W" else part for part in arguments)])
    done = subprocess.run(
        ["sh", "-c", f"{command} {redirect}"], capture_output=True, text=True, check=False
    )
    return done.returncode, [line for line in done.stderr.splitlines() if " of " not in line]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("redirect", "words"), [(">/dev/full", "cannot be written"), (">&-", "output is closed")]
)
def test_an_output_that_cannot_be_written(
    tmp_path: Path, arguments: tuple[str, ...], redirect: str, words: str
) -> None:
    """A full disk and a closed output end in one line and status 1, whatever is printed."""
    status, lines = shell(tmp_path, arguments, redirect)
    assert status == 1
    assert len(lines) == 1
    assert words in lines[0]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_nobody_need_listen_to_the_standard_error(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """With the standard error closed a command does its work as ever."""
    assert shell(tmp_path, arguments, "2>&-") == (0, [])
