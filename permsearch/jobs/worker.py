"""The other end of `permsearch.jobs.processes`: a process that does tasks until nobody asks."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

from permsearch.io.parts import Part
from permsearch.jobs.task import Work, call, prepare


def main() -> None:
    """Serve the files whose numbers the command line tells, until the other end is gone."""
    work, *others = map(int, sys.argv[-3:])
    channels: list[Connection[Any, Any]] = [Connection(number) for number in others]
    tasks, alive = channels
    threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
    serve(tasks, pickle.loads(_content(work)))


def _content(file: int) -> bytes:
    """Return all of a file that others read at the same time, from its start."""
    parts, position = [], 0
    while part := os.pread(file, 1 << 28, position):
        parts.append(part)
        position += len(part)
    return b"".join(parts)


def serve(connection: Connection, work: Work) -> None:
    """Take payloads; send what comes of each."""
    try:
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
