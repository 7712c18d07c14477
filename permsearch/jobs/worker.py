"""The other end of `permsearch.jobs.processes`: a process that does tasks until nobody asks."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from multiprocessing.connection import Connection

from permsearch.io.parts import Part
from permsearch.jobs.task import call, prepare


def main() -> None:
    """Serve the connections whose numbers the command line tells, until the other end is gone."""
    tasks, alive = (Connection(int(number)) for number in sys.argv[-2:])
    threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
    serve(tasks)


def serve(connection: Connection) -> None:
    """Take a work, then payloads; send what comes of each."""
    try:
        work = pickle.loads(connection.recv_bytes())
        ready = False
        while True:
            payload = connection.recv()
            if not ready:
                prepare(work, payload)
                ready = True
            connection.send_bytes(packed(call(work, payload)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def packed(found: Part | Exception) -> bytes:
    """Return an answer as bytes; an error that cannot be pickled is told in words."""
    try:
        data = pickle.dumps(found, pickle.HIGHEST_PROTOCOL)
        if isinstance(found, Exception):
            pickle.loads(data)
    except Exception:  # noqa: BLE001 - what others pickle may raise anything
        return pickle.dumps(RuntimeError(f"{type(found).__name__}: {found}"))
    return data


def _end_with(alive: Connection) -> None:
    """End this process, in the middle of whatever it does, when the one that began it is gone."""
    try:
        alive.recv_bytes()
    except (EOFError, OSError):
        os._exit(1)
