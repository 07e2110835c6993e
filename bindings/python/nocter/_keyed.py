"""The keyed queue: a bounded set of keys that are due. Notify, claim, complete.

    with nocter.Keyed() as queue, queue.serve(lambda made: print(made.key)):
        queue.notify("config")
        queue.shutdown(drain=True)
        queue.drained()

A key is bytes; a str stands for its UTF-8.
"""

import atexit
import contextlib
import ctypes
import enum
import time
import weakref
from collections import deque
from dataclasses import dataclass
from itertools import count as count_up
from typing import Any, Callable, Deque, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

from . import _service as service
from ._errors import Error, check, error
from ._ffi import ffi
from ._native import Handle, lib
from ._service import how_often
from ._serving import Workers, logger
from ._waiting import Interrupt, Notifiable, wait_until_done

Key = Union[bytes, str]
_LONGEST = 9.2e18  # nanoseconds, a little less than 63 bits of them


class Notified(enum.Enum):
    """What became of a notification."""

    ACCEPTED = lib.NOCTER_OK
    COALESCED = lib.NOCTER_COALESCED
    SATURATED = lib.NOCTER_SATURATED
    CLOSED = lib.NOCTER_CLOSED


@dataclass(frozen=True)
class KeyedCounts:
    """What a queue holds, in one moment, and the totals since it was made."""

    accepting: int
    waiting: int
    delayed: int
    active: int
    dirty: int
    retained: int
    maximum_keys: int
    workers: int
    accepted_new: int
    coalesced: int
    marked_dirty: int
    rejected_full: int
    rejected_closed: int
    started: int
    completed: int
    failed: int
    requeued: int
    retried: int
    discarded_waiting: int
    discarded_dirty: int
    resync_keys: int
    resync_rounds: int
    resync_failures: int
    exceptions: int
    oldest_waiting_ns: int
    longest_active_ns: int


def _text(key: Key) -> Tuple[Any, int]:
    data = key.encode() if isinstance(key, str) else key
    if not isinstance(data, bytes):
        raise TypeError(f"a key is bytes or str, not {key!r}")
    return ffi.from_buffer(data), len(data)


def _nanoseconds(seconds: float) -> int:
    return int(max(-_LONGEST, min(seconds * 1e9, _LONGEST)))


class _Trouble:
    """What sources have raised, until a claim raises it. A claim that waits carries the interrupt to hear of it."""

    def __init__(self) -> None:
        self.raised: Deque[BaseException] = deque()
        self.interrupt = Interrupt()

    def put(self, problem: BaseException) -> None:
        self.interrupt.raise_()
        self.raised.append(problem)

    def raise_one(self) -> None:
        if self.raised:
            self.interrupt.clear()
            with contextlib.suppress(IndexError):  # another thread was faster
                problem = self.raised.popleft()
                if self.raised:
                    self.interrupt.raise_()
                try:
                    raise problem
                finally:
                    del problem  # or the exception, its traceback and this frame would keep each other


class _Source:
    """Where a resync has its keys from: asked by threads of Python that claim, one at a time."""

    def __init__(self, keys: Callable[[], Iterable[Key]], trouble: _Trouble) -> None:
        self._keys, self.trouble = keys, trouble
        self._round: Optional[Iterator[Key]] = None
        self._given: Any = None  # what C still reads
        self.token = _next_token()
        _sources[self.token] = self

    def next(self, out: Any) -> int:
        try:
            if self._round is None:
                self._round = iter(self._keys())
            for key in self._round:
                self._given, out.size = _text(key)
                out.data = self._given
                return int(lib.NOCTER_OK)
            self._round = None
            return int(lib.NOCTER_EMPTY)
        except BaseException as problem:
            self.trouble.put(problem)
            return int(lib.NOCTER_E_STATE)


_next_token = count_up(1).__next__
_sources: "weakref.WeakValueDictionary[int, _Source]" = weakref.WeakValueDictionary()


def _next_key(user: Any, out: Any) -> int:
    source = _sources.get(int(ffi.cast("uintptr_t", user)))
    return int(lib.NOCTER_EMPTY) if source is None else source.next(out)


def _on_error(kind: Any, problem: Any, trace: Any) -> None:
    # Only an exception that comes from outside, like that of Ctrl-C, can hit the few steps before next() catches it.
    source = _sources.get(int(ffi.cast("uintptr_t", trace.tb_frame.f_locals["user"])))
    if source is not None:
        source.trouble.put(problem)


# Called inside of nocter_keyed_claim(), so by a thread of Python. There is one for all sources, and it is never freed:
# daemon threads may be in it when the interpreter goes.
_callback = ffi.callback("nocter_status(*)(void *, nocter_text *)", _next_key, lib.NOCTER_E_STATE, _on_error)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_callback))


