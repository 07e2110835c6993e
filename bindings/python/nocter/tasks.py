"""Durable tasks: submitted once, run by whoever serves their type, suspended without holding a thread, and still there
after the process was killed.

    tasks = nocter.tasks.open("sqlite:work.db")

    @tasks.handler("sum")
    def sum_up(ctx):
        if not ctx.resumed:
            for number in ctx.payload:
                ctx.submit_child("square", number)
            return nocter.tasks.suspend_until_children()
        return sum(child.result for child in ctx.children())

    @tasks.handler("square")
    def square(ctx):
        return ctx.payload**2

    with tasks, tasks.serve(4):
        print(tasks.wait(tasks.submit("sum", [1, 2, 3])).value())

A task is delivered at least once: a round whose worker died is made again, on whatever machine and in whatever language
its type is served. Payloads, results, states and messages are JSON. Every timeout is in seconds: None waits for ever,
zero does not wait.
"""

from __future__ import annotations

import time
import uuid
from datetime import datetime
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

from . import _service as service
from ._errors import check
from ._ffi import ffi
from ._native import Handle, lib
from ._task_aio import in_thread
from ._task_records import (
    Clock,
    Event,
    EventKind,
    Failure,
    Id,
    KeyScope,
    Message,
    Raw,
    Record,
    Span,
    Status,
    Submission,
    TaskCounts,
    TaskFailed,
    Until,
    Wake,
    When,
    milliseconds,
    moment,
    new_id,
    raw_id,
    sure_id,
    taken_record,
    taken_records,
    text,
    to_json,
)
from ._task_run import (
    Fail,
    HandBack,
    Reason,
    Retry,
    Run,
    Suspension,
    hand_back,
    submit,
    suspend_until,
    suspend_until_children,
    suspend_until_notified,
)
from ._task_serving import F, Handlers, TaskWorkers
from ._task_shared import Events, Lock, Shared
from ._waiting import Interrupt, wait_until_done

_SPANS = {"lease": "lease_ms", "retention": "retention_ms", "event_retention": "event_retention_ms"}
_SPANS.update(retry_base="retry_base_ms", retry_cap="retry_cap_ms", poll="poll_ms")


