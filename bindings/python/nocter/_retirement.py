"""Retirement: resources whose end may block are handed to somebody who ends them, and handing over cannot fail.

    with nocter.Retirement() as retirement, retirement.serve():
        with retirement.reserve() as permit:
            file = open(path, "w")
            owner = permit.attach(file, file.close)
        owner.value.write("text")
        owner.close()  # returns at once; a thread that serves closes the file

While a resource has its owner, the owner keeps it; from its retirement to its cleanup it waits in a dict, behind a token.
"""

import atexit
import contextlib
import enum
from dataclasses import dataclass
from typing import Any, Callable, Optional, Tuple

from . import _service as service
from ._errors import Forked, StateError, check, error
from ._ffi import ffi
from ._native import Handle, lib
from ._service import Epoch, Identity, how_often, raw, saturated
from ._serving import Workers, logger
from ._waiting import Interrupt, Notifiable, wait_until_done

End = Callable[[], Optional[int]]


class RetirementId(Identity):
    """Which retirement. Never issued twice."""

    __slots__ = ()
    _equal = lib.nocter_retirement_id_equal


class RetirementState(enum.IntEnum):
    """Where a retirement is."""

    QUEUED = lib.NOCTER_RETIREMENT_QUEUED
    RUNNING = lib.NOCTER_RETIREMENT_RUNNING
    COMPLETED = lib.NOCTER_RETIREMENT_COMPLETED


@dataclass(frozen=True)
class RetirementCounts:
    """What a service holds, in one moment, and the totals since it was made."""

    accepting: int
    permits: int
    live: int
    queued: int
    running: int
    completed: int
    reserved: int
    maximum_resources: int
    workers: int
    epoch: int
    reservations: int
    saturated: int
    permits_dropped: int
    unobserved_done: int
    detached_done: int
    taken: int
    detached_completed: int
    cleaned: int
    failed: int
    lost: int
    failed_unobserved: int
    exceptions: int
    oldest_queued_ns: int
    longest_running_ns: int


def _end(end: Optional[End]) -> None:
    """Ends a resource where nobody hears how it went, and nobody may be disturbed by that."""
    try:
        if end is not None and not _Store.exiting:
            end()
    except Exception:
        logger.exception("a resource could not be ended")


class _Store(service.Store):
    """The resources that wait for their cleanup."""

    exiting = False  # of the interpreter: nothing of its programs may be run any more

    def __init__(self) -> None:
        super().__init__()
        self.gone = False  # whether the service was destroyed, so that nobody can claim what is retired

    def end_all(self) -> None:
        """Ends what nobody else can end, on the thread that comes upon it."""
        while self.values and not _Store.exiting:
            with contextlib.suppress(KeyError):  # another thread was faster
                _end(self.values.popitem()[1][1])

    def destroy(self, pointer: Any) -> None:
        self.gone = True
        lib.nocter_retirement_destroy(pointer)
        self.end_all()


def _at_exit() -> None:
    _Store.exiting = True


atexit.register(_at_exit)


