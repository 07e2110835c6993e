"""Python's own threads that claim: nocter's threads never run anything of Python's."""

import atexit
import logging
import threading
import time
import weakref
from types import TracebackType
from typing import Callable, Optional, Type

from ._errors import Timeout, WouldDeadlock
from ._native import lib
from ._waiting import Interrupt

logger = logging.getLogger("nocter")
_EXIT_SECONDS = 0.5


class Workers:
    """Threads that serve a service until nothing will come any more or they are stopped.

    A `with` block stops them at its end, and waits. Forgetting the object leaves them at work. At the exit of the
    interpreter they claim nothing more, and what runs is given a moment.
    """

    def __init__(
        self,
        serve_one: Callable[[Interrupt], bool],
        threads: int,
        name: str,
        *others: Callable[[Interrupt], bool],
    ) -> None:
        self._interrupt = Interrupt()
        # Only the threads have `serve_one`, and with it the service, which goes when they have ended.
        self._threads = [
            threading.Thread(target=self._run, args=(each,), name=f"{name}_{number}", daemon=True)
            for number, each in enumerate([serve_one] * threads + list(others))
        ]
        _at_work.add(self)
        try:
            for thread in self._threads:
                thread.start()
        except BaseException:
            self._interrupt.raise_()
            raise

    def _run(self, serve_one: Callable[[Interrupt], bool]) -> None:
        """Calls it again and again, until it says that it was the last time."""
        while not self._interrupt.raised and serve_one(self._interrupt):
            pass

    def stop(self, timeout: Optional[float] = None) -> None:
        """Claims nothing more, and waits until what runs has ended; Timeout when that takes longer."""
        self._interrupt.raise_()
        if threading.current_thread() in self._threads:
            raise WouldDeadlock(lib.NOCTER_E_WOULD_DEADLOCK, "a thread that serves cannot wait for its own end")
        deadline = None if timeout is None else time.monotonic() + timeout
        for thread in self._threads:
            if thread.ident is None:
                continue  # never started
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                raise Timeout(lib.NOCTER_TIMEOUT, "some threads still run")

    @property
    def alive(self) -> int:
        """How many of the threads have not ended."""
        return sum(thread.is_alive() for thread in self._threads)

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<nocter.Workers {self.alive} of {len(self._threads)} threads at work>"


_at_work: "weakref.WeakSet[Workers]" = weakref.WeakSet()


def _at_exit() -> None:
    workers = list(_at_work)
    for each in workers:
        each._interrupt.raise_()
    deadline = time.monotonic() + _EXIT_SECONDS
    for each in workers:
        for thread in each._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))


# Before the interpreter waits for its other threads, which may wait for ours; atexit would be after that.
getattr(threading, "_register_atexit", atexit.register)(_at_exit)
