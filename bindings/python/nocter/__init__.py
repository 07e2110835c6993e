"""Hand-offs of work with one owner at every moment, a bound, and no lost wake-up.

    with nocter.Executor(max_workers=4, maximum_jobs=256) as executor:
        print(executor.submit(pow, 2, 10).result())

Executor runs callables, and nocter.aio.Executor lets an asyncio loop await them; Blocking is the service below it,
for those who claim and complete jobs themselves; Retirement ends resources whose end may block; Keyed says which
things are to be looked at; Signal, Interrupt and EventFd are what the waits are made of. nocter.tasks has tasks that
outlive the process. Whatever does not work out is an Error of a class by meaning.
"""

from ._blocking import Blocking, Completion, Counts, JobId, JobState, RunningJob
from ._errors import (
    ArgumentError,
    Cancelled,
    Closed,
    Empty,
    Error,
    Exists,
    ForeignIdentity,
    Forked,
    Held,
    InternalError,
    Interrupted,
    JsonError,
    LeaseLost,
    LimitError,
    OutOfMemory,
    Pending,
    ReentrantError,
    Saturated,
    StateError,
    StoreError,
    Timeout,
    Unavailable,
    UnknownIdentity,
    VersionError,
    WorkerLost,
    WouldDeadlock,
)
from ._executor import Executor
from ._ffi import ffi as _ffi
from ._keyed import Keyed, KeyedCounts, Notified, Pass
from ._native import lib as _lib
from ._native import library_path
from ._retirement import (
    Cleanup,
    Permit,
    Resource,
    Retirement,
    RetirementCounts,
    RetirementId,
    RetirementState,
)
from ._service import Epoch
from ._serving import Workers
from ._waiting import EventFd, Interrupt, Signal

__version__: str = _ffi.string(_lib.nocter_version()).decode("ascii")

__all__ = [
    "ArgumentError",
    "Blocking",
    "Cancelled",
    "Cleanup",
    "Closed",
    "Completion",
    "Counts",
    "Empty",
    "Epoch",
    "Error",
    "EventFd",
    "Executor",
    "Exists",
    "ForeignIdentity",
    "Forked",
    "Held",
    "InternalError",
    "Interrupt",
    "Interrupted",
    "JobId",
    "JobState",
    "JsonError",
    "Keyed",
    "KeyedCounts",
    "LeaseLost",
    "LimitError",
    "Notified",
    "OutOfMemory",
    "Pass",
    "Pending",
    "Permit",
    "ReentrantError",
    "Resource",
    "Retirement",
    "RetirementCounts",
    "RetirementId",
    "RetirementState",
    "RunningJob",
    "Saturated",
    "Signal",
    "StateError",
    "StoreError",
    "Timeout",
    "Unavailable",
    "UnknownIdentity",
    "VersionError",
    "WorkerLost",
    "Workers",
    "WouldDeadlock",
    "library_path",
]

# The public place of a name is here, whichever file it is written in.
for _name in __all__:
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = __name__
