"""Awaiting jobs on an asyncio loop: one descriptor for all of them, and as many results a wake as have come.

    async with nocter.aio.Executor(max_workers=4) as executor:
        print(await executor.run(pow, 2, 10))

Jobs are run by Python's own threads, as those of nocter.Executor are. What they are told by is an eventfd that the
loop reads: it is cleared, then the service is asked which jobs ended, and each of those is taken. So a wake costs the
loop what ended, not what waits, and no thread calls into the loop.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from ctypes import byref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple, TypeVar

from ._aio import Watch
from ._blocking import Counts, JobId, JobState
from ._errors import Closed, Saturated, UnknownIdentity, error
from ._executor import (
    _INPUT,
    _OK,
    _begin,
    _claim,
    _complete,
    _crews,
    _Crew,
    _function,
    _JobId,
    _lose,
    _submit,
    _take,
    _Ticket,
    _Wait,
    _wait_and_claim,
)
from ._native import lib
from ._waiting import EventFd

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P")
T = TypeVar("T")

_BATCH = 256
_BATCH_SIZE = ctypes.c_size_t(_BATCH)
_completed = _function("nocter_blocking_completed", ctypes.PYFUNCTYPE)


class _Job:
    """A call, who awaits it, and what came out of it."""

    __slots__ = ("call", "future", "ticket", "result", "exception")

    def __init__(self, call: Tuple[Any, Any, Any], future: asyncio.Future[None]) -> None:
        self.call: Optional[Tuple[Any, Any, Any]] = call
        self.future = future
        self.ticket = _Ticket()
        self.result: Any = None
        self.exception: Optional[BaseException] = None

    def outcome(self) -> Any:
        if self.exception is None:
            return self.result
        try:
            raise self.exception
        finally:
            del self  # or the exception, its traceback and this frame would keep each other


class _LoopCrew(_Crew):
    """The threads of an executor on a loop; they know their jobs, and neither the loop nor the executor."""

    def close(self, cancel: bool) -> None:
        self.closing = True
        self.service.shutdown()

    def forked(self) -> None:
        self.values.clear()


def _work(crew: _Crew) -> None:
    """A thread of an executor: claims and runs jobs until the service is shut down."""
    service, values = crew.address, crew.values
    running, completion, slot = ctypes.c_void_p(), ctypes.c_void_p(), _Ticket()
    running_out, completion_out, input = byref(running), byref(completion), byref(slot, _INPUT)
    nothing, for_ever = byref(_Ticket(), _INPUT), byref(_Wait(lib.NOCTER_FOREVER))
    try:
        while True:
            if _claim(service, None, running_out) != _OK:
                if _wait_and_claim(service, for_ever, running_out) != _OK:
                    return  # shut down, or this is a forked child
            _begin(running, input, completion_out)
            job = values.pop(slot.token)
            function, arguments, keywords = job.call
            job.call = None
            try:
                job.result = function(*arguments, **keywords)
            except BaseException as problem:
                job.exception = problem
            job = function = arguments = keywords = None
            _complete(completion, nothing)
            running.value = None
    finally:
        if running.value:
            values.pop(_lose(running, completion, slot), None)


class Executor:
    """Runs callables on a bounded number of threads and lets their results be awaited. Belongs to the running loop."""

    def __init__(
        self,
        max_workers: Optional[int] = None,
        *,
        maximum_jobs: Optional[int] = None,
        thread_name_prefix: str = "nocter",
    ) -> None:
        workers = min(32, (os.cpu_count() or 1) + 4) if max_workers is None else max_workers
        self._loop = asyncio.get_running_loop()
        self._eventfd = EventFd()
        bound = max(1024, workers) if maximum_jobs is None else maximum_jobs
        self._crew = _LoopCrew(bound, workers, waiters=self._eventfd, work=_work)
        _crews.add(self._crew)
        self._crew.start(workers, thread_name_prefix)
        self._jobs: Dict[int, _Job] = {}  # those that are awaited
        self._room: List[asyncio.Future[None]] = []  # who waits for a free place, or for the end
        self._ids = (_JobId * _BATCH)()
        self._ids_out, self._count = byref(self._ids), ctypes.c_size_t()
        self._count_out, self._nothing = byref(self._count), byref(_Ticket(), _INPUT)
        self._loop.add_reader(self._eventfd.fileno(), self._readable)

    async def run(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What fn(*args, **kwargs) returns or raises. Waits for a free place first when all are taken.

        When the task is cancelled, a job that nobody has begun is taken back, one that runs is abandoned, and the
        result of one that has ended is delivered all the same.
        """
        job = _Job((fn, args, kwargs), self._loop.create_future())
        while not self._try_submit(job):
            await self._next_change()
        try:
            await job.future
        except asyncio.CancelledError:
            if not job.future.done() or job.future.cancelled():
                if not self._ended_before_cancel(job):
                    raise
        result: T = job.outcome()
        return result

    def _try_submit(self, job: _Job) -> bool:
        crew, ticket = self._crew, job.ticket
        if crew.closing:
            raise Closed(lib.NOCTER_CLOSED, "cannot run anything after aclose()")
        ticket.token = token = crew.next_token()
        crew.values[token] = job
        status = _submit(crew.address, byref(ticket, _INPUT), byref(ticket), crew.epoch)
        if status != _OK:
            failure = error(status)
            crew.values.pop(token, None)
            if isinstance(failure, Saturated):
                return False
            raise failure
        self._jobs[ticket.id.sequence] = job
        return True

    def _ended_before_cancel(self, job: _Job) -> bool:
        self._jobs.pop(job.ticket.id.sequence, None)
        try:
            return self._crew.service.cancel(JobId(job.ticket.id))[0] is JobState.COMPLETED
        except (UnknownIdentity, Closed):
            return False

    async def _next_change(self) -> None:
        # Asked and put down in one turn of the loop: whatever is freed after the asking wakes the reader after this.
        change = self._loop.create_future()
        self._room.append(change)
        await change

    def _readable(self) -> None:
        self._eventfd.clear()
        crew, jobs, ids, nothing = self._crew, self._jobs, self._ids, self._nothing
        if _completed(crew.address, self._ids_out, _BATCH_SIZE, self._count_out) == _OK:
            for index in range(self._count.value):
                id = ids[index]
                job = jobs.pop(id.sequence, None)
                if job is None:
                    continue  # cancelled, and told so already
                if _take(crew.address, id, None, nothing) == lib.NOCTER_WORKER_LOST:
                    job.exception = error(lib.NOCTER_WORKER_LOST)
                if not job.future.done():
                    job.future.set_result(None)
            if self._count.value == _BATCH:
                self._loop.call_soon(self._readable)
        self._tell_of_change()

    def _tell_of_change(self) -> None:
        room, self._room = self._room, []
        for change in room:
            if not change.done():
                change.set_result(None)

    async def aclose(self, *, cancel: bool = False) -> None:
        """Runs nothing more and waits for what runs; with `cancel`, who awaits a job that has not ended gets Closed."""
        crew = self._crew
        crew.closing = True
        while self._jobs and not cancel:
            await self._next_change()
        if self._eventfd.closed:
            return
        crew.close(cancel)
        jobs, self._jobs = self._jobs, {}
        for job in jobs.values():
            job.exception = Closed(lib.NOCTER_CLOSED, "the executor was closed")
            if not job.future.done():
                job.future.set_result(None)
        while crew.service.count().admitted:  # what runs abandoned
            await self._next_change()
        if not self._eventfd.closed:  # by another aclose() meanwhile
            self._loop.remove_reader(self._eventfd.fileno())
            self._eventfd.close()
            self._tell_of_change()  # nobody else will, now that nothing is read any more
        for thread in crew.threads:  # no job is left that could keep them
            thread.join()

    async def __aenter__(self) -> Executor:
        return self

    async def __aexit__(self, kind: Any, value: Any, trace: Any) -> None:
        await self.aclose(cancel=kind is not None)

    def count(self) -> Counts:
        """A snapshot of the service behind the executor."""
        return self._crew.service.count()

    def __repr__(self) -> str:
        return f"<nocter.aio.Executor {self._crew.service!r}>"


__all__ = ["Executor", "Watch"]
