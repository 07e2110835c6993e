"""What several tasks or processes agree on: values, leased locks, and the log of what happened."""

from __future__ import annotations

from typing import Any, AsyncIterator, Dict, Iterator, List, Optional, Tuple

from ._errors import Closed, Empty, LeaseLost, check
from ._ffi import ffi
from ._native import Handle, lib
from ._task_aio import in_thread
from ._task_records import Event, Span, event_of, from_json, milliseconds, string, text, to_json
from ._task_run import got, put_if_absent_said
from ._waiting import Interrupt, wait_until_done


class Shared:
    """The values of one scope: those of a tree, by the identity of its root, or those of any other name."""

    def __init__(self, tasks: Handle, scope: str) -> None:
        self._tasks, self._scope = tasks, scope

    def put_if_absent(self, key: str, value: Any) -> Tuple[bool, Any]:
        """Writes a value if there is none: whether it did, and the value there is now. One of all who try succeeds."""
        out, written = ffi.new("nocter_value **"), to_json(value)
        pointer, scope = self._tasks.pointer, text(self._scope)
        return put_if_absent_said(lib.nocter_shared_put_if_absent(pointer, scope, text(key), written, out), out, value)

    def put(self, key: str, value: Any) -> None:
        """Writes a value, whether there was one or not."""
        check(lib.nocter_shared_put(self._tasks.pointer, text(self._scope), text(key), to_json(value)))

    def get(self, key: str, default: Any = None) -> Any:
        """Reads a value; the default when there is none."""
        out = ffi.new("nocter_value **")
        return got(lib.nocter_shared_get(self._tasks.pointer, text(self._scope), text(key), out), out, default)

    def all(self) -> Dict[str, Any]:
        """Reads all values."""
        out = ffi.new("nocter_value_list *")
        check(lib.nocter_shared_all(self._tasks.pointer, text(self._scope), out))
        try:
            given = [out.values[index] for index in range(out.count)]
            return {string(each.key): from_json(string(each.value)) for each in given}
        finally:
            lib.nocter_value_list_free(out)

    def clear(self) -> None:
        """Removes all values."""
        check(lib.nocter_shared_clear(self._tasks.pointer, text(self._scope)))

    def __repr__(self) -> str:
        return f"<nocter.tasks.Shared {self._scope}>"


class Lock(Handle):
    """A lock that one owner at a time has, on whatever machine: from `with` or acquire() until release() or its lease ends.

        with tasks.lock("report", lease=30) as lock:
            write_report(fence=lock.fence)
    """

    def __init__(self, tasks: Handle, name: str, lease: Span, timeout: Optional[float]) -> None:
        self._tasks, self._name, self._lease, self._timeout = tasks, name, lease, timeout

    def acquire(self, interrupt: Optional[Interrupt] = None) -> "Lock":
        """Takes it. Held or Timeout when it is another's."""
        if self._pointer is not None:
            raise ValueError("this lock is held already")
        tasks, name, out = self._tasks.pointer, text(self._name), ffi.new("nocter_lock **")
        lease = milliseconds(self._lease)
        call = lib.nocter_lock_acquire
        check(wait_until_done(lambda wait: call(tasks, name, lease, wait, out), self._timeout, interrupt))
        self._pointer = out[0]
        return self

    @property
    def fence(self) -> int:
        """Greater than that of every acquisition of the name before: hand it to what the lock guards."""
        return int(lib.nocter_lock_fence(self.pointer))

    def renew(self, lease: Optional[Span] = None) -> None:
        """Holds it for longer; LeaseLost when its lease had ended."""
        check(lib.nocter_lock_renew(self.pointer, milliseconds(self._lease if lease is None else lease)))

    def release(self) -> None:
        """Gives it up; LeaseLost when its lease had ended before, and it may have been another's meanwhile."""
        pointer = self.pointer
        self._pointer = None
        check(lib.nocter_lock_release(pointer))

    def close(self) -> None:
        """Gives it up, if it is held, whatever is said about that."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            lib.nocter_lock_release(pointer)

    def __enter__(self) -> "Lock":
        return self.acquire()

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if self._pointer is None:
            return
        try:
            self.release()
        except LeaseLost:
            if value is None:  # what went wrong inside is worth more
                raise

    async def __aenter__(self) -> "Lock":
        return await in_thread(self.acquire)

    async def __aexit__(self, kind: Any, value: Any, trace: Any) -> None:
        await in_thread(lambda _: self.__exit__(kind, value, trace))

    def __del__(self) -> None:
        self.close()

    def _describe(self) -> str:
        return f"{self._name}, fence {self.fence}"


class Events:
    """What happened to the tasks of a store, in order, from a point on: for `for` and for `async for`.

    `after` is the sequence of the last event given. At the end of the log it waits for more, or ends when it is not to
    follow; it ends when the store is closed.
    """

    def __init__(self, tasks: Handle, after: int, follow: bool) -> None:
        self._tasks, self.after, self._follow = tasks, after, follow

    def read(
        self, maximum: int = 1000, timeout: Optional[float] = None, interrupt: Optional[Interrupt] = None
    ) -> List[Event]:
        """At least one event. Empty or Timeout when there is none in time."""
        pointer, after, out = self._tasks.pointer, self.after, ffi.new("nocter_event_list *")
        call = lib.nocter_events_read
        check(wait_until_done(lambda wait: call(pointer, after, maximum, wait, out), timeout, interrupt))
        try:
            events = [event_of(out.events[index]) for index in range(out.count)]
        finally:
            lib.nocter_event_list_free(out)
        return events

    def _batch(self, interrupt: Optional[Interrupt] = None) -> List[Event]:
        try:
            return self.read(timeout=None if self._follow else 0, interrupt=interrupt)
        except (Closed, Empty):
            return []

    def __iter__(self) -> Iterator[Event]:
        events = self._batch()
        while events:
            for event in events:
                self.after = event.sequence
                yield event
            events = self._batch()

    async def __aiter__(self) -> AsyncIterator[Event]:
        events = await in_thread(self._batch)
        while events:
            for event in events:
                self.after = event.sequence
                yield event
            events = await in_thread(self._batch)
