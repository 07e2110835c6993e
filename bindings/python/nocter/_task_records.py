"""What durable tasks are made of: records, messages, events and submissions, with the JSON and the times in them."""

from __future__ import annotations

import enum
import json
import time
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, List, Optional, Sequence, Tuple, Union

from ._errors import Cancelled, Error, check
from ._ffi import ffi
from ._native import Handle, lib

Id = Union[uuid.UUID, str]
When = Union[datetime, timedelta]
Span = Union[timedelta, float]
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NO_ID = bytes(16)


class Status(enum.IntEnum):
    """Where a task stands."""

    QUEUED = lib.NOCTER_TASK_QUEUED
    RUNNING = lib.NOCTER_TASK_RUNNING
    SUSPENDED = lib.NOCTER_TASK_SUSPENDED
    COMPLETED = lib.NOCTER_TASK_COMPLETED
    FAILED = lib.NOCTER_TASK_FAILED
    CANCELLED = lib.NOCTER_TASK_CANCELLED


class Wake(enum.IntEnum):
    """Why a round was started."""

    FIRST = lib.NOCTER_WAKE_FIRST
    JOIN = lib.NOCTER_WAKE_JOIN
    FAILURE = lib.NOCTER_WAKE_FAILURE
    MESSAGE = lib.NOCTER_WAKE_MESSAGE
    TIMER = lib.NOCTER_WAKE_TIMER
    RETRY = lib.NOCTER_WAKE_RETRY
    RESCUE = lib.NOCTER_WAKE_RESCUE


class Until(enum.IntEnum):
    """What a task suspends until."""

    NOTHING = lib.NOCTER_UNTIL_NOTHING
    TASKS = lib.NOCTER_UNTIL_TASKS
    CHILDREN = lib.NOCTER_UNTIL_CHILDREN
    NOTIFIED = lib.NOCTER_UNTIL_NOTIFIED


class KeyScope(enum.IntEnum):
    """Where a key is the only one of its name: among live tasks of a type, under a parent, in a tree."""

    LIVE_TYPE = lib.NOCTER_KEY_LIVE_TYPE
    PARENT = lib.NOCTER_KEY_PARENT
    TREE = lib.NOCTER_KEY_TREE


class EventKind(enum.IntEnum):
    """What happened to a task."""

    SUBMITTED = lib.NOCTER_EVENT_SUBMITTED
    STARTED = lib.NOCTER_EVENT_STARTED
    STATE = lib.NOCTER_EVENT_STATE
    SUSPENDED = lib.NOCTER_EVENT_SUSPENDED
    WOKEN = lib.NOCTER_EVENT_WOKEN
    MESSAGE = lib.NOCTER_EVENT_MESSAGE
    RETRIED = lib.NOCTER_EVENT_RETRIED
    RESCUED = lib.NOCTER_EVENT_RESCUED
    HANDED_BACK = lib.NOCTER_EVENT_HANDED_BACK
    CANCEL_REQUESTED = lib.NOCTER_EVENT_CANCEL_REQUESTED
    ENDED = lib.NOCTER_EVENT_ENDED


class TaskFailed(Error):
    """The task has failed; `task` is its record."""

    task: Optional[Record] = None


class Raw(str):
    """JSON that is written already: it is kept byte for byte."""


# ---- Between Python and C ---------------------------------------------------------------------------------------


def text(value: Union[str, bytes]) -> Tuple[Any, int]:
    """A nocter_text; what it points to lives as long as the tuple. What is no UTF-8 the library refuses."""
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return ffi.from_buffer(data), len(data)


def _default(value: object) -> str:
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{value!r} is no JSON")


def to_json(value: Any) -> Tuple[Any, int]:
    """Any value as a nocter_text of JSON. UUIDs and datetimes become strings."""
    if isinstance(value, Raw):
        return text(value)
    return text(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_default))


def written_json(written: Tuple[Any, int]) -> str:
    """What to_json() wrote."""
    return bytes(ffi.buffer(*written)).decode()


def string(given: Any) -> str:
    """What a nocter_text says."""
    return bytes(ffi.buffer(given.data, given.size)).decode("utf-8", "replace") if given.size else ""


def from_json(given: str) -> Any:
    """The value; None for the empty text."""
    return json.loads(given) if given else None


def raw_id(id: Optional[Id]) -> Tuple[bytes]:
    """A nocter_task_id, of an identity or of its text; None is none."""
    if id is None:
        return (_NO_ID,)
    if isinstance(id, str):
        id = uuid.UUID(id)
    if not isinstance(id, uuid.UUID):
        raise TypeError(f"a task is named by a uuid.UUID or its text, not by {id!r}")
    return (id.bytes,)