class Permit(Handle):
    """A place set apart for a resource that may not exist yet. Left without attach(), it is given back."""

    def __init__(self, pointer: Any, store: _Store) -> None:
        self._pointer, self._store = pointer, store

    def attach(self, value: Any, end: Optional[End] = None) -> "Resource":
        """The owner of a resource; this permit is closed thereafter. Cannot fail, whatever became of the service.

        `end` is what serving threads call to end the resource; the number it returns, if any, is the code of the
        cleanup, and whatever it raises makes it a lost one.
        """
        token, owned = self._store.next_token(), ffi.new("nocter_owned *")
        owned.data = ffi.cast("void *", token)
        owner = lib.nocter_permit_attach(self.pointer, owned)
        if not owner:
            raise Forked(lib.NOCTER_E_FORKED, "the permit belongs to the parent of this process")
        self._pointer = None
        return Resource(owner, self._store, token, value, end)

    def close(self) -> None:
        """Gives the place back."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            lib.nocter_permit_drop(pointer)

    def __del__(self) -> None:
        self.close()


class Resource(Handle):
    """The owner of a live resource. Left, also by its last reference, it queues the resource for its cleanup."""

    def __init__(self, pointer: Any, store: _Store, token: int, value: Any, end: Optional[End]) -> None:
        self._pointer, self._store, self._token, self._held = pointer, store, token, (value, end)

    @property
    def value(self) -> Any:
        """The resource, lent for as long as it has its owner."""
        self.pointer  # a closed one has nothing to lend
        return self._held[0]

    def retire(self) -> RetirementId:
        """Queues the resource for its cleanup, and returns the identity to ask with, until it is taken or detached."""
        out = ffi.new("nocter_retirement_id *")
        status = self._hand_over(lambda pointer: lib.nocter_resource_retire(pointer, out))
        check(status)
        return RetirementId(out)

    def close(self) -> None:
        """Queues the resource for its cleanup: no wait, no failure, and nobody will ask how it went."""
        if self._pointer is not None:
            self._hand_over(lib.nocter_resource_drop)

    def _hand_over(self, call: Callable[[Any], Any]) -> int:
        pointer, store = self.pointer, self._store
        store.values[self._token] = self._held
        status = call(pointer) or 0
        if status not in (lib.NOCTER_OK, lib.NOCTER_CLOSED):
            failure = error(status)
            del store.values[self._token]
            raise failure
        self._pointer, self._held = None, (None, None)
        if store.gone:
            store.end_all()
        return int(status)

    def __del__(self) -> None:
        self.close()

    def _describe(self) -> str:
        return f"of {self._held[0]!r}"


class Cleanup(Handle):
    """The one right, and duty, to end one resource. Left without complete(), it has failed."""

    def __init__(self, pointer: Any, store: _Store) -> None:
        self._pointer = pointer
        self._held: Optional[Tuple[Any, Optional[End]]] = None
        owned = ffi.new("nocter_owned *")
        check(lib.nocter_cleanup_begin(pointer, owned))
        self._held = store.take(owned)

    def begin(self) -> Any:
        """Takes the resource out, to end it; StateError when that was done."""
        return self._begin()[0]

    def _begin(self) -> Tuple[Any, Optional[End]]:
        self.pointer
        held, self._held = self._held, None
        if held is None:
            raise StateError(lib.NOCTER_E_STATE, "the resource was taken out already")
        return held

    def complete(self, code: int = 0) -> None:
        """Ends the cleanup, after the resource: 0 is clean, anything else is told to who takes it."""
        if self._held is not None:
            raise StateError(lib.NOCTER_E_STATE, "the resource was not taken out yet")
        if not -(2**31) <= code < 2**31:
            raise ValueError(f"a code has 32 bits: {code}")
        check(lib.nocter_cleanup_complete(self.pointer, code))
        self._pointer = None

    def run(self) -> None:
        """Ends the resource by what was attached with it, and completes with the code that this returned."""
        with self:
            _, end = self._begin()
            code = None if end is None else end()
            del end  # nothing of the resource outlives its cleanup here
            self.complete(0 if code is None else code)

    def close(self) -> None:
        """Gives the cleanup up: it failed. A resource that was not taken out is ended by what was attached with it."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            held, self._held = self._held, None
            try:
                if held is not None:
                    _end(held[1])
            finally:
                del held
                lib.nocter_cleanup_drop(pointer)

    def __del__(self) -> None:
        self.close()