class Tasks(Handle):
    """An open store of tasks; made by open(). Any thread may use it."""

    suspend_until = staticmethod(suspend_until)
    suspend_until_children = staticmethod(suspend_until_children)
    suspend_until_notified = staticmethod(suspend_until_notified)
    hand_back = staticmethod(hand_back)

    def __init__(self, pointer: Any, url: str, clock: Optional[Clock]) -> None:
        self._pointer = pointer
        self._url, self._clock = url, clock
        #: What serve() works with.
        self.handlers = Handlers()

    def _now_ms(self) -> int:
        return time.time_ns() // 1_000_000 if self._clock is None else self._clock.now_ms

    # ---- Submitting ----

    def submit(
        self,
        type: str,
        payload: Any = None,
        *,
        key: Optional[str] = None,
        key_scope: KeyScope = KeyScope.LIVE_TYPE,
        parent: Optional[Id] = None,
        priority: Optional[int] = None,
        run_after: Optional[When] = None,
        max_attempts: int = 1,
        id: Optional[Id] = None,
        exist_ok: bool = False,
    ) -> uuid.UUID:
        """Makes a task, and returns when it is kept as surely as the store keeps anything.

        `run_after` is a point in time or a time from now. With an `id` from new_id() a submit may be repeated. When the
        key is taken, Exists names the task that has it; `exist_ok` returns that one instead.
        """
        made = Submission(type, payload, key, key_scope, parent, priority, run_after, max_attempts, id)
        return self.submit_many([made], exist_ok=exist_ok)[0]

    def submit_many(self, submissions: Sequence[Submission], *, exist_ok: bool = False) -> List[uuid.UUID]:
        """Makes tasks, all or none; the first may be the parent of a later one. Those whose keys are taken are left out:
        Exists names them, and the others were made all the same."""
        pointer = self.pointer
        return submit(
            lambda array, count, out: lib.nocter_tasks_submit(pointer, array, count, out),
            submissions,
            self._now_ms(),
            exist_ok,
        )

    # ---- Looking ----

    def get(self, id: Id) -> Record:
        """The record of a task; UnknownIdentity when there is none."""
        out = ffi.new("const nocter_task **")
        check(lib.nocter_tasks_get(self.pointer, raw_id(id), out))
        return taken_record(out)

    def children(self, id: Id) -> List[Record]:
        """The children of a task, ended ones too."""
        out = ffi.new("nocter_task_list *")
        check(lib.nocter_tasks_children(self.pointer, raw_id(id), out))
        return taken_records(out)

    def list(
        self,
        *,
        status: Optional[Status] = None,
        type: Optional[str] = None,
        parent: Optional[Id] = None,
        root: Optional[Id] = None,
        roots_only: bool = False,
        created_before: Optional[datetime] = None,
        after: Optional[Id] = None,
        limit: int = 100,
    ) -> List[Record]:
        """Tasks in the order in which they were made; `after` is the last one of the page before."""
        native, kept, out = ffi.new("nocter_task_filter *"), text(type or ""), ffi.new("nocter_task_list *")
        lib.nocter_task_filter_init(native, ffi.sizeof("nocter_task_filter"))
        native.status, native.type, native.limit, native.roots_only = status or 0, kept, limit, roots_only
        native.parent, native.root, native.after = raw_id(parent), raw_id(root), raw_id(after)
        native.created_before_ms = moment(created_before, 0)
        check(lib.nocter_tasks_list(self.pointer, native, out))
        return taken_records(out)

    def each(self, **filter: Any) -> Iterator[Record]:
        """All tasks that list() would give, page by page."""
        page = self.list(**filter)
        while page:
            yield from page
            filter["after"] = page[-1].id
            page = self.list(**filter)

    def wait(self, id: Id, timeout: Optional[float] = None, interrupt: Optional[Interrupt] = None) -> Record:
        """The record of a task once it has ended, wherever it runs. Pending or Timeout when it has not in time."""
        pointer, raw, out = self.pointer, raw_id(id), ffi.new("const nocter_task **")
        check(wait_until_done(lambda wait: lib.nocter_tasks_await(pointer, raw, wait, out), timeout, interrupt))
        return taken_record(out)

    async def ended(self, id: Id) -> Record:
        """wait() on a loop. The wait holds a thread, not the loop."""
        return await in_thread(lambda interrupt: self.wait(id, None, interrupt))

    async def result(self, id: Id) -> Any:
        """What a task came to, once it has ended; TaskFailed or Cancelled when it came to nothing."""
        return (await self.ended(id)).value()

    def count(self) -> TaskCounts:
        """Counts, seen in one moment."""
        return service.count("tasks", self.pointer, TaskCounts)

    # ---- Telling ----

    def notify(self, to: Id, payload: Any = None, *, sender: Optional[Id] = None) -> None:
        """Sends a message, which wakes the task if it is suspended, and is handed to one round that succeeds."""
        said = text("") if payload is None else to_json(payload)
        check(lib.nocter_tasks_notify(self.pointer, raw_id(to), raw_id(sender), said))

    def cancel(self, id: Id) -> int:
        """Ends a task and everything below it, and says how many were ended or asked to. StateError when it has ended."""
        out = ffi.new("uint64_t *")
        check(lib.nocter_tasks_cancel(self.pointer, raw_id(id), out))
        return int(out[0])

    def retry(self, id: Id) -> uuid.UUID:
        """Lets a task that waits out a delay run now; of one that has failed or was cancelled, makes a new root like it."""
        out = ffi.new("nocter_task_id *")
        check(lib.nocter_tasks_retry(self.pointer, raw_id(id), out))
        return sure_id(out)

    # ---- Upkeep ----

    def maintain(self) -> None:
        """Does now what the store's thread does by itself: what is due, lost workers, retention."""
        check(lib.nocter_tasks_maintain(self.pointer))

    def purge(self, older_than: Span = 0) -> int:
        """Removes trees of which every member ended longer ago than that, and says how many tasks."""
        out = ffi.new("uint64_t *")
        check(lib.nocter_tasks_purge(self.pointer, milliseconds(older_than), out))
        return int(out[0])

    # ---- Shared ----

    def shared(self, scope: Id) -> Shared:
        """The values of a scope: of a tree, by the identity of its root, with which they are purged; or any name."""
        return Shared(self, str(scope))

    def lock(self, name: str, lease: Span = 30, timeout: Optional[float] = None) -> Lock:
        """A lock to be taken by `with`, `async with` or acquire(); `timeout` is how long that waits."""
        return Lock(self, name, lease, timeout)

    def events(self, after: int = 0, *, follow: bool = True) -> Events:
        """The log of a store that was opened with events=True, from a point on."""
        return Events(self, after, follow)

    # ---- Working ----

    def handler(self, type: str) -> Callable[[F], F]:
        """Registers a function, sync or async, that works on tasks of a type. It is given a Run.

        What it returns is the task's result, unless it is one of suspend_until(), suspend_until_children(),
        suspend_until_notified() and hand_back(). What it raises is the failure of the try. What it asks of its run may
        wait for the disk; it shall not wait() for a task that only the same threads can work on.
        """
        return self.handlers.handler(type)

    def claim(
        self,
        types: Optional[List[str]] = None,
        maximum: int = 1,
        timeout: Optional[float] = None,
        interrupt: Optional[Interrupt] = None,
        *,
        stopping: Optional[Interrupt] = None,
    ) -> List[Run]:
        """Claims tasks that are due, by priority, then by age. Empty or Timeout when there is none in time."""
        pointer, kept = self.pointer, [text(type) for type in types or ()]
        names = ffi.new("nocter_text[]", kept) if kept else ffi.NULL
        if not 1 <= maximum <= 1000:
            raise ValueError(f"maximum must be from 1 to 1000, not {maximum}")
        out, count, call = ffi.new("nocter_run *[]", maximum), ffi.new("size_t *"), lib.nocter_tasks_claim
        check(
            wait_until_done(
                lambda wait: call(pointer, names, len(kept), maximum, wait, out, count), timeout, interrupt
            )
        )
        return [Run(out[index], self._now_ms, stopping) for index in range(count[0])]

    def serve(
        self,
        concurrency: int = 1,
        handlers: Optional[Dict[str, Callable[[Run], Any]]] = None,
        *,
        name: str = "nocter_tasks",
    ) -> TaskWorkers:
        """Works on tasks: so many rounds at once of handlers that block, each on a thread of Python's, and as many of
        async ones, on the running loop or, without one, on a loop of their own."""
        return TaskWorkers(self, dict(self.handlers if handlers is None else handlers), concurrency, name)

    # ---- The end ----

    def close(self) -> None:
        """Gives the store up: waits end with Closed, and what was claimed and not ended is handed back."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            lib.nocter_tasks_close(pointer)

    def __del__(self) -> None:
        self.close()

    async def __aenter__(self) -> Tasks:
        self.pointer  # a closed one cannot be entered
        return self

    async def __aexit__(self, kind: Any, value: Any, trace: Any) -> None:
        await in_thread(lambda _: self.close())

    def _describe(self) -> str:
        now = self.count()
        return f"{self._url}, {now.queued} queued, {now.running} running, {now.suspended} suspended"


def open(
    url: str,
    *,
    node: str = "",
    normal_sync: bool = False,
    events: bool = False,
    by_hand: bool = False,
    checked: bool = False,
    clock: Optional[Clock] = None,
    **limits: Any,
) -> Tasks:
    """Opens a store, and makes or brings up to date what it needs: "memory:", "sqlite:" and the path of a file, or
    "postgresql://user@host/database".

    `normal_sync`: commits of SQLite do not wait for the disk. `events`: every transition is kept as an event. `by_hand`:
    no thread of the library's, maintain() does what it would. `checked`: the whole database is read first, and damage is
    a StoreError. Times, as timedelta or seconds: lease, retention,
    event_retention, retry_base, retry_cap, poll. Limits: maximum_json, maximum_message, maximum_mailbox,
    maximum_mailbox_bytes, maximum_children, maximum_rescues.
    """
    options, kept, out = ffi.new("nocter_tasks_options *"), text(node), ffi.new("nocter_tasks **")
    lib.nocter_tasks_options_init(options, ffi.sizeof("nocter_tasks_options"))
    flags = {
        lib.NOCTER_TASKS_NORMAL_SYNC: normal_sync,
        lib.NOCTER_TASKS_EVENTS: events,
        lib.NOCTER_TASKS_BY_HAND: by_hand,
        lib.NOCTER_TASKS_CHECK: checked,
    }
    options.flags = sum(flag for flag, wanted in flags.items() if wanted)
    options.node = kept
    options.clock = ffi.NULL if clock is None else clock.pointer
    for name, value in limits.items():
        if name in _SPANS:
            setattr(options, _SPANS[name], milliseconds(value))
        elif name.startswith("maximum_") and hasattr(options, name):
            setattr(options, name, value)
        else:
            raise TypeError(f"a store has no option {name!r}")
    check(lib.nocter_tasks_open(text(url), options, out))
    return Tasks(out[0], url, clock)


__all__ = [
    "Clock",
    "Event",
    "EventKind",
    "Events",
    "Fail",
    "Failure",
    "HandBack",
    "Handlers",
    "KeyScope",
    "Lock",
    "Message",
    "Raw",
    "Reason",
    "Record",
    "Retry",
    "Run",
    "Shared",
    "Status",
    "Submission",
    "Suspension",
    "TaskCounts",
    "TaskFailed",
    "TaskWorkers",
    "Tasks",
    "Until",
    "Wake",
    "hand_back",
    "new_id",
    "open",
    "suspend_until",
    "suspend_until_children",
    "suspend_until_notified",
]

for _name in __all__:  # their public place is here, whichever file they are written in
    globals()[_name].__module__ = __name__
