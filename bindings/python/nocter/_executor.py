"""An executor of concurrent.futures over the blocking service, run by Python's own threads.

The five calls a job needs are made through ctypes, which (unlike cffi) can keep the interpreter lock during a call.
They never wait, and giving the lock up and taking it back for each of them costs more than they do, most of all when
another thread wants it. The one call that waits, a worker's claim of the next job, lets go of it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import threading
import time
import weakref
from concurrent.futures import Executor as BaseExecutor
from concurrent.futures import Future
from concurrent.futures._base import FINISHED, RUNNING
from ctypes import byref
from typing import TYPE_CHECKING, Any, Callable, List, Optional, TypeVar

from ._blocking import Blocking, Counts, JobId, JobState
from ._errors import Closed, Error, Forked, Saturated, WorkerLost, WouldDeadlock, error
from ._ffi import ffi
from ._future import JobFuture
from ._native import lib
from ._waiting import Notifiable

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P")
T = TypeVar("T")

_OK = lib.NOCTER_OK
_new_future: Any = JobFuture.__new__
_EXIT_SECONDS = 0.5


class _JobId(ctypes.Structure):
    _fields_ = [("service", ctypes.c_uint64), ("sequence", ctypes.c_uint64)]


class _Ticket(ctypes.Structure):
    """A nocter_job_id and the two members of a nocter_owned: all that a job says on its way in."""

    _fields_ = [("id", _JobId), ("token", ctypes.c_size_t), ("drop", ctypes.c_size_t)]


class _Wait(ctypes.Structure):
    _fields_ = [
        ("deadline_ns", ctypes.c_int64),
        ("interrupt", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


_INPUT = _Ticket.token.offset
_ID = 3


def _new_ticket() -> Any:
    """A ticket, and its parts as the calls take them: the input and the identity by address, the identity by value."""
    ticket = _Ticket()
    return ticket, byref(ticket, _INPUT), byref(ticket), ticket.id


for _ours, _theirs in ((_JobId, "nocter_job_id"), (_Wait, "nocter_wait")):
    if ctypes.sizeof(_ours) != ffi.sizeof(_theirs):
        raise ImportError(f"{_theirs} has another size than nocter's executor knows")


def _function(name: str, kind: Any) -> Any:
    return kind(ctypes.c_int32)(int(ffi.cast("uintptr_t", getattr(lib, name))))


_submit = _function("nocter_blocking_submit", ctypes.PYFUNCTYPE)
_claim = _function("nocter_blocking_claim", ctypes.PYFUNCTYPE)
_begin = _function("nocter_running_job_begin", ctypes.PYFUNCTYPE)
_complete = _function("nocter_completion_complete", ctypes.PYFUNCTYPE)
_take = _function("nocter_blocking_take", ctypes.PYFUNCTYPE)
_wait_and_claim = _function("nocter_blocking_claim", ctypes.CFUNCTYPE)


class _Crew:
    """What an executor shares with its threads and its futures. It does not know the executor itself."""

    def __init__(
        self,
        maximum_jobs: int,
        workers: int,
        work: Callable[[_Crew], None],
        waiters: Optional[Notifiable] = None,
    ) -> None:
        # A thread that found work at once would still have to wait for the interpreter lock, which whoever submitted the
        # work holds: staying awake for it only takes the core away from that one.
        self.service = Blocking(maximum_jobs, workers, waiters=waiters, wait_spins=0, wait_yields=0)
        self.work = work
        # The pointer as an argument that is made once.
        self.address = byref(ctypes.c_char.from_address(int(ffi.cast("uintptr_t", self.service.pointer))))
        self.values = self.service._store.values
        self.next_token = self.service._store.next_token
        self.epoch = byref(_JobId())  # of no interest where a job is accepted
        self.tickets: List[Any] = []  # those of jobs that have ended, to be used again
        self.closing = False
        self.threads: List[threading.Thread] = []

    def start(self, workers: int, prefix: str) -> None:
        try:
            for number in range(workers):
                thread = threading.Thread(target=self.work, args=(self,), name=f"{prefix}_{number}", daemon=True)
                thread.start()
                self.threads.append(thread)
        except BaseException:
            self.close(cancel=True)
            raise

    def reclaim(self, future: JobFuture[Any]) -> bool:
        """Takes a queued job back; a running one is left alone."""
        ticket = future._ticket
        if ticket is None:
            return False
        job = JobId(ticket[_ID])
        if future._ticket is None:
            return False  # it ended meanwhile, and the ticket may be another job's by now
        try:
            return self.service.query(job) == JobState.QUEUED and self.service.cancel(job)[0] == JobState.QUEUED
        except Error:
            return False

    def close(self, cancel: bool) -> None:
        """Lets no more jobs in. The threads end once nothing is left to run, with `cancel` after the job at hand."""
        self.closing = True
        if cancel:
            for _, item in self.service.shutdown():
                if item is not None:
                    item[0].cancel_reclaimed()
        else:
            self.close_when_idle()

    def close_when_idle(self) -> None:
        if self.service.count().admitted == 0:
            late = [item for _, item in self.service.shutdown() if item is not None]
            if late:
                # Let in by a submit that had seen the executor open: accepted is accepted, so they are run.
                thread = threading.Thread(target=_run_late, args=(late,), daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no more threads
                    _run_late(late)
                else:
                    self.threads.append(thread)

    def forked(self) -> None:
        """In a forked child: there is no thread left that could end a job."""
        for future, *_ in self.values.values():
            future._exception = Forked(lib.NOCTER_E_FORKED, "this job belongs to the parent of this process")
            future._state = FINISHED
        self.values.clear()


def _work(crew: _Crew) -> None:
    """A thread of an executor: claims and runs jobs until the service is shut down."""
    service, values, tickets = crew.address, crew.values, crew.tickets
    job, completion, slot = ctypes.c_void_p(), ctypes.c_void_p(), _Ticket()
    job_out, completion_out, input = byref(job), byref(completion), byref(slot, _INPUT)
    nothing, for_ever = byref(_Ticket(), _INPUT), byref(_Wait(lib.NOCTER_FOREVER))
    try:
        while True:
            if _claim(service, None, job_out) != _OK:
                if crew.closing:
                    crew.close_when_idle()
                if _wait_and_claim(service, for_ever, job_out) != _OK:
                    return  # shut down, or this is a forked child
            _begin(job, input, completion_out)
            token = slot.token
            future, function, arguments, keywords = values[token]
            future._state = RUNNING
            try:
                result = function(*arguments, **keywords) if keywords else function(*arguments)
                exception = None
            except BaseException as problem:
                result, exception = None, problem
            # The place is free before the result is seen: who sees it can submit again at once. An abandoned job (its
            # executor was shut down) has nothing to be taken, its future gets the result all the same.
            ticket = future._ticket
            _complete(completion, nothing)
            _take(service, ticket[_ID], None, nothing)
            job.value = None
            del values[token]
            future._ticket = None
            tickets.append(ticket)
            future.finish(result, exception)
            # Nothing of the job outlives it here, nor the cycle of an exception, its traceback and this frame.
            future = function = arguments = keywords = result = exception = None
    finally:
        if job.value:
            future = values.pop(_lose(job, completion, slot))[0]
            _take(service, future._ticket[_ID], None, nothing)
            future.finish(None, WorkerLost(lib.NOCTER_WORKER_LOST, "the thread that ran the job was ended"))


def _lose(job: Any, completion: Any, slot: Any) -> int:
    """For a thread that is ended, by an exception thrown into it, between a claim and the end of the job: its token."""
    begun_now, given = ctypes.c_void_p(), _Ticket()
    if _begin(job, byref(given, _INPUT), byref(begun_now)) == _OK:
        completion, slot = begun_now, given
    lib.nocter_completion_drop(ffi.cast("nocter_completion *", completion.value))
    return int(slot.token)


def _run_late(items: List[Any]) -> None:
    for future, function, arguments, keywords in items:
        future._state = RUNNING
        try:
            result, exception = function(*arguments, **keywords), None
        except BaseException as problem:
            result, exception = None, problem
        future.finish(result, exception)


class Executor(BaseExecutor):
    """Runs callables on a bounded number of threads, with a bounded number of jobs that wait or run.

    At the bound submit() waits for a free place, or raises Saturated when `saturation` is "raise". Cancelling a
    future takes its job back if nobody has begun it. At the exit of the interpreter, jobs that nobody has begun are
    cancelled, and running ones are given a moment: an executor that must finish its work is used in a `with` block.
    """

    def __init__(
        self,
        max_workers: Optional[int] = None,
        *,
        maximum_jobs: Optional[int] = None,
        saturation: str = "block",
        thread_name_prefix: str = "nocter",
    ) -> None:
        if saturation not in ("block", "raise"):
            raise ValueError(f'saturation must be "block" or "raise", not {saturation!r}')
        workers = min(32, (os.cpu_count() or 1) + 4) if max_workers is None else max_workers
        self._block = saturation == "block"
        self._crew = _Crew(max(1024, workers) if maximum_jobs is None else maximum_jobs, workers, _work)
        _crews.add(self._crew)
        # An executor that is forgotten lets its jobs end, as that of the standard library does.
        self._forgotten = weakref.finalize(self, _forget, self._crew)
        self._forgotten.atexit = False
        self._crew.start(workers, thread_name_prefix)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Schedules fn(*args, **kwargs). Closed (also a RuntimeError) after shutdown(), Saturated by option."""
        crew = self._crew
        epoch = None
        while True:
            if crew.closing:
                raise Closed(lib.NOCTER_CLOSED, "cannot schedule new futures after shutdown")
            try:
                ticket = crew.tickets.pop()
            except IndexError:
                ticket = _new_ticket()
            future: JobFuture[T] = _new_future(JobFuture)
            future._turns, future._done_callbacks = [], []  # as its __init__ does, which costs a call
            future._crew, future._ticket = crew, ticket
            ticket[0].token = token = crew.next_token()
            crew.values[token] = (future, fn, args, kwargs)
            status = _submit(crew.address, ticket[1], ticket[2], crew.epoch)
            if status == _OK:
                return future
            failure = error(status)
            crew.values.pop(token, None)
            if isinstance(failure, Closed):
                raise Closed(lib.NOCTER_CLOSED, "cannot schedule new futures after shutdown")
            if not isinstance(failure, Saturated) or not self._block:
                raise failure
            # Read, try, wait: a place that became free after the epoch was read is never missed.
            if epoch is not None:
                crew.service.wait_epoch(epoch)
            epoch = crew.service.epoch()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Lets no more jobs in; by default waits for those that are in; if told so, cancels those that nobody has begun."""
        if wait and threading.current_thread() in self._crew.threads:
            raise WouldDeadlock(lib.NOCTER_E_WOULD_DEADLOCK, "a job cannot wait for the executor that runs it")
        self._crew.close(cancel_futures)
        if wait:
            for thread in self._crew.threads:
                thread.join()

    def count(self) -> Counts:
        """A snapshot of the service behind the executor."""
        return self._crew.service.count()

    def __repr__(self) -> str:
        return f"<nocter.Executor {self._crew.service!r}>"


_crews: weakref.WeakSet[_Crew] = weakref.WeakSet()


def _forget(crew: _Crew) -> None:
    with contextlib.suppress(Error):
        crew.close(cancel=False)


def _at_exit() -> None:
    """Ends all threads that can be ended in time; the others are left behind, they do not hold the exit up."""
    crews = list(_crews)
    for crew in crews:
        with contextlib.suppress(Error):
            crew.close(cancel=True)
    deadline = time.monotonic() + _EXIT_SECONDS
    for crew in crews:
        for thread in crew.threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _after_fork_in_child() -> None:
    for crew in _crews:
        crew.forked()


os.register_at_fork(after_in_child=_after_fork_in_child)
# Before the interpreter waits for its other threads, which may wait for our jobs; atexit would be after that.
getattr(threading, "_register_atexit", atexit.register)(_at_exit)