class Retirement(Handle):
    """The service. `waiters` is woken after every transition a waiter can care about, `work` when there may be work.

    Every timeout is in seconds: None waits for ever, zero does not wait. `wait_spins` and `wait_yields` are those of
    Blocking.
    """

    def __init__(
        self,
        maximum_resources: int = 64,
        workers: int = 2,
        *,
        waiters: Optional[Notifiable] = None,
        work: Optional[Notifiable] = None,
        wait_spins: Optional[int] = None,
        wait_yields: Optional[int] = None,
    ) -> None:
        settings = {
            "maximum_resources": maximum_resources,
            "workers": workers,
            "wait_spins": how_often(wait_spins),
            "wait_yields": how_often(wait_yields),
        }
        self._store = _Store()
        self._pointer = ffi.gc(service.create("retirement", settings, waiters, work), self._store.destroy)

    def reserve(self, timeout: Optional[float] = 0.0, interrupt: Optional[Interrupt] = None) -> Permit:
        """Sets a place apart, before the resource is made. Saturated, with the epoch, when there is none in time."""
        pointer, out, epoch = self.pointer, ffi.new("nocter_permit **"), ffi.new("nocter_epoch *")

        def attempt(wait: Any) -> Any:
            # Reserve, wait, reserve: the place that is freed after the first is seen by the second.
            while True:
                status = lib.nocter_retirement_reserve(pointer, out, epoch)
                if status != lib.NOCTER_SATURATED:
                    return status
                status = lib.nocter_retirement_wait_epoch(pointer, epoch[0], wait, epoch)
                if status:
                    return status

        status = wait_until_done(attempt, timeout, interrupt)
        if status in (lib.NOCTER_PENDING, lib.NOCTER_TIMEOUT):
            raise saturated(epoch)
        check(status)
        return Permit(out[0], self._store)

    def claim(self, timeout: Optional[float] = None, interrupt: Optional[Interrupt] = None) -> Cleanup:
        """Takes the resource that was queued first, to end it. Closed once admission is closed and nothing is left."""
        pointer, out = self.pointer, ffi.new("nocter_cleanup **")
        check(wait_until_done(lambda wait: lib.nocter_retirement_claim(pointer, wait, out), timeout, interrupt))
        return Cleanup(out[0], self._store)

    def take(
        self, retirement: RetirementId, timeout: Optional[float] = None, interrupt: Optional[Interrupt] = None
    ) -> int:
        """The code a cleanup ended with; WorkerLost when it has none. Both consume the identity."""
        pointer, id, out = self.pointer, raw(retirement, RetirementId), ffi.new("int32_t *")
        check(wait_until_done(lambda wait: lib.nocter_retirement_take(pointer, id, wait, out), timeout, interrupt))
        return int(out[0])

    def query(self, retirement: RetirementId) -> RetirementState:
        """Where a retirement is. Changes nothing."""
        out = ffi.new("nocter_retirement_state *")
        check(lib.nocter_retirement_query(self.pointer, raw(retirement, RetirementId), out))
        return RetirementState(out[0])

    def detach(self, retirement: RetirementId) -> None:
        """Ends the interest in a retirement. Its cleanup goes on; a completion gives its place back."""
        check(lib.nocter_retirement_detach(self.pointer, raw(retirement, RetirementId)))

    def detach_all(self) -> None:
        """The same for every identity there is."""
        lib.nocter_retirement_detach_all(self.pointer)

    def epoch(self) -> Epoch:
        """The capacity epoch now."""
        out = ffi.new("nocter_epoch *")
        check(lib.nocter_retirement_epoch(self.pointer, out))
        return Epoch(out)

    def wait_epoch(
        self, later_than: Epoch, timeout: Optional[float] = None, interrupt: Optional[Interrupt] = None
    ) -> Epoch:
        """Waits until an occupied place became free after that moment, and returns the epoch now."""
        pointer, seen, out = self.pointer, raw(later_than, Epoch), ffi.new("nocter_epoch *")
        call = lib.nocter_retirement_wait_epoch
        check(wait_until_done(lambda wait: call(pointer, seen, wait, out), timeout, interrupt))
        return Epoch(out)

    def shutdown(self) -> None:
        """Closes admission for good: no new permits. Everything that was reserved before goes on."""
        lib.nocter_retirement_close(self.pointer)

    def drained(self, timeout: Optional[float] = None, interrupt: Optional[Interrupt] = None) -> None:
        """Waits until no place is occupied, which is final after shutdown()."""
        pointer = self.pointer
        check(wait_until_done(lambda wait: lib.nocter_retirement_drained(pointer, wait), timeout, interrupt))

    def count(self) -> RetirementCounts:
        """A snapshot taken in one moment."""
        return service.count("retirement", self.pointer, RetirementCounts)

    def serve(self, threads: Optional[int] = None, *, name: str = "nocter") -> Workers:
        """Starts Python threads, as many as the service has workers, that run() cleanups until nothing will come."""
        pointer, store = self.pointer, self._store

        def serve_one(interrupt: Interrupt) -> bool:
            out = ffi.new("nocter_cleanup **")
            if wait_until_done(lambda wait: lib.nocter_retirement_claim(pointer, wait, out), None, interrupt):
                return False
            try:
                Cleanup(out[0], store).run()
            except BaseException:
                logger.exception("a resource could not be ended")
            return True

        return Workers(serve_one, self.count().workers if threads is None else threads, name)

    def close(self) -> None:
        """Closes admission, detaches every waiter, and gives the service up. Waits for nothing.

        Threads that serve, or claim just now, go on until the last owner has been cleaned. Where there are none, what
        is queued is ended here, and what is retired later is ended by whoever does that.
        """
        if not self.closed:
            lib.nocter_retirement_close(self.pointer)
            lib.nocter_retirement_detach_all(self.pointer)
            super().close()

    def __del__(self) -> None:
        self.close()

    def _describe(self) -> str:
        now = self.count()
        state = "open" if now.accepting else "shut down"
        return f"{state}, {now.reserved} of {now.maximum_resources} places, {now.running} running on {now.workers} workers"
