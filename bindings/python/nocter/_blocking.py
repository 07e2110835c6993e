"""The blocking service: a bounded set of jobs. Submit, claim, begin, complete, take.

A job carries a token. Every call that could make nocter drop one asks for it back instead, so that no object is kept
longer than its job.
"""

import contextlib
import enum
import os
import threading
import weakref
from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

from . import _service as service
from ._errors import Forked, check, error
from ._ffi import ffi
from ._native import Handle, lib
from ._service import Epoch, Identity, how_often, raw, saturated
from ._waiting import Interrupt, Notifiable, wait_until_done


class JobId(Identity):
    """Which job. Never issued twice."""

    __slots__ = ()
    _equal = lib.nocter_job_id_equal


class JobState(enum.IntEnum):
    """Where a job is."""

    QUEUED = lib.NOCTER_JOB_QUEUED
    RUNNING = lib.NOCTER_JOB_RUNNING
    COMPLETED = lib.NOCTER_JOB_COMPLETED


@dataclass(frozen=True)
class Counts:
    """What a service holds, in one moment, and the totals since it was made."""

    accepting: int
    queued: int
    running: int
    completed: int
    abandoned: int
    admitted: int
    maximum_jobs: int
    workers: int
    epoch: int
    accepted: int
    saturated: int
    taken: int
    cancelled_queued: int
    cancelled_completed: int
    shutdown_queued: int
    shutdown_completed: int
    abandoned_retired: int
    completed_ok: int
    completed_lost: int
    exceptions: int
    oldest_queued_ns: int
    longest_running_ns: int


class Store(service.Store):
    """The inputs and outputs behind the tokens."""

    def __init__(self) -> None:
        super().__init__()
        # Held while a job ends or loses its waiter: between "is it abandoned?" and "complete" nobody may abandon it,
        # or the output would stay here with nobody left to ask for it.
        # Reentrant, because a signal handler or a finaliser may end jobs in the thread that holds it.
        self.lock = threading.RLock()
        _stores.add(self)


_stores: "weakref.WeakSet[Store]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    # The thread that held a lock is not in the child; calls there shall say Forked instead of waiting for it.
    for store in _stores:
        store.lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork_in_child)


class Completion(Handle):
    """The one right, and duty, to end a job that has begun. Left without complete(), the job's worker is lost."""

    def __init__(self, pointer: Any, store: Store) -> None:
        self._pointer, self._store = pointer, store

    @property
    def id(self) -> JobId:
        """Which job this is."""
        return JobId(lib.nocter_completion_id(self.pointer))

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for this job any more: stop early if you can."""
        return bool(lib.nocter_completion_abandoned(self.pointer))

    @property
    def interrupt(self) -> Interrupt:
        """Raised when the job is abandoned: to carry in the job's own waits, until the completion ends."""
        return service.GuardInterrupt(self, lib.nocter_completion_interrupt)

    def complete(self, output: Any = None) -> None:
        """Ends the job with an output, which nobody gets when the job was abandoned."""
        with self._store.lock:
            if lib.nocter_completion_abandoned(self.pointer):
                output = None
            token, owned = self._store.put(output)
            status = lib.nocter_completion_complete(self.pointer, owned)
            if status or output is None:
                self._store.values.pop(token, None)  # whoever takes it may have been faster
        check(status)
        self._pointer = None

    def close(self) -> None:
        """Ends the job without an output: its waiter is told WorkerLost."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            lib.nocter_completion_drop(pointer)

    def __del__(self) -> None:
        self.close()

    def _describe(self) -> str:
        return f"of {self.id!r}{', abandoned' if self.abandoned else ''}"


class RunningJob(Handle):
    """A claimed job whose input has not been taken out yet. Left without begin(), the job's worker is lost."""

    def __init__(self, pointer: Any, store: Store) -> None:
        self._pointer, self._store = pointer, store

    @property
    def id(self) -> JobId:
        """Which job this is."""
        return JobId(lib.nocter_running_job_id(self.pointer))

    def begin(self) -> Tuple[Any, Completion]:
        """Parts the input from the completion; this object is closed thereafter."""
        owned, out = ffi.new("nocter_owned *"), ffi.new("nocter_completion **")
        check(lib.nocter_running_job_begin(self.pointer, owned, out))
        self._pointer = None
        return self._store.take(owned), Completion(out[0], self._store)

    def close(self) -> None:
        """Gives the job up: its waiter is told WorkerLost."""
        # Begun first, because a dropped job does not say which token it carried.
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            owned, out = ffi.new("nocter_owned *"), ffi.new("nocter_completion **")
            if lib.nocter_running_job_begin(pointer, owned, out) == lib.NOCTER_OK:
                self._store.take(owned)
                lib.nocter_completion_drop(out[0])

    def __del__(self) -> None:
        self.close()

    def _describe(self) -> str:
        return f"{self.id!r}"


