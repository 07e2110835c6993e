"""A worker's side of durable tasks: one round of a task, and the ways to end it."""

from __future__ import annotations

import enum
import traceback
import uuid
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, Iterable, List, Optional, Sequence, Tuple, Union

from . import _service as service
from ._errors import Exists, check, error
from ._ffi import ffi
from ._native import Handle, lib
from ._task_records import (
    Id,
    Message,
    Record,
    Span,
    Submission,
    Until,
    Wake,
    When,
    from_json,
    id_of,
    milliseconds,
    moment,
    native_submissions,
    raw_id,
    record_of,
    string,
    sure_id,
    sure_time,
    taken_records,
    text,
    to_json,
    written_json,
)
from ._waiting import Interrupt


class Reason(enum.IntEnum):
    """Why a run was interrupted."""

    NONE = lib.NOCTER_REASON_NONE
    CANCEL = lib.NOCTER_REASON_CANCEL
    LEASE_LOST = lib.NOCTER_REASON_LEASE_LOST
    STOP = lib.NOCTER_REASON_STOP


class Retry(enum.Enum):
    """What follows a failure, when it is not another try after a time."""

    BY_POLICY = lib.NOCTER_RETRY_BY_POLICY
    NEVER = lib.NOCTER_RETRY_NEVER


class Fail(Exception):
    """Raised by a handler: this try has failed, for that reason. `retry` may be a time to wait, or Retry.NEVER."""

    def __init__(
        self, kind: str, message: str = "", detail: str = "", *, retry: Union[Retry, Span] = Retry.BY_POLICY
    ) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind, self.message, self.detail, self.retry = kind, message, detail, retry


@dataclass(frozen=True)
class Suspension:
    """What a task waits for: a handler returns one. A message always wakes it, whatever it waits for."""

    until: Until
    ids: Tuple[Id, ...] = ()
    need: int = 0
    on_failure: bool = False
    wake_at: Optional[When] = None


@dataclass(frozen=True)
class HandBack:
    """What a handler returns to give its task back as if it had not been claimed."""


def suspend_until(
    ids: Iterable[Id], *, need: int = 0, on_failure: bool = False, wake_at: Optional[When] = None
) -> Suspension:
    """Until so many of these tasks have ended, all when `need` is 0; or one has failed; or a time has come."""
    return Suspension(Until.TASKS, tuple(ids), need, on_failure, wake_at)


def suspend_until_children(
    *, need: int = 0, on_failure: bool = False, wake_at: Optional[When] = None
) -> Suspension:
    """Until so many of the children have ended, all when `need` is 0; or one has failed; or a time has come."""
    return Suspension(Until.CHILDREN, (), need, on_failure, wake_at)


def suspend_until_notified(*, wake_at: Optional[When] = None) -> Suspension:
    """Until a message comes, or a time."""
    return Suspension(Until.NOTIFIED, (), 0, False, wake_at)


def hand_back() -> HandBack:
    """No try is spent: for workers that stop."""
    return HandBack()


def submit(call: Callable[[Any, int, Any], Any], given: Sequence[Submission], now_ms: int, exist_ok: bool) -> List[Any]:
    """Makes tasks by either of the C calls, and returns their identities."""
    if not given:
        return []
    array, kept = native_submissions(given, now_ms)
    out = ffi.new("nocter_task_id[]", len(given))
    status = call(array, len(given), out)
    del kept
    if status and status != lib.NOCTER_EXISTS:
        check(status)
    ids = [sure_id(each) for each in out]
    if status and not exist_ok:
        failure = error(status)
        assert isinstance(failure, Exists)
        failure.ids = ids
        raise failure
    return ids


