"""Statuses as exceptions: one tree, a class by meaning, the status and the library's own words in each."""

from typing import Dict, Sequence, Tuple, Type
from uuid import UUID

from ._ffi import ffi
from ._native import lib


class Error(Exception):
    """What a call of nocter said instead of "done". The class tells the meaning, `status` the exact status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> Tuple[Type["Error"], Tuple[int, str]]:
        return type(self), (self.status, str(self))


class Timeout(Error, TimeoutError):
    """The time given for a wait passed."""


class Empty(Timeout):
    """Nothing to claim now, and a timeout of zero was given."""


class Pending(Timeout):
    """It has not happened yet, and a timeout of zero was given."""


class Saturated(Error):
    """At its bound: nothing was kept. `epoch` is the capacity epoch of that moment, see Blocking.wait_epoch()."""

    epoch: object = None


class Closed(Error, RuntimeError):
    """Closed or shut down: nothing further will come."""


class WorkerLost(Error):
    """The owner of the job went away without a result."""


class Interrupted(Error):
    """The interrupt that the wait carried is raised."""


class Exists(Error):
    """Somebody was first. `ids` names, for each submission, the task that has its key; `value` is the value there is."""

    ids: Sequence[UUID] = ()
    value: object = None


class Held(Error):
    """The lock is held by another owner."""


class Cancelled(Error):
    """The task was cancelled: this outcome or submission gave way to that."""


class ArgumentError(Error, ValueError):
    """An argument is out of range, or a guard was consumed before."""


class ForeignIdentity(Error):
    """An identity or epoch of another service."""


class UnknownIdentity(Error):
    """No such identity here, or it was consumed already."""


class StateError(Error):
    """The right object at the wrong moment."""


class ReentrantError(Error):
    """A call from inside a notifier of the same service."""


class OutOfMemory(Error, MemoryError):
    """Memory, threads or descriptors are exhausted."""


class LimitError(Error):
    """Larger than a configured limit."""


class JsonError(Error, ValueError):
    """Not UTF-8 JSON."""


class StoreError(Error):
    """The database refused."""


class Unavailable(Error):
    """The database cannot be reached now; the call may be repeated."""


class LeaseLost(Error):
    """This run, or this lock, is another's by now."""


class VersionError(Error):
    """The database is of a newer nocter, or not nocter's."""


class Forked(Error):
    """The object was made in the parent of this process."""


class WouldDeadlock(Error):
    """This wait could only be ended by the thread that makes it."""


class InternalError(Error):
    """A defect of nocter."""


_CLASSES: Dict[int, Type[Error]] = {
    lib.NOCTER_EMPTY: Empty,
    lib.NOCTER_PENDING: Pending,
    lib.NOCTER_SATURATED: Saturated,
    lib.NOCTER_WORKER_LOST: WorkerLost,
    lib.NOCTER_TIMEOUT: Timeout,
    lib.NOCTER_INTERRUPTED: Interrupted,
    lib.NOCTER_CLOSED: Closed,
    lib.NOCTER_EXISTS: Exists,
    lib.NOCTER_HELD: Held,
    lib.NOCTER_CANCELLED: Cancelled,
    lib.NOCTER_E_ARGUMENT: ArgumentError,
    lib.NOCTER_E_FOREIGN: ForeignIdentity,
    lib.NOCTER_E_UNKNOWN: UnknownIdentity,
    lib.NOCTER_E_STATE: StateError,
    lib.NOCTER_E_REENTRANT: ReentrantError,
    lib.NOCTER_E_MEMORY: OutOfMemory,
    lib.NOCTER_E_LIMIT: LimitError,
    lib.NOCTER_E_JSON: JsonError,
    lib.NOCTER_E_STORE: StoreError,
    lib.NOCTER_E_UNAVAILABLE: Unavailable,
    lib.NOCTER_E_LEASE_LOST: LeaseLost,
    lib.NOCTER_E_VERSION: VersionError,
    lib.NOCTER_E_FORKED: Forked,
    lib.NOCTER_E_WOULD_DEADLOCK: WouldDeadlock,
    lib.NOCTER_E_INTERNAL: InternalError,
}


def error(status: int) -> Error:
    """The exception of a status; asked in the same thread, before its next call of nocter."""
    kind = _CLASSES.get(status, Error)
    message = ""
    if status < 0:  # outcomes have no text of their own, errors do
        message = ffi.string(lib.nocter_error_message()).decode("utf-8", "replace")
    if not message:
        message = (kind.__doc__ or "").split(".", 1)[0]
    name = ffi.string(lib.nocter_status_name(status)).decode("ascii")
    return kind(status, f"{message} ({name})")


def check(status: int) -> None:
    """Nothing for NOCTER_OK, the exception for all else."""
    if status:
        raise error(status)
