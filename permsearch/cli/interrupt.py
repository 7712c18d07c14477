"""Ctrl-C that is heard in the background too, and waits until nothing is half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


@contextmanager
def interrupts_heard() -> Iterator[None]:
    """Let SIGINT end the block also where a shell started the process in the background.

    A shell has such processes ignore SIGINT, and Python leaves it at that; but every command keeps
    what it has when it is interrupted, so `kill -INT` has to reach it.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Hold Ctrl-C back until the block is done: storing a result and telling it belong together."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        del frame
        held.append(number)

    before = signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        raise KeyboardInterrupt
