"""The blocking service: a bounded set of jobs. Submit, claim, begin, complete, take.

Python objects never cross into nocter: a job carries an integer token, and the object behind it waits in a dict of the
service until the token comes back, by whichever way that is. Every call that could make nocter drop a token asks for
it back instead, so that no object is kept longer than its job.
"""

import contextlib
import enum
import os
import threading
import weakref
from dataclasses import dataclass, fields
from itertools import count as count_up
from typing import Any, Dict, List, Optional, Tuple, Type

from ._errors import Forked, Saturated, check, error
from ._ffi import ffi
from ._native import Handle, lib
from ._waiting import EventFd, Interrupt, Notifiable, Signal, wait_until_done


class _Identity:
    """An opaque value: it can be compared, hashed and handed back, nothing else."""

    __slots__ = ("_raw",)
    _equal: Any

    def __init__(self, raw: Any) -> None:
        self._raw: Tuple[int, int] = (raw.service, raw.sequence)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return bool(type(self)._equal(self._raw, other._raw))

    def __hash__(self) -> int:
        return hash(self._raw)

    def __repr__(self) -> str:
        return f"<nocter.{type(self).__name__} {self._raw[0]:x}-{self._raw[1]:x}>"


class JobId(_Identity):
    """Which job. Never issued twice."""

    __slots__ = ()
    _equal = lib.nocter_job_id_equal


class Epoch(_Identity):
    """A moment of a service: it advances whenever an occupied slot became free."""

    __slots__ = ()
    _equal = lib.nocter_epoch_equal


def _raw(identity: _Identity, kind: Type[_Identity]) -> Tuple[int, int]:
    if not isinstance(identity, kind):
        raise TypeError(f"a nocter.{kind.__name__} is needed, not {identity!r}")
    return identity._raw


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


_COUNT_NAMES = [field.name for field in fields(Counts)]


class Store:
    """The objects behind the tokens. Guards share it with their service, because they may outlive it."""

    def __init__(self) -> None:
        self.values: Dict[int, Any] = {}
        self.next_token = count_up(1).__next__
        # Held while a job ends or loses its waiter: between "is it abandoned?" and "complete" nobody may abandon it,
        # or the output would stay here with nobody left to ask for it.
        # Reentrant, because a signal handler or a finaliser may end jobs in the thread that holds it.
        self.lock = threading.RLock()
        _stores.add(self)

    def put(self, value: Any) -> Tuple[int, Any]:
        """Keeps a value and returns its token and the nocter_owned that carries it."""
        token = self.next_token()
        self.values[token] = value
        return token, ffi.new("nocter_owned *", {"data": ffi.cast("void *", token)})

    def take(self, owned: Any) -> Any:
        """The value that came back; None when nothing did."""
        return self.values.pop(int(ffi.cast("uintptr_t", owned.data)), None)


_stores: "weakref.WeakSet[Store]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    # The thread that held a lock is not in the child; calls there shall say Forked instead of waiting for it.
    for store in _stores:
        store.lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork_in_child)


class _JobInterrupt(Interrupt):
    """Belongs to a completion and ends with it."""

    def __init__(self, completion: "Completion") -> None:
        self._completion = completion

    @property
    def pointer(self) -> Any:
        return lib.nocter_completion_interrupt(self._completion.pointer)

    @property
    def closed(self) -> bool:
        return self._completion.closed


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
        return _JobInterrupt(self)

    def complete(self, output: Any = None) -> None:
        """Ends the job with an output, which nobody gets when the job was abandoned."""
        with self._store.lock:
            if lib.nocter_completion_abandoned(self.pointer):
                output = None
            token, owned = self._store.put(output)
            status = lib.nocter_completion_complete(self.pointer, owned)
            if status or output is None:
                del self._store.values[token]
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