def _claim(
    pointer: Any, trouble: _Trouble, timeout: Optional[float], interrupt: Optional[Interrupt]
) -> Tuple[int, Any]:
    """A status, and with NOCTER_OK a pass. Raises what a source has raised, instead of waiting on."""
    out = ffi.new("nocter_pass **")
    trouble.raise_one()

    def attempt(wait: Any) -> Any:
        status = lib.nocter_keyed_claim(pointer, wait, out)
        if status != lib.NOCTER_OK:
            trouble.raise_one()
        return status

    if interrupt is not None or (timeout is not None and timeout <= 0):
        return wait_until_done(attempt, timeout, interrupt), out[0]
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        left = None if deadline is None else deadline - time.monotonic()
        status = wait_until_done(attempt, left, trouble.interrupt)
        if status != lib.NOCTER_INTERRUPTED:
            return status, out[0]
        if not trouble.raised:  # another thread has raised it
            trouble.interrupt.clear()


class Pass(Handle):
    """One claimed key, and the one right, and duty, to end its pass. Left without that, it has failed."""

    def __init__(self, pointer: Any) -> None:
        self._pointer = pointer
        key = lib.nocter_pass_key(pointer)
        #: Which key this pass is of.
        self.key: bytes = ffi.buffer(key.data, key.size)[:] if key.size else b""

    @property
    def failures(self) -> int:
        """How often in a row this key has failed."""
        return int(lib.nocter_pass_failures(self.pointer))

    @property
    def interrupted(self) -> bool:
        """Whether the queue was closed without draining it: stop early if you can."""
        return bool(lib.nocter_pass_interrupted(self.pointer))

    @property
    def interrupt(self) -> Interrupt:
        """Raised when that happens: to carry in the waits the pass makes, until it ends."""
        return service.GuardInterrupt(self, lib.nocter_pass_interrupt)

    def complete(self) -> None:
        """Ends the pass well."""
        self._end(lib.nocter_pass_complete(self.pointer))

    def fail(self) -> None:
        """Ends the pass as failed. The queue does not retry by itself."""
        self._end(lib.nocter_pass_fail(self.pointer))

    def retry_after(self, delay: Optional[float] = None) -> None:
        """Ends the pass as failed, with the key kept and due again so many seconds from now.

        Without a delay it is after a time that grows with each failure in a row, by the options of the queue.
        """
        self._end(lib.nocter_pass_retry_after(self.pointer, -1 if delay is None else max(0, _nanoseconds(delay))))

    def _end(self, status: int) -> None:
        check(status)
        self._pointer = None

    def close(self) -> None:
        """Gives the pass up: it failed."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            lib.nocter_pass_drop(pointer)

    def __del__(self) -> None:
        self.close()

    def _describe(self) -> str:
        return f"of {self.key!r}, {self.failures} failures"


class Keyed(Handle):
    """The queue. `waiters` is woken when a key may be accepted again, and when a queue that was shut down is drained;
    `work` when there may be something to claim.

    Every timeout and every delay is in seconds: a timeout of None waits for ever, of zero does not wait. `wait_spins`
    and `wait_yields` are those of Blocking.
    """

    def __init__(
        self,
        maximum_keys: int = 1024,
        workers: int = 2,
        *,
        maximum_key_size: int = 256,
        backoff_initial: float = 0.01,
        backoff_maximum: float = 60.0,
        backoff_percent: int = 200,
        backoff_jitter_percent: int = 10,
        waiters: Optional[Notifiable] = None,
        work: Optional[Notifiable] = None,
        wait_spins: Optional[int] = None,
        wait_yields: Optional[int] = None,
    ) -> None:
        settings = {
            "maximum_keys": maximum_keys,
            "workers": workers,
            "maximum_key_size": maximum_key_size,
            "backoff_initial_ns": _nanoseconds(backoff_initial),
            "backoff_maximum_ns": _nanoseconds(backoff_maximum),
            "backoff_percent": backoff_percent,
            "backoff_jitter_percent": backoff_jitter_percent,
            "wait_spins": how_often(wait_spins),
            "wait_yields": how_often(wait_yields),
        }
        self._trouble = _Trouble()
        self._source: Optional[_Source] = None
        self._pointer = ffi.gc(service.create("keyed", settings, waiters, work), lib.nocter_keyed_destroy)

    def notify(self, key: Key) -> Notified:
        """Says that a key is due, never waits. ACCEPTED, or COALESCED with a pass that is due already; else raises."""
        return self._accepted(lib.nocter_keyed_notify(self.pointer, _text(key)))

    def notify_after(self, key: Key, delay: float) -> Notified:
        """Says that a key will be due; the earliest time that was asked for wins."""
        return self._accepted(lib.nocter_keyed_notify_after(self.pointer, _text(key), _nanoseconds(delay)))

    @staticmethod
    def _accepted(status: int) -> Notified:
        if status not in (lib.NOCTER_OK, lib.NOCTER_COALESCED):
            raise error(status)
        return Notified(status)

    def notify_many(self, keys: Sequence[Key]) -> List[Notified]:
        """notify() for many keys, with one wake: what became of each. An error changes nothing."""
        given = [_text(key) for key in keys]
        texts, each = ffi.new("nocter_text[]", given), ffi.new("nocter_status[]", len(given))
        status = lib.nocter_keyed_notify_many(self.pointer, texts, len(given), each)
        if status < 0:
            raise error(status)
        return [Notified(one) for one in each]

    def claim(self, timeout: Optional[float] = None, interrupt: Optional[Interrupt] = None) -> Pass:
        """Takes the key that has waited longest. Empty or Timeout when none is due in time, Closed when none will be.

        May ask the source of resync() for keys on this thread, and raises what that raised.
        """
        status, claimed = _claim(self.pointer, self._trouble, timeout, interrupt)
        check(status)
        return Pass(claimed)

    def resync(self, keys: Callable[[], Iterable[Key]], interval: float, slice: int) -> None:
        """Notifies every key there is again and again, at most `slice` of them every `interval` seconds.

        `keys` is called for each round of all keys, a generator function for example. The threads that claim ask for the
        keys, one at a time. An exception ends the slice, and is raised by a claim.
        """
        source = _Source(keys, self._trouble)
        native = ffi.new("nocter_keyed_source *", {"next": _callback, "user": ffi.cast("void *", source.token)})
        check(lib.nocter_keyed_resync(self.pointer, native, _nanoseconds(interval), slice))
        self._source = source
        _resyncing.add(self)

    def end_resync(self) -> None:
        """No more of that."""
        check(lib.nocter_keyed_resync(self.pointer, ffi.NULL, 0, 0))
        self._source = None

    def next_due(self) -> Optional[float]:
        """When a delayed key or a slice of resync() will be due, as time.monotonic() counts; None: there is no such.

        For event loops that claim without waiting; others need not ask.
        """
        out = ffi.new("int64_t *")
        status = lib.nocter_keyed_next_due(self.pointer, out)
        if status == lib.NOCTER_EMPTY:
            return None
        check(status)
        return int(out[0]) / 1e9

    def shutdown(self, drain: bool = False) -> None:
        """Refuses further notifications for good, and ends resync. Keys that wait are discarded, and passes that run are
        interrupted; or, to drain it, each key still gets its pass. A queue that drains may be shut down once more."""
        lib.nocter_keyed_close(self.pointer, lib.NOCTER_CLOSE_DRAIN if drain else lib.NOCTER_CLOSE_DISCARD)

    def drained(self, timeout: Optional[float] = None, interrupt: Optional[Interrupt] = None) -> None:
        """Waits until a queue that was shut down has no key left and runs no pass."""
        pointer = self.pointer
        check(wait_until_done(lambda wait: lib.nocter_keyed_drained(pointer, wait), timeout, interrupt))

    def count(self) -> KeyedCounts:
        """A snapshot taken in one moment."""
        return service.count("keyed", self.pointer, KeyedCounts)

    def serve(self, make: Callable[[Pass], object], threads: Optional[int] = None, *, name: str = "nocter") -> Workers:
        """Starts Python threads, as many as the queue has workers, that make passes until it is shut down and empty.

        A pass that `make` has not ended itself ends well when it returns, and has failed when it raises.
        """
        pointer, trouble = self.pointer, self._trouble

        def serve_one(interrupt: Interrupt) -> bool:
            try:
                status, claimed = _claim(pointer, trouble, None, interrupt)
            except BaseException:
                logger.exception("the source of a resync has failed")
                return True
            if status:
                return False
            with Pass(claimed) as made:
                try:
                    make(made)
                    if not made.closed:
                        made.complete()
                except BaseException:
                    logger.exception("the pass of %r has failed", made.key)
            return True

        return Workers(serve_one, self.count().workers if threads is None else threads, name)

    def close(self) -> None:
        """Shuts the queue down, discarding what waits, and gives it up. Passes that are out stay valid."""
        if not self.closed:
            lib.nocter_keyed_close(self.pointer, lib.NOCTER_CLOSE_DISCARD)
            super().close()

    def __del__(self) -> None:
        self.close()

    def _describe(self) -> str:
        now = self.count()
        state = "open" if now.accepting else "shut down"
        return f"{state}, {now.retained} of {now.maximum_keys} keys, {now.active} active on {now.workers} workers"


_resyncing: "weakref.WeakSet[Keyed]" = weakref.WeakSet()


def _at_exit() -> None:
    """Daemon threads that claim shall find no source any more: nothing of Python's can be called once it ends."""
    for queue in list(_resyncing):
        if not queue.closed:
            with contextlib.suppress(Error):
                queue.end_resync()


atexit.register(_at_exit)
