"""Awaiting every kind of service on an asyncio loop, by one descriptor for all of them; see Watch."""

from __future__ import annotations

import asyncio
import time
from typing import Any, AsyncIterator, Callable, Dict, Generic, Optional, TypeVar, Union

from ._blocking import Blocking
from ._errors import Closed, Empty, Pending, Saturated
from ._keyed import Key, Keyed, Notified, Pass
from ._native import lib
from ._reader import Reader
from ._retirement import Permit, Retirement, RetirementId
from ._waiting import EventFd

T = TypeVar("T")


class _Waiting(Generic[T]):
    """A call that found nothing yet, and who awaits it."""

    def __init__(
        self, attempt: Callable[[], T], due: Optional[Callable[[], Optional[float]]], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.attempt, self.due = attempt, due
        self.future: asyncio.Future[T] = loop.create_future()

    def ended(self) -> bool:
        """Tries again, unless who awaits it has gone."""
        if self.future.done():
            return True
        try:
            self.future.set_result(self.attempt())
        except (Empty, Pending, Saturated):
            return False
        except Exception as problem:
            self.future.set_exception(problem)
        return True


class Watch:
    """What services tell a loop by: an eventfd that is given to any number of them and read by the running loop.

        with nocter.aio.Watch() as watch:
            queue = nocter.Keyed(waiters=watch.eventfd, work=watch.eventfd)
            async for made in watch.passes(queue):
                await look_at(made.key)
                made.complete()

    Nothing waits but the tasks. A task that is cancelled has taken nothing, unless the result was there first: then it
    is delivered all the same.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        #: To be given to services, as their `waiters` and their `work`.
        self.eventfd = EventFd()
        self._waiting: Dict[_Waiting[Any], None] = {}  # in order, and quick to leave
        self._timer: Optional[asyncio.TimerHandle] = None
        self._reader = Reader(self._loop, self.eventfd, self._look)

    async def until(self, attempt: Callable[[], T], due: Optional[Callable[[], Optional[float]]] = None) -> T:
        """What `attempt` returns. It is called again at each wake for as long as it raises Empty, Pending or Saturated,
        and when the time has come that `due` tells, as time.monotonic() counts."""
        if self.eventfd.closed:
            raise Closed(lib.NOCTER_CLOSED, "the watch was closed")
        waiting = _Waiting(attempt, due, self._loop)
        if not waiting.ended():
            self._waiting[waiting] = None
            self._set_timer()
        try:
            return await waiting.future
        except asyncio.CancelledError:
            self._waiting.pop(waiting, None)
            if waiting.future.cancelled():
                raise
            return waiting.future.result()

    async def reserve(self, retirement: Retirement) -> Permit:
        """Retirement.reserve(), waiting for a place."""
        return await self.until(retirement.reserve)

    async def take(self, retirement: Retirement, id: RetirementId) -> int:
        """Retirement.take(), waiting for the cleanup to end."""
        return await self.until(lambda: retirement.take(id, timeout=0))

    async def notify(self, queue: Keyed, key: Key) -> Notified:
        """Keyed.notify(), waiting for a place."""
        return await self.until(lambda: queue.notify(key))

    async def claim(self, queue: Keyed) -> Pass:
        """Keyed.claim(), waiting for a key. The loop keeps the time of those that are delayed, and of a resync."""
        return await self.until(lambda: queue.claim(timeout=0), queue.next_due)

    async def passes(self, queue: Keyed) -> AsyncIterator[Pass]:
        """Every pass there is to be made, until the queue is shut down and empty."""
        while True:
            try:
                made = await self.claim(queue)
            except Closed:
                return
            with made:
                yield made

    async def drained(self, service: Union[Blocking, Retirement, Keyed]) -> None:
        """The drained() of any service."""
        await self.until(lambda: service.drained(timeout=0))

    def close(self) -> None:
        """Watches no more; who still awaits something gets Closed."""
        if self.eventfd.closed:
            return
        self._reader.close()
        self.eventfd.close()
        waiting, self._waiting = self._waiting, {}
        for each in waiting:
            if not each.future.done():
                each.future.set_exception(Closed(lib.NOCTER_CLOSED, "the watch was closed"))
        self._set_timer()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.eventfd.closed else f"{len(self._waiting)} waiting"
        return f"<nocter.aio.Watch {state}>"

    def _look(self) -> None:
        for waiting in list(self._waiting):
            if waiting.ended():
                self._waiting.pop(waiting, None)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        times = [waiting.due() for waiting in self._waiting if waiting.due is not None and not waiting.future.done()]
        due = min((moment for moment in times if moment is not None), default=None)
        if due is not None:
            self._timer = self._loop.call_later(max(0.0, due - time.monotonic()), self._look)


Watch.__module__ = "nocter.aio"  # its public place