def id_of(raw: Any) -> Optional[uuid.UUID]:
    """Of a nocter_task_id; None when it is none."""
    data = bytes(ffi.buffer(raw.bytes))
    return None if data == _NO_ID else uuid.UUID(bytes=data)


def sure_id(raw: Any) -> uuid.UUID:
    """Of a nocter_task_id that is one."""
    return uuid.UUID(bytes=bytes(ffi.buffer(raw.bytes)))


def new_id() -> uuid.UUID:
    """An identity for a task to come, so that a submit that is repeated makes no second one."""
    return sure_id(lib.nocter_task_id_make())


def time_of(ms: int) -> Optional[datetime]:
    """A point in time, in UTC; None for zero."""
    return _EPOCH + timedelta(milliseconds=ms) if ms else None


def sure_time(ms: int) -> datetime:
    """A point in time, in UTC."""
    return _EPOCH + timedelta(milliseconds=ms)


def milliseconds(span: Span) -> int:
    """Of a timedelta or of seconds; never rounded to nothing."""
    span = span if isinstance(span, timedelta) else timedelta(seconds=span)
    return -(-span // timedelta(milliseconds=1))


def moment(when: Optional[When], now_ms: int) -> int:
    """Unix time in ms, of a point in time or of a time from now; 0 for None."""
    if when is None:
        return 0
    if isinstance(when, timedelta):
        return max(1, now_ms + milliseconds(when))
    if when.tzinfo is None:
        raise ValueError(f"{when!r} has no time zone")
    return max(1, -(-(when - _EPOCH) // timedelta(milliseconds=1)))


class Clock(Handle):
    """A clock that stands still until it is told to go on: for tests of delays, leases and retention."""

    def __init__(self, now: Optional[datetime] = None) -> None:
        out = ffi.new("nocter_clock **")
        start = moment(now, 0) if now is not None else time.time_ns() // 1_000_000
        check(lib.nocter_clock_create(start, out))
        self._pointer = ffi.gc(out[0], lib.nocter_clock_destroy)

    @property
    def now_ms(self) -> int:
        """What it shows, as a Unix time in milliseconds."""
        return int(lib.nocter_clock_now_ms(self.pointer))

    @property
    def now(self) -> datetime:
        """What it shows."""
        return sure_time(self.now_ms)

    def advance(self, by: Span) -> None:
        """Moves it, forward or back, by a timedelta or by seconds; stores that use it look at what has come due."""
        lib.nocter_clock_advance(self.pointer, milliseconds(by))

    def _describe(self) -> str:
        return self.now.isoformat()


# ---- Records ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failure:
    """Why a try failed: what sort for programs, what happened for people; where and when."""

    kind: str
    message: str
    detail: str
    attempt: int
    node: str
    at: datetime


@dataclass(frozen=True)
class Record:
    """All there is to know of a task, as it was in one moment. What ends in `_json` is byte for byte what was written."""

    id: uuid.UUID
    root: uuid.UUID
    parent: Optional[uuid.UUID]
    status: Status
    type: str
    key: str
    key_scope: KeyScope
    payload_json: str
    state_json: str
    result_json: str
    failure: Optional[Failure]
    priority: int
    attempt: int
    max_attempts: int
    deliveries: int
    rescues: int
    woken_by: Wake
    resumed: bool
    cancel_requested: bool
    until: Until
    fence: int
    created_at: datetime
    due_at: Optional[datetime]
    started_at: Optional[datetime]
    ended_at: Optional[datetime]
    node: str
    lease_until: Optional[datetime]
    children: int
    open_children: int
    messages: int
    waiting_for: Tuple[uuid.UUID, ...]
    waiting_open: int
    waiting_need: int
    wake_on_failure: bool

    @property
    def payload(self) -> Any:
        """What it was submitted with."""
        return from_json(self.payload_json)

    @property
    def state(self) -> Any:
        """What its worker last wrote; None: nothing."""
        return from_json(self.state_json)

    @property
    def result(self) -> Any:
        """What it ended with; None: nothing, or that."""
        return from_json(self.result_json)

    @property
    def ended(self) -> bool:
        """Whether it has."""
        return self.ended_at is not None

    def value(self) -> Any:
        """The result of a task that has ended; TaskFailed or Cancelled when it came to none."""
        if self.status == Status.COMPLETED:
            return self.result
        if self.status == Status.CANCELLED:
            raise Cancelled(lib.NOCTER_CANCELLED, f"task {self.id} was cancelled")
        said = f"{self.failure.kind}: {self.failure.message}" if self.failure else f"it is {self.status.name}"
        problem = TaskFailed(lib.NOCTER_E_STATE, f"task {self.id}: {said}")
        problem.task = self
        raise problem


def _failure_of(raw: Any) -> Optional[Failure]:
    kind = string(raw.kind)
    if not kind:
        return None
    where, when = string(raw.node), sure_time(raw.at_ms)
    return Failure(kind, string(raw.message), string(raw.detail), raw.attempt, where, when)


def record_of(raw: Any) -> Record:
    """A copy of a nocter_task."""
    return Record(
        id=sure_id(raw.id),
        root=sure_id(raw.root),
        parent=id_of(raw.parent),
        status=Status(raw.status),
        type=string(raw.type),
        key=string(raw.key),
        key_scope=KeyScope(raw.key_scope),
        payload_json=string(raw.payload),
        state_json=string(raw.state),
        result_json=string(raw.result),
        failure=_failure_of(raw.failure),
        priority=raw.priority,
        attempt=raw.attempt,
        max_attempts=raw.max_attempts,
        deliveries=raw.deliveries,
        rescues=raw.rescues,
        woken_by=Wake(raw.woken_by),
        resumed=bool(raw.resumed),
        cancel_requested=bool(raw.cancel_requested),
        until=Until(raw.until),
        fence=raw.fence,
        created_at=sure_time(raw.created_at_ms),
        due_at=time_of(raw.due_at_ms),
        started_at=time_of(raw.started_at_ms),
        ended_at=time_of(raw.ended_at_ms),
        node=string(raw.node),
        lease_until=time_of(raw.lease_until_ms),
        children=raw.children,
        open_children=raw.open_children,
        messages=raw.messages,
        waiting_for=tuple(sure_id(raw.waiting_for[index]) for index in range(raw.waiting_for_count)),
        waiting_open=raw.waiting_open,
        waiting_need=raw.waiting_need,
        wake_on_failure=bool(raw.wake_on_failure),
    )


def taken_record(out: Any) -> Record:
    """Of the out-parameter of a call that worked; frees what C handed out."""
    try:
        return record_of(out[0])
    finally:
        lib.nocter_task_free(out[0])


def taken_records(out: Any) -> List[Record]:
    """The same of a nocter_task_list."""
    try:
        return [record_of(out.tasks[index]) for index in range(out.count)]
    finally:
        lib.nocter_task_list_free(out)


@dataclass(frozen=True)
class Message:
    """A message, as a round is handed it. `sender` is None when it came from outside."""

    sender: Optional[uuid.UUID]
    payload_json: str
    at: datetime
    deliveries: int

    @property
    def payload(self) -> Any:
        """What it says."""
        return from_json(self.payload_json)


@dataclass(frozen=True)
class Event:
    """One event of the log. `data` is the new state, or what the task ended with."""

    sequence: int
    at: datetime
    task: uuid.UUID
    kind: EventKind
    status: Status
    attempt: int
    type: str
    data_json: str

    @property
    def data(self) -> Any:
        """The value; None when the event has none."""
        return from_json(self.data_json)


def event_of(raw: Any) -> Event:
    """A copy of a nocter_event."""
    kind, status = EventKind(raw.kind), Status(raw.status)
    when, whose = sure_time(raw.at_ms), sure_id(raw.task)
    return Event(raw.sequence, when, whose, kind, status, raw.attempt, string(raw.type), string(raw.data))


@dataclass(frozen=True)
class TaskCounts:
    """How many records there are of each status, and the totals of a store, seen in one moment."""

    queued: int
    running: int
    suspended: int
    completed: int
    failed: int
    cancelled: int
    ready: int
    oldest_ready_ms: int
    rescues: int
    repairs: int
    purged: int
    runs: int


# ---- Submitting -------------------------------------------------------------------------------------------------


@dataclass
class Submission:
    """A task to be made. A payload of None is {}. A priority of None is 0, or for a child one more than its parent's."""

    type: str
    payload: Any = None
    key: Optional[str] = None
    key_scope: KeyScope = KeyScope.LIVE_TYPE
    parent: Optional[Id] = None
    priority: Optional[int] = None
    run_after: Optional[When] = None
    max_attempts: int = 1
    id: Optional[Id] = None


def native_submissions(submissions: Sequence[Submission], now_ms: int) -> Tuple[Any, List[Any]]:
    """The C array, and what it points to."""
    array, kept = ffi.new("nocter_submission[]", len(submissions)), []
    for native, given in zip(array, submissions):
        lib.nocter_submission_init(ffi.addressof(native), ffi.sizeof("nocter_submission"))
        texts = text(given.type), text(given.key or ""), text("") if given.payload is None else to_json(given.payload)
        native.type, native.key, native.payload = texts
        kept.append(texts)
        native.key_scope = given.key_scope
        if given.priority is not None:
            native.priority, native.flags = given.priority, lib.NOCTER_SUBMIT_PRIORITY
        native.parent, native.id = raw_id(given.parent), raw_id(given.id)
        native.run_after_ms = moment(given.run_after, now_ms)
        native.max_attempts = given.max_attempts
    return array, kept