class Run(Handle):
    """One round of a task: the one right to work on it, and the duty to end it. Left without an end, its worker is lost.

    What a run writes is refused with LeaseLost once somebody else has its task.
    """

    def __init__(self, pointer: Any, now_ms: Callable[[], int], stopping: Optional[Interrupt] = None) -> None:
        self._pointer, self._now_ms, self._stopping = pointer, now_ms, stopping
        #: The record as it was claimed.
        self.task: Record = record_of(lib.nocter_run_task(pointer))
        self._state_json = self.task.state_json
        #: The messages handed to this round, oldest first.
        self.messages: List[Message] = self._read_messages()

    def _read_messages(self) -> List[Message]:
        out, count = ffi.new("nocter_notification **"), ffi.new("size_t *")
        check(lib.nocter_run_notifications(self.pointer, out, count))
        given = [out[0][index] for index in range(count[0])]
        return [Message(id_of(m[0]), m[1], sure_time(m[2]), m[3]) for m in map(_message_fields, given)]

    # ---- What it was given ----

    @property
    def id(self) -> uuid.UUID:
        """Which task."""
        return self.task.id

    @property
    def payload(self) -> Any:
        """What the task was submitted with."""
        return self.task.payload

    @property
    def resumed(self) -> bool:
        """Whether the task has suspended before: False in its first round, on every try of that."""
        return self.task.resumed

    @property
    def woken_by(self) -> Wake:
        """Why this round was started."""
        return self.task.woken_by

    @property
    def fence(self) -> int:
        """Grows with every claim of the task: for what the run changes outside, so that it can refuse older ones."""
        return self.task.fence

    @property
    def cancelled(self) -> bool:
        """Whether the task was cancelled meanwhile."""
        return bool(lib.nocter_run_cancel_requested(self.pointer))

    @property
    def interrupt(self) -> Interrupt:
        """Raised on a cancel, a lost lease and the store's end: to carry in the waits of the run, until it ends."""
        return service.GuardInterrupt(self, lib.nocter_run_interrupt)

    @property
    def reason(self) -> Reason:
        """Why the run should end early; NONE: it should not. STOP also when the workers are being stopped."""
        heard = Reason(lib.nocter_run_interrupt_reason(self.pointer))
        if heard == Reason.NONE and self._stopping is not None and self._stopping.raised:
            return Reason.STOP
        return heard

    @property
    def interrupted(self) -> bool:
        """Whether there is a reason to end early: hand back, or be quick."""
        return self.reason != Reason.NONE

    # ---- During the round ----

    @property
    def shared(self) -> RunShared:
        """Values that the tasks of the tree share."""
        return RunShared(self)

    @property
    def state(self) -> Any:
        """The task's state, which every reader sees and every later round is given; None: there is none yet."""
        return from_json(self._state_json)

    @state.setter
    def state(self, value: Any) -> None:
        written = to_json(value)
        check(lib.nocter_run_update_state(self.pointer, written))
        self._state_json = written_json(written)

    def heartbeat(self) -> None:
        """Renews the lease, and asks whether the task is still this run's. Only needed with a store opened by_hand."""
        check(lib.nocter_run_heartbeat(self.pointer))

    def children(self) -> List[Record]:
        """The task's children as they are now, ended ones too."""
        out = ffi.new("nocter_task_list *")
        check(lib.nocter_run_children(self.pointer, out))
        return taken_records(out)

    def submit_child(self, type: str, payload: Any = None, *, exist_ok: bool = False, **more: Any) -> uuid.UUID:
        """Makes a child; `more` as in Submission. As Tasks.submit()."""
        return self.submit_children([Submission(type, payload, **more)], exist_ok=exist_ok)[0]

    def submit_children(self, submissions: Sequence[Submission], *, exist_ok: bool = False) -> List[uuid.UUID]:
        """Makes children, all or none. As Tasks.submit_many()."""
        pointer = self.pointer
        return submit(
            lambda array, count, out: lib.nocter_run_submit_child(pointer, array, count, out),
            submissions,
            self._now_ms(),
            exist_ok,
        )

    def notify(self, to: Id, payload: Any = None) -> None:
        """Sends a message from this task."""
        check(lib.nocter_run_notify(self.pointer, raw_id(to), _or_nothing(payload)))

    def notify_parent(self, payload: Any = None) -> None:
        """Sends a message to this task's parent."""
        check(lib.nocter_run_notify_parent(self.pointer, _or_nothing(payload)))

    def step(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` gave the first time: remembered for all later rounds and tries, in which it is not called."""
        known, value = self._known_step(name)
        return value if known else self._remember(name, make())

    async def astep(self, name: str, make: Callable[[], Awaitable[Any]]) -> Any:
        """The same of a coroutine function."""
        known, value = self._known_step(name)
        return value if known else self._remember(name, await make())

    def _known_step(self, name: str) -> Tuple[bool, Any]:
        out = ffi.new("nocter_text *")
        status = lib.nocter_run_step_get(self.pointer, text(name), out)
        if status == lib.NOCTER_EMPTY:
            return False, None
        check(status)
        return True, from_json(string(out))

    def _remember(self, name: str, value: Any) -> Any:
        written = to_json(value)
        status = lib.nocter_run_step_put(self.pointer, text(name), written)
        if status and status != lib.NOCTER_EXISTS:
            check(status)
        return self._known_step(name)[1] if status else from_json(written_json(written))

    def atomic(self) -> None:
        """From here on children, messages, state, steps and shared values commit with the outcome, or not at all."""
        check(lib.nocter_run_atomic(self.pointer))

    # ---- Outcomes: each closes the run, unless it raises something else than Cancelled and LeaseLost ----

    def done(self, result: Any = None) -> None:
        """The task has completed."""
        self._end(lib.nocter_run_done(self.pointer, to_json(result)))

    def fail(
        self, kind: str, message: str = "", detail: str = "", *, retry: Union[Retry, Span] = Retry.BY_POLICY
    ) -> None:
        """This try has failed."""
        failure, kept = ffi.new("nocter_failure *"), (text(kind), text(message), text(detail))
        lib.nocter_failure_init(failure, ffi.sizeof("nocter_failure"))
        failure.kind, failure.message, failure.detail = kept
        if isinstance(retry, Retry):
            failure.retry = retry.value
        else:
            failure.retry, failure.retry_after_ms = lib.NOCTER_RETRY_AFTER, milliseconds(retry)
        self._end(lib.nocter_run_fail(self.pointer, failure))

    def fail_with(self, problem: BaseException) -> None:
        """This try has failed with an exception: its class is the kind, its traceback the detail."""
        if isinstance(problem, Fail):
            self.fail(problem.kind, problem.message, problem.detail, retry=problem.retry)
        else:
            detail = "".join(traceback.format_exception(type(problem), problem, problem.__traceback__))
            self.fail(type(problem).__name__, str(problem), detail)

    def suspend(self, suspension: Suspension) -> None:
        """Ends the round and not the task, which holds no worker until what it waits for has happened."""
        native, count = ffi.new("nocter_suspension *"), len(suspension.ids)
        lib.nocter_suspension_init(native, ffi.sizeof("nocter_suspension"))
        ids = ffi.new("nocter_task_id[]", [raw_id(id) for id in suspension.ids])
        native.until, native.need, native.ids, native.count = suspension.until, suspension.need, ids, count
        native.flags = lib.NOCTER_WAKE_ON_FAILURE if suspension.on_failure else 0
        native.wake_at_ms = moment(suspension.wake_at, self._now_ms())
        self._end(lib.nocter_run_suspend(self.pointer, native))

    def hand_back(self) -> None:
        """Gives the task back as if it had not been claimed: no try is spent."""
        self._end(lib.nocter_run_hand_back(self.pointer))

    def finish(self, outcome: Any) -> None:
        """Ends it by what a handler returned; nothing when that has ended it itself."""
        if self.closed:
            return
        if isinstance(outcome, Suspension):
            self.suspend(outcome)
        elif isinstance(outcome, HandBack):
            self.hand_back()
        else:
            self.done(outcome)

    def _end(self, status: int) -> None:
        if status in (lib.NOCTER_OK, lib.NOCTER_CANCELLED, lib.NOCTER_E_LEASE_LOST):
            self._pointer = None
        check(status)

    def close(self) -> None:
        """Ends it without an outcome: its worker is lost, which counts as a failed try."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            lib.nocter_run_drop(pointer)

    def __del__(self) -> None:
        self.close()

    def _describe(self) -> str:
        return f"of {self.task.type} {self.task.id}, try {self.task.attempt}"


class RunShared:
    """Values that the tasks of one tree share, written in the name of a run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def put(self, key: str, value: Any) -> None:
        """Writes a value."""
        check(lib.nocter_run_shared_put(self._run.pointer, text(key), to_json(value)))

    def put_if_absent(self, key: str, value: Any) -> Tuple[bool, Any]:
        """Writes a value if there is none: whether it did, and the value there is now."""
        out = ffi.new("nocter_value **")
        status = lib.nocter_run_shared_put_if_absent(self._run.pointer, text(key), to_json(value), out)
        return put_if_absent_said(status, out, value)

    def get(self, key: str, default: Any = None) -> Any:
        """Reads a value; the default when there is none."""
        out = ffi.new("nocter_value **")
        return got(lib.nocter_run_shared_get(self._run.pointer, text(key), out), out, default)


def taken_value(out: Any) -> Any:
    """The value that a call handed out, which is freed."""
    try:
        return from_json(string(lib.nocter_value_text(out[0])))
    finally:
        lib.nocter_value_free(out[0])


def put_if_absent_said(status: int, out: Any, value: Any) -> Tuple[bool, Any]:
    """Whether it was written, and the value there is."""
    if status == lib.NOCTER_EXISTS:
        return False, taken_value(out)
    check(status)
    return True, value


def got(status: int, out: Any, default: Any) -> Any:
    """The value that was read."""
    if status == lib.NOCTER_EMPTY:
        return default
    check(status)
    return taken_value(out)


def _message_fields(raw: Any) -> Tuple[Any, str, int, int]:
    # `from` is a word of Python's, so that the field cannot be written as one.
    return getattr(raw, "from"), string(raw.payload), raw.at_ms, raw.deliveries


def _or_nothing(payload: Any) -> Tuple[Any, int]:
    return text("") if payload is None else to_json(payload)
