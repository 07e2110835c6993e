"""Awaiting jobs on an asyncio loop: one descriptor for all of them, and as many results a wake as have come.

    async with nocter.aio.Executor(max_workers=4) as executor:
        print(await executor.run(pow, 2, 10))

Jobs are run by Python's own threads, as those of nocter.Executor are. What they are told by is an eventfd that the
loop reads, one for each loop: it is cleared, then the services are asked which jobs ended, and each of those is taken. So
a wake costs the loop what ended, not what waits, and no thread calls into the loop. A loop that cannot watch descriptors
is told by a thread that does.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import weakref
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
    _forget,
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
from ._reader import Reader
from ._waiting import EventFd

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P")
T = TypeVar("T")

_BATCH = 256
_BATCH_SIZE = ctypes.c_size_t(_BATCH)
_completed = _function("nocter_blocking_completed", ctypes.PYFUNCTYPE)


class _LoopWatch:
    """The one descriptor of a loop's executors, read while there are any. Keeps neither the loop nor them alive."""

    _of_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopWatch] = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.eventfd = EventFd()
        self._executors: weakref.WeakSet[Executor] = weakref.WeakSet()
        self._loop = weakref.ref(loop)
        self._waiting: List[asyncio.Future[None]] = []
        self._reader: Optional[Reader] = None

    @classmethod
    def of_running_loop(cls) -> _LoopWatch:
        loop = asyncio.get_running_loop()
        found = cls._of_loops.get(loop)
        if found is None:
            found = cls._of_loops[loop] = cls(loop)
        return found

    def add(self, executor: Executor) -> None:
        self._executors.add(executor)
        loop = self._loop()
        if self._reader is None and loop is not None:
            self._reader = Reader(loop, self.eventfd, self._readable)

    def remove(self, executor: Executor) -> None:
        self._executors.discard(executor)
        self._close_unless_needed()

    async def next_wake(self) -> None:
        """Asked and put down in one turn of the loop: a change after the asking wakes the reader after this."""
        wake = asyncio.get_running_loop().create_future()
        self._waiting.append(wake)
        await wake

    def tell_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            if not wake.done():
                wake.set_result(None)

    def _readable(self) -> None:
        for executor in list(self._executors):
            executor._look()
        self.tell_waiting()
        self._close_unless_needed()  # the last one may have been forgotten

    def _close_unless_needed(self) -> None:
        if not self._executors and self._reader is not None:
            self._reader.close()
            self._reader = None


class _Job:
    """A call, who awaits it, and what came out of it."""

    __slots__ = ("call", "future", "ticket", "taken", "result", "exception")

    def __init__(self, call: Tuple[Any, Any, Any], future: asyncio.Future[None]) -> None:
        self.call: Optional[Tuple[Any, Any, Any]] = call
        self.future = future
        self.ticket = _Ticket()
        self.taken = False  # it has ended, and its place is free
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
        self._watch = _LoopWatch.of_running_loop()
        bound = max(1024, workers) if maximum_jobs is None else maximum_jobs
        self._crew = _LoopCrew(bound, workers, waiters=self._watch.eventfd, work=_work)
        _crews.add(self._crew)
        self._closed = False
        # One that is forgotten ends its threads, each after the job at hand.
        weakref.finalize(self, _forget, self._crew).atexit = False
        self._jobs: Dict[int, _Job] = {}  # those that are awaited
        self._ids = (_JobId * _BATCH)()
        self._ids_out, self._count = byref(self._ids), ctypes.c_size_t()
        self._count_out, self._nothing = byref(self._count), byref(_Ticket(), _INPUT)
        self._crew.start(workers, thread_name_prefix)
        self._watch.add(self)

    async def run(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What fn(*args, **kwargs) returns or raises. Waits for a free place first when all are taken.

        When the task is cancelled, a job that nobody has begun is taken back, one that runs is abandoned, and the
        result of one that has ended is delivered all the same: the cancellation is then as if it had come too late.
        """
        job = _Job((fn, args, kwargs), self._loop.create_future())
        while not self._try_submit(job):
            await self._watch.next_wake()
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
        if job.taken:  # in the turn of the loop in which the task was cancelled
            return True
        self._jobs.pop(job.ticket.id.sequence, None)
        try:
            return self._crew.service.cancel(JobId(job.ticket.id))[0] is JobState.COMPLETED
        except (UnknownIdentity, Closed):
            return False

    def _look(self) -> None:
        crew, jobs, ids, nothing = self._crew, self._jobs, self._ids, self._nothing
        if _completed(crew.address, self._ids_out, _BATCH_SIZE, self._count_out) == _OK:
            for index in range(self._count.value):
                id = ids[index]
                job = jobs.pop(id.sequence, None)
                if job is None:
                    continue  # cancelled, and told so already
                if _take(crew.address, id, None, nothing) == lib.NOCTER_WORKER_LOST:
                    job.exception = error(lib.NOCTER_WORKER_LOST)
                job.taken = True
                if not job.future.done():
                    job.future.set_result(None)
            if self._count.value == _BATCH:
                self._loop.call_soon(self._look_again)

    def _look_again(self) -> None:
        if not self._closed:
            self._look()
            self._watch.tell_waiting()

    async def aclose(self, *, cancel: bool = False) -> None:
        """Runs nothing more and waits for what runs; with `cancel`, who awaits a job that has not ended gets Closed."""
        crew = self._crew
        crew.closing = True
        while self._jobs and not cancel:
            await self._watch.next_wake()
        if self._closed:
            return
        crew.close(cancel)
        jobs, self._jobs = self._jobs, {}
        for job in jobs.values():
            job.exception = Closed(lib.NOCTER_CLOSED, "the executor was closed")
            if not job.future.done():
                job.future.set_result(None)
        while crew.service.count().admitted:  # what runs abandoned
            await self._watch.next_wake()
        if not self._closed:  # by another aclose() meanwhile
            self._closed = True
            self._watch.remove(self)
            self._watch.tell_waiting()  # nobody else will, when nothing is read any more
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