class Blocking(Handle):
    """The service. `waiters` is woken after every transition a waiter can care about, `work` when there may be work.

    Every timeout is in seconds: None waits for ever, zero does not wait. `wait_spins` and `wait_yields` say how often
    a wait looks again before it yields its core, and yields before it sleeps: None is the library's default, 0 is
    never.
    """

    def __init__(
        self,
        maximum_jobs: int = 64,
        workers: int = 2,
        *,
        waiters: Optional[Notifiable] = None,
        work: Optional[Notifiable] = None,
        wait_spins: Optional[int] = None,
        wait_yields: Optional[int] = None,
    ) -> None:
        settings = {
            "maximum_jobs": maximum_jobs,
            "workers": workers,
            "wait_spins": how_often(wait_spins),
            "wait_yields": how_often(wait_yields),
        }
        self._store = Store()
        pointer = service.create("blocking", settings, waiters, work)
        self._pointer = ffi.gc(pointer, lib.nocter_blocking_destroy)

    def submit(self, value: Any) -> JobId:
        """Hands a job in, never waits. Saturated says at which epoch, so that wait_epoch() misses no free slot."""
        pointer, out, epoch = self.pointer, ffi.new("nocter_job_id *"), ffi.new("nocter_epoch *")
        token, owned = self._store.put(value)
        status = lib.nocter_blocking_submit(pointer, owned, out, epoch)
        if status:
            failure = saturated(epoch) if status == lib.NOCTER_SATURATED else error(status)
            del self._store.values[token]
            raise failure
        return JobId(out)

    def claim(self, timeout: Optional[float] = None, interrupt: Optional[Interrupt] = None) -> RunningJob:
        """Takes the oldest queued job to run it. Empty or Timeout when there is none in time, Closed after shutdown."""
        pointer, out = self.pointer, ffi.new("nocter_running_job **")
        check(wait_until_done(lambda wait: lib.nocter_blocking_claim(pointer, wait, out), timeout, interrupt))
        return RunningJob(out[0], self._store)

    def take(self, job: JobId, timeout: Optional[float] = None, interrupt: Optional[Interrupt] = None) -> Any:
        """What came out of a job. Pending, Timeout and Interrupted leave it to be taken later, all else consumes it."""
        pointer, id, owned = self.pointer, raw(job, JobId), ffi.new("nocter_owned *")
        check(wait_until_done(lambda wait: lib.nocter_blocking_take(pointer, id, wait, owned), timeout, interrupt))
        return self._store.take(owned)

    def query(self, job: JobId) -> JobState:
        """Where a job is. Changes nothing."""
        out = ffi.new("nocter_job_state *")
        check(lib.nocter_blocking_query(self.pointer, raw(job, JobId), out))
        return JobState(out[0])

    def completed(self, capacity: int = 256) -> List[JobId]:
        """Which jobs ended since the last asking, each named once. A hint: takes nothing."""
        if not 1 <= capacity <= lib.NOCTER_BLOCKING_MAXIMUM_JOBS:
            raise ValueError(f"capacity must be from 1 to {lib.NOCTER_BLOCKING_MAXIMUM_JOBS}, not {capacity}")
        ids, count = ffi.new("nocter_job_id[]", capacity), ffi.new("size_t *")
        check(lib.nocter_blocking_completed(self.pointer, ids, capacity, count))
        return [JobId(ids[index]) for index in range(count[0])]

    def take_many(
        self, capacity: int = 256, timeout: Optional[float] = None, interrupt: Optional[Interrupt] = None
    ) -> List[Tuple[JobId, Any]]:
        """Takes jobs as they end, whichever they are: for a program where one place takes every job.

        In place of an output that never came there is a WorkerLost, which is not raised: the others have theirs.
        """
        if not 1 <= capacity <= lib.NOCTER_BLOCKING_MAXIMUM_JOBS:
            raise ValueError(f"capacity must be from 1 to {lib.NOCTER_BLOCKING_MAXIMUM_JOBS}, not {capacity}")
        pointer, room, count = self.pointer, ffi.new("nocter_taken[]", capacity), ffi.new("size_t *")
        call = lib.nocter_blocking_take_many
        check(wait_until_done(lambda wait: call(pointer, wait, room, capacity, count), timeout, interrupt))
        lost = lib.NOCTER_WORKER_LOST
        return [
            (JobId(taken.id), error(lost) if taken.status == lost else self._store.take(ffi.addressof(taken, "output")))
            for taken in room[0 : count[0]]
        ]

    def cancel(self, job: JobId) -> Tuple[JobState, Any]:
        """Ends the interest in a job. The state it was in, with its input (QUEUED) or output (COMPLETED), else None."""
        id, was, owned = raw(job, JobId), ffi.new("nocter_job_state *"), ffi.new("nocter_owned *")
        with self._store.lock:
            status = lib.nocter_blocking_cancel(self.pointer, id, was, owned)
        check(status)
        return JobState(was[0]), self._store.take(owned)

    def epoch(self) -> Epoch:
        """The capacity epoch now."""
        out = ffi.new("nocter_epoch *")
        check(lib.nocter_blocking_epoch(self.pointer, out))
        return Epoch(out)

    def wait_epoch(
        self, later_than: Epoch, timeout: Optional[float] = None, interrupt: Optional[Interrupt] = None
    ) -> Epoch:
        """Waits until an occupied slot became free after that moment, and returns the epoch now."""
        pointer, seen, out = self.pointer, raw(later_than, Epoch), ffi.new("nocter_epoch *")
        check(
            wait_until_done(lambda wait: lib.nocter_blocking_wait_epoch(pointer, seen, wait, out), timeout, interrupt)
        )
        return Epoch(out)

    def shutdown(self) -> List[Tuple[JobState, Any]]:
        """Closes admission for good and returns what nobody runs: queued inputs, then completed outputs."""
        handed_back: List[Tuple[int, int]] = []
        cast, number = ffi.cast, ffi.typeof("uintptr_t")

        def sink(_user: Any, was: int, owned: Any) -> None:
            handed_back.append((was, int(cast(number, owned.data))))

        with self._store.lock:
            status = lib.nocter_blocking_shutdown(self.pointer, ffi.callback("nocter_blocking_sink", sink), ffi.NULL)
        check(status)
        return [(JobState(was), self._store.values.pop(token, None)) for was, token in handed_back]

    def drained(self, timeout: Optional[float] = None, interrupt: Optional[Interrupt] = None) -> None:
        """Waits until a service that was shut down has no job left."""
        pointer = self.pointer
        check(wait_until_done(lambda wait: lib.nocter_blocking_drained(pointer, wait), timeout, interrupt))

    def count(self) -> Counts:
        """A snapshot taken in one moment."""
        return service.count("blocking", self.pointer, Counts)

    def close(self) -> None:
        """Shuts the service down, dropping what nobody runs, and gives it up. Guards that are out stay valid."""
        if not self.closed:
            with contextlib.suppress(Forked):  # what belongs to the parent is left to it
                self.shutdown()
            super().close()

    def __exit__(self, *details: Any) -> None:
        self.close()

    def _describe(self) -> str:
        now = self.count()
        state = "open" if now.accepting else "shut down"
        return f"{state}, {now.admitted} of {now.maximum_jobs} jobs, {now.running} running on {now.workers} workers"
