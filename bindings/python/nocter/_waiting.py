"""Waits, interrupts, the eventfd and the versioned signal."""

import math
from typing import Any, Callable, Optional, Union

from ._errors import check
from ._ffi import ffi
from ._native import Handle, lib

# A wait is cut into slices of this length, so that a signal that another thread of the process took is seen too.
_SLICE_NS = 1_000_000_000
_LATEST_NS = 2**63 - 1


class Interrupt(Handle):
    """A flag that ends every wait that carries it, now or later, until it is cleared."""

    def __init__(self) -> None:
        out = ffi.new("nocter_interrupt **")
        check(lib.nocter_interrupt_create(out))
        self._pointer = ffi.gc(out[0], lib.nocter_interrupt_destroy)

    def raise_(self) -> None:
        """Ends every wait that carries it with Interrupted; may be called in a signal handler."""
        lib.nocter_interrupt_raise(self.pointer)

    def clear(self) -> None:
        """Takes the raise back, for the waits to come."""
        lib.nocter_interrupt_clear(self.pointer)

    @property
    def raised(self) -> bool:
        """Whether it is raised."""
        return bool(lib.nocter_interrupt_raised(self.pointer))

    def _describe(self) -> str:
        return "raised" if self.raised else "not raised"


def wait_until_done(
    call: Callable[[Any], Any], timeout: Optional[float], interrupt: Optional[Interrupt] = None
) -> Any:
    """Makes a waiting call and returns the status that ended the wait.

    A timeout of zero or less does not wait, None waits for ever. A signal ends a slice; Python then runs its handlers,
    and the next slice begins unless one of them raised (as the one of Ctrl-C does).
    """
    if interrupt is not None and not isinstance(interrupt, Interrupt):
        raise TypeError(f"a nocter.Interrupt is needed, not {interrupt!r}")
    carried = ffi.NULL if interrupt is None else interrupt.pointer  # holds the interrupt for as long as the wait lasts
    if timeout is not None:
        if math.isnan(timeout):
            raise ValueError("a timeout must be a number of seconds or None")
        if timeout <= 0 and interrupt is None:
            return call(ffi.NULL)
    start = lib.nocter_now_ns()
    deadline = _LATEST_NS if timeout is None or timeout > 9e9 else start + int(max(timeout, 0.0) * 1e9)
    wait = ffi.new("nocter_wait *")
    wait.interrupt = carried
    wait.flags = lib.NOCTER_WAIT_EINTR
    while True:
        wait.deadline_ns = min(deadline, lib.nocter_now_ns() + _SLICE_NS)
        status = call(wait)
        if status == lib.NOCTER_TIMEOUT and wait.deadline_ns < deadline:
            continue
        if status == lib.NOCTER_INTERRUPTED and not (interrupt and lib.nocter_interrupt_raised(carried)):
            continue
        return status


class EventFd(Handle):
    """A descriptor that becomes readable on a wake, for select, asyncio and the like. Clear it first, then query."""

    def __init__(self) -> None:
        out = ffi.new("nocter_eventfd **")
        check(lib.nocter_eventfd_create(out))
        self._pointer = ffi.gc(out[0], lib.nocter_eventfd_destroy)

    def fileno(self) -> int:
        """The descriptor to poll for reading; it stays nocter's."""
        return int(lib.nocter_eventfd_fd(self.pointer))

    def clear(self) -> None:
        """Makes it unreadable until the next wake."""
        lib.nocter_eventfd_clear(self.pointer)

    def _notifier(self) -> Any:
        return lib.nocter_eventfd_notifier(self.pointer)

    def _describe(self) -> str:
        return f"fd={self.fileno()}"


class Signal(Handle):
    """A versioned signal: read the version, test your state, and wait only while the version is the one read."""

    def __init__(self) -> None:
        out = ffi.new("nocter_signal **")
        check(lib.nocter_signal_create(out))
        self._pointer = ffi.gc(out[0], lib.nocter_signal_destroy)

    @property
    def version(self) -> int:
        """The version now: read it before testing the state. 0, which no signal ever has, in a forked child."""
        return int(lib.nocter_signal_version(self.pointer))

    def publish(self) -> int:
        """Says that the state has changed, and returns the new version; Closed after shutdown()."""
        out = ffi.new("uint64_t *")
        check(lib.nocter_signal_publish(self.pointer, out))
        return int(out[0])

    def wait(self, seen: int, timeout: Optional[float] = None, interrupt: Optional[Interrupt] = None) -> int:
        """Waits until the version is no longer the one seen, and returns the version now."""
        pointer, out = self.pointer, ffi.new("uint64_t *")
        check(wait_until_done(lambda wait: lib.nocter_signal_wait(pointer, seen, wait, out), timeout, interrupt))
        return int(out[0])

    def shutdown(self) -> None:
        """Closes it for good: every wait, now and later, ends with Closed. The version can still be read."""
        lib.nocter_signal_close(self.pointer)

    def close(self) -> None:
        if not self.closed:
            lib.nocter_signal_close(self.pointer)
        super().close()

    def _notifier(self) -> Any:
        return lib.nocter_signal_notifier(self.pointer)

    def _describe(self) -> str:
        return f"version={self.version}"



Notifiable = Union[EventFd, Signal]