def _how_often(times: Optional[int]) -> int:
    return 0 if times is None else times or int(lib.NOCTER_WAIT_NONE)


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
        options, out = ffi.new("nocter_blocking_options *"), ffi.new("nocter_blocking **")
        lib.nocter_blocking_options_init(options, ffi.sizeof("nocter_blocking_options"))
        try:
            options.maximum_jobs, options.workers = maximum_jobs, workers
            options.wait_spins, options.wait_yields = _how_often(wait_spins), _how_often(wait_yields)
        except OverflowError as problem:
            raise ValueError(f"a number given to Blocking is out of range: {problem}") from None
        self._store = Store()
        # What is told must not be destroyed while it can be told, so nocter counts it as well as we do.
        for given in (waiters, work):
            if given is not None and not isinstance(given, (EventFd, Signal)):
                raise TypeError(f"a nocter.EventFd or a nocter.Signal is needed, not {given!r}")
        notifiers = [None if given is None else given._notifier() for given in (waiters, work)]
        if notifiers[0] is not None:
            options.waiters = notifiers[0]
        if notifiers[1] is not None:
            options.work = notifiers[1]
        status = lib.nocter_blocking_create(options, out)
        if status:
            failure = error(status)
            for notifier in notifiers:
                if notifier is not None and notifier.drop:
                    notifier.drop(notifier.user)
            raise failure
        self._pointer = ffi.gc(out[0], lib.nocter_blocking_destroy)

    def submit(self, value: Any) -> JobId:
        """Hands a job in, never waits. Saturated says at which epoch, so that wait_epoch() misses no free slot."""
        pointer, out, epoch = self.pointer, ffi.new("nocter_job_id *"), ffi.new("nocter_epoch *")
        token, owned = self._store.put(value)
        status = lib.nocter_blocking_submit(pointer, owned, out, epoch)
        if status:
            failure = error(status)
            del self._store.values[token]
            if isinstance(failure, Saturated):
                failure.epoch = Epoch(epoch)
            raise failure
        return JobId(out)

    def claim(self, timeout: Optional[float] = None, interrupt: Optional[Interrupt] = None) -> RunningJob:
        """Takes the oldest queued job to run it. Empty or Timeout when there is none in time, Closed after shutdown."""
        pointer, out = self.pointer, ffi.new("nocter_running_job **")
        check(wait_until_done(lambda wait: lib.nocter_blocking_claim(pointer, wait, out), timeout, interrupt))
        return RunningJob(out[0], self._store)

    def take(self, job: JobId, timeout: Optional[float] = None, interrupt: Optional[Interrupt] = None) -> Any:
        """What came out of a job. Pending, Timeout and Interrupted leave it to be taken later, all else consumes it."""
        pointer, id, owned = self.pointer, _raw(job, JobId), ffi.new("nocter_owned *")
        check(wait_until_done(lambda wait: lib.nocter_blocking_take(pointer, id, wait, owned), timeout, interrupt))
        return self._store.take(owned)

    def query(self, job: JobId) -> JobState:
        """Where a job is. Changes nothing."""
        out = ffi.new("nocter_job_state *")
        check(lib.nocter_blocking_query(self.pointer, _raw(job, JobId), out))
        return JobState(out[0])

    def completed(self, capacity: int = 256) -> List[JobId]:
        """Which jobs ended since the last asking, each named once. A hint: takes nothing."""
        if not 1 <= capacity <= lib.NOCTER_BLOCKING_MAXIMUM_JOBS:
            raise ValueError(f"capacity must be from 1 to {lib.NOCTER_BLOCKING_MAXIMUM_JOBS}, not {capacity}")
        ids, count = ffi.new("nocter_job_id[]", capacity), ffi.new("size_t *")
        check(lib.nocter_blocking_completed(self.pointer, ids, capacity, count))
        return [JobId(ids[index]) for index in range(count[0])]

    def cancel(self, job: JobId) -> Tuple[JobState, Any]:
        """Ends the interest in a job. The state it was in, with its input (QUEUED) or output (COMPLETED), else None."""
        id, was, owned = _raw(job, JobId), ffi.new("nocter_job_state *"), ffi.new("nocter_owned *")
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
        pointer, seen, out = self.pointer, _raw(later_than, Epoch), ffi.new("nocter_epoch *")
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
        out = ffi.new("nocter_blocking_counts *")
        lib.nocter_blocking_counts_init(out, ffi.sizeof("nocter_blocking_counts"))
        check(lib.nocter_blocking_count(self.pointer, out))
        return Counts(*[getattr(out, name) for name in _COUNT_NAMES])

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
