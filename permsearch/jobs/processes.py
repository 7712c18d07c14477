"""Tasks in processes of this machine, each started afresh, so that nothing is shared but files.

A pool of its own rather than `concurrent.futures`: there, one worker that is killed breaks the pool
and takes all tasks with it; here, it costs its own task a repetition. And the caller's main module
is not imported anew, so that scripts need no guard and notebooks work.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import IO, Any

from permsearch.errors import WorkerDied
from permsearch.jobs.dispatch import Outcomes, Started, dispatch
from permsearch.jobs.machine import cores
from permsearch.jobs.schedule import largest_first
from permsearch.jobs.task import Outcome, Task, Work

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from permsearch.jobs.worker import main; main()"
)
_THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_PATIENCE = 5.0  # seconds for a worker to end after it was told to


@dataclass(frozen=True, slots=True)
class Processes:
    """Runs tasks in processes of this machine; an `Executor`.

    Parameters
    ----------
    workers
        How many processes.
    memory
        Bytes for all tasks that run at the same time, by their own estimates; None: no limit.
    threads
        Of each worker's kernels; None: the cores, divided among the workers.
    """

    workers: int
    memory: int | None = None
    threads: int | None = None

    def run(self, work: Work, tasks: Sequence[Task], started: Started) -> Outcomes:
        """Yield what comes of tasks, as they finish; see `Executor`."""
        threads = self.threads or max(1, cores() // self.workers)
        slots = _Slots(min(self.workers, len(tasks)), work, threads)
        try:
            yield from dispatch(slots, largest_first(tasks), self.memory, started)
        finally:
            slots.close()


class _Slots:
    """The worker processes, started as they are needed."""

    def __init__(self, size: int, work: Work, threads: int) -> None:
        self.size = size
        self._work = _unnamed(pickle.dumps(work, pickle.HIGHEST_PROTOCOL))
        self._environment = worker_environment(threads)
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, tuple[_Worker, Task]] = {}

    def start(self, task: Task) -> None:
        """Hand a task to an idle worker, or to a new one."""
        worker = self._idle.pop() if self._idle else _Worker(self._work, self._environment)
        self._busy[worker.tasks] = (worker, task)
        worker.send(task.payload)

    def wait(self) -> Outcome:
        """Return what the first worker to answer sends, or how it died."""
        (connection, *_) = wait(list(self._busy))
        assert isinstance(connection, Connection)
        worker, task = self._busy.pop(connection)
        try:
            answer = pickle.loads(connection.recv_bytes())
        except (EOFError, OSError, pickle.UnpicklingError):
            return Outcome(task, error=WorkerDied(f"{task.name}: {worker.end()}"))
        self._idle.append(worker)
        if isinstance(answer, Exception):
            return Outcome(task, error=answer)
        return Outcome(task, answer)

    def close(self) -> None:
        """End all workers, whatever they are doing: what is unfinished is lost."""
        workers = [*self._idle, *(worker for worker, _ in self._busy.values())]
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.end()
        self._idle.clear()
        self._busy.clear()
        self._work.close()


class _Worker:
    """One process and the two connections to it: tasks, and the sign that we are alive."""

    def __init__(self, work: IO[bytes], environment: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair()
        alive, watched = socket.socketpair()
        numbers = [work.fileno(), theirs.fileno(), watched.fileno()]
        command = [sys.executable, "-c", _BOOT, json.dumps(sys.path), *map(str, numbers)]
        with theirs, watched:
            self._process = subprocess.Popen(
                command,
                env=environment,
                pass_fds=numbers,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C is for the process that keeps the results
            )
        self.tasks = Connection(ours.detach())
        self._alive = Connection(alive.detach())

    def send(self, payload: Any) -> None:
        """Hand over a payload; a worker that is gone is noticed when it does not answer."""
        try:
            self.tasks.send_bytes(pickle.dumps(payload, pickle.HIGHEST_PROTOCOL))
        except (BrokenPipeError, ConnectionResetError):
            return

    def terminate(self) -> None:
        """Tell the process to end at once."""
        self._process.kill()

    def end(self) -> str:
        """Wait for the process to end; return how it did, in words."""
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self.tasks.close()
        self._alive.close()
        return how_it_ended(code)


def how_it_ended(code: int) -> str:
    """Return a process's exit status in words."""
    if code >= 0:
        return f"the worker ended with status {code} and no answer"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    memory = "; was it out of memory? Give fewer --workers, or less --memory"
    return f"the worker was killed by {name}{memory if name == 'SIGKILL' else ''}"


def worker_environment(threads: int) -> dict[str, str]:
    """Return this process's environment with that many threads, or fewer if it says so itself."""
    asked = {kind: os.environ.get(kind, "") for kind in _THREADS}
    own = {kind: min(threads, int(n)) if n.isdecimal() else threads for kind, n in asked.items()}
    return {**os.environ, **{kind: str(max(1, count)) for kind, count in own.items()}}


def _unnamed(data: bytes) -> IO[bytes]:
    """Return a file without a name, for every worker to read what would fill its connection."""
    file: IO[bytes]
    if hasattr(os, "memfd_create"):  # not on the disk, which may be full
        file = os.fdopen(os.memfd_create("work"), "w+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the workers
    file.write(data)
    file.flush()
    return file
