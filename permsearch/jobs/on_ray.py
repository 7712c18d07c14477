"""Tasks on a Ray cluster, or on a Ray of this machine's own."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from permsearch.errors import MissingExtra, PermsearchError
from permsearch.jobs.dispatch import Outcomes, Started, dispatch
from permsearch.jobs.machine import cores
from permsearch.jobs.own_ray import own_ray
from permsearch.jobs.schedule import largest_first
from permsearch.jobs.task import Outcome, Task, Work, call
from permsearch.jobs.worker import packed

if TYPE_CHECKING:
    from ray import ObjectRef

_RETRIES = 3  # of a task whose worker or machine died
_AHEAD = 2  # tasks handed over for each core: none is idle while we write what came of the last


class ClusterError(PermsearchError, RuntimeError):
    """Ray cannot be reached, or gave a task up."""


@dataclass(frozen=True, slots=True)
class OnRay:
    """Runs tasks on Ray, which repeats those whose worker or machine dies; an `Executor`.

    The work is put into Ray's object store once, and every machine fetches it once. Weights are
    read by whoever needs them, by path: the path has to be the same on every machine. With `send`
    they are read here, and go to the machine that needs them through the object store, once each.

    Parameters
    ----------
    workers
        How many tasks run at the same time; 0: one for each core that Ray has.
    address
        Of a cluster, "auto" for the one that this machine belongs to; None: Ray is started on this
        machine for the run.
    send
        Whether what the work's method `load(payload)` returns is handed over in a payload's place.
    """

    workers: int = 0
    address: str | None = None
    send: bool = False

    def run(self, work: Work, tasks: Sequence[Task], started: Started) -> Outcomes:
        """Yield what comes of tasks, as they finish; see `Executor`."""
        most = max(1, len(tasks))
        with _connected(self.address, min(self.workers or cores(), most)):
            slots = _Slots(work, self.workers, send=self.send)
            try:
                yield from dispatch(slots, largest_first(tasks), None, started)
            finally:
                slots.cancel()


@contextmanager
def _connected(address: str | None, own: int) -> Iterator[None]:
    """Hold a connection to Ray; one that is there already is used and left.

    Without an address Ray is started here, with `own` cores.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtra(
            "--engine ray needs the package ray; pip install 'permsearch[ray]'."
        ) from error
    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(own_ray(own) if address is None else _joined(address))
        except (ConnectionError, ValueError, RuntimeError, OSError) as error:
            raise ClusterError(
                f"Ray cannot be reached at {address or 'this machine'} "
                f"({' '.join(str(error).split())}); start it with `ray start --head`, or leave "
                "--address away."
            ) from error
        yield


@contextmanager
def _joined(address: str) -> Iterator[None]:
    """Hold a connection to a cluster that runs."""
    import ray

    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    try:
        yield
    finally:
        ray.shutdown()


class _Slots:
    """What is handed over to Ray and has not come back."""

    def __init__(self, work: Work, workers: int, *, send: bool) -> None:
        import ray

        total = int(ray.cluster_resources().get("CPU", 1))
        self.size = workers or _AHEAD * total
        self._room = max((_memory_of(node) for node in ray.nodes()), default=0)
        self._work = ray.put(work)  # arrays in it are shared by all workers of a machine
        self._remote = ray.remote(_do)
        self._load: Callable[[Any], Any] | None = getattr(work, "load", None) if send else None
        self._running: dict[ObjectRef[bytes], Task] = {}
        self._unread: list[Outcome] = []

    def start(self, task: Task) -> None:
        """Hand a task over; Ray keeps it back until a machine has a core and the memory for it."""
        import ray

        options: dict[str, Any] = {
            "num_cpus": 1,
            "max_retries": _RETRIES,
            "memory": min(task.memory, self._room) or None,
            "name": f"permsearch {task.name}"[:100],
        }
        try:
            payload = task.payload if self._load is None else self._load(task.payload)
        except PermsearchError as error:
            self._unread.append(Outcome(task, error=error))
            return
        sent = payload if self._load is None else ray.put(payload)
        reference = self._remote.options(**options).remote(self._work, sent, os.getcwd())
        self._running[reference] = task

    def wait(self) -> Outcome:
        """Return the next that came back."""
        import ray

        if self._unread:
            return self._unread.pop()
        ready, _ = ray.wait(list(self._running), num_returns=1)
        reference = ready[0]
        task = self._running.pop(reference)
        try:
            answer = pickle.loads(ray.get(reference))
        except ray.exceptions.RayError as error:
            lost = ClusterError(
                f"{task.name}: Ray gave it up after {_RETRIES} repetitions "
                f"({' '.join(str(error).split())[:300]})"
            )
            return Outcome(task, error=lost)
        if isinstance(answer, Exception):
            return Outcome(task, error=answer)
        return Outcome(task, answer)

    def cancel(self) -> None:
        """Give up what is under way."""
        import ray

        for reference in self._running:
            ray.cancel(reference, force=True)


def _do(work: Work, payload: Any, folder: str) -> bytes:
    """Do one task on one core, wherever Ray runs it; the answer comes pickled, errors too."""
    import numba

    with contextlib.suppress(OSError):  # paths may be relative to where the command was given
        os.chdir(folder)
    numba.set_num_threads(1)
    return packed(call(work, payload))


def _memory_of(node: dict[str, Any]) -> int:
    return int(node.get("Resources", {}).get("memory", 0)) if node.get("Alive") else 0
