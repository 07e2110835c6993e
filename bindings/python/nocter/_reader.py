"""Reading an eventfd on an asyncio loop: by the loop itself, or by a thread where the loop cannot watch descriptors."""

from __future__ import annotations

import asyncio
import queue
import select
import threading
import weakref
from typing import Any, Callable, Optional

from ._waiting import EventFd


class Reader:
    """Clears the eventfd at each wake and then calls `look`, in the loop. Keeps the loop no longer than others do."""

    def __init__(self, loop: asyncio.AbstractEventLoop, eventfd: EventFd, look: Callable[[], None]) -> None:
        self._loop, self._eventfd, self._look = weakref.ref(loop), eventfd, look
        self._thread: Optional[_Thread] = None
        try:
            loop.add_reader(eventfd.fileno(), self._readable)
        except NotImplementedError:
            self._thread = _Thread(eventfd, loop, self._readable)

    def close(self) -> None:
        """Reads no more. The eventfd stays open."""
        loop = self._loop()
        if self._thread is not None:
            self._thread.end()
            self._thread = None
        elif loop is not None and not loop.is_closed():
            loop.remove_reader(self._eventfd.fileno())
        self._look = _nothing  # a call may be on its way

    def _readable(self) -> None:
        self._eventfd.clear()
        if self._thread is not None:
            self._thread.go_on()
        self._look()


def _nothing() -> None:
    pass


class _Thread:
    """Watches a descriptor for a loop that cannot, and calls into it once for each time it has been cleared."""

    def __init__(self, eventfd: EventFd, loop: asyncio.AbstractEventLoop, readable: Callable[[], None]) -> None:
        # Not a semaphore: the end of a loop may come in a collection of garbage, within any call, also one on this.
        self._cleared: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._ended = False
        stop = EventFd()  # which is told by hand: by end(), or by the end of the loop
        self._stop = weakref.finalize(loop, _stop, stop._notifier(), self._cleared)
        self._stop.atexit = False
        arguments = (eventfd, stop, weakref.ref(loop), readable)
        self._thread = threading.Thread(target=self._run, args=arguments, name="nocter_reader", daemon=True)
        self._thread.start()

    def _run(self, eventfd: EventFd, stop: EventFd, loop: Any, readable: Callable[[], None]) -> None:
        poll = select.poll()
        for each in (eventfd, stop):
            poll.register(each.fileno(), select.POLLIN)
        while True:
            poll.poll()
            here = loop()
            if self._ended or here is None:
                return
            try:
                here.call_soon_threadsafe(readable)
            except RuntimeError:  # the loop is closed
                return
            del here
            self._cleared.get()

    def go_on(self) -> None:
        self._cleared.put(None)

    def end(self) -> None:
        self._ended = True
        self._stop()
        self._thread.join()


def _stop(notifier: Any, cleared: queue.SimpleQueue[None]) -> None:
    """Ends the thread wherever it waits: also for a call into the loop that the loop, closed, will never make."""
    notifier.wake(notifier.user)
    notifier.drop(notifier.user)
    cleared.put(None)
